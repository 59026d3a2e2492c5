# SPDX-License-Identifier: Apache-2.0
"""oneDNN matrix products and convolutions of 8-bit numbers, with scales, zero point, bias and quantised result."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, partial
from math import prod

from syclsched.kernels.common import Activation
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.operations.conv import check_window, gaps, post_ops_of
from syclsched.kernels.onednn.post_ops import Binary, Eltwise, PostOp
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest, QuantisationArgument, Setting
from syclsched.kernels.onednn.tensors import Tensor, activations, plain
from syclsched.kernels.quantisation import LIMITS, QuantisedAddend
from syclsched.kernels.windows import Convolution
from syclsched.model.operation import Implementation, Signature

_DTYPES = ("uint8", "int8", "int32", "float32")


@dataclass(frozen=True, slots=True)
class ScaledSum:
    """Steps after a sum of products is scaled: a residual if there is one, an activation, quantisation."""

    activation: Activation
    quantise: tuple[float, int] | None
    addend: QuantisedAddend | None


def matmul(steps: ScaledSum) -> Implementation:
    """Return oneDNN's implementation of `kernels.nn.quantised.integer_matmul`."""
    describe = partial(_matmul, steps=steps)
    return implementation(describe, efficiency=3.0, dtypes=_DTYPES)


def conv(convolution: Convolution, steps: ScaledSum) -> Implementation:
    """Return oneDNN's implementation of `kernels.nn.quantised.integer_conv`."""
    describe = partial(_conv, convolution=convolution, steps=steps)
    return implementation(describe, efficiency=3.0, dtypes=_DTYPES)


@cache
def _multiplies_bytes() -> bool:
    """Return whether the processor adds products of bytes in 32 bits (VNNI), and oneDNN may use that."""
    from syclsched.processor_flags import read_flags

    return bool({"avx512_vnni", "avx_vnni"} & read_flags()) and "ONEDNN_MAX_CPU_ISA" not in os.environ


def _check(signature: Signature) -> None:
    if "w" not in signature.constants or signature.dtypes["w"] != "int8":
        raise refuse("weights are constant and of 8 bits")
    if signature.dtypes.get("z", "int32") != "int32":
        raise refuse("a zero point has 32 bits")
    # It would add pairs of products in 16 bits, which saturate, and halve the weights for sources with a sign. Where
    # that is exact, for uint8 and weights of 7 bits, our kernels take less time.
    if not _multiplies_bytes():
        raise refuse("without VNNI, sums of products are not exact")


def _matmul(signature: Signature, *, steps: ScaledSum) -> PrimitiveSpec:
    _check(signature)
    shapes, dtypes = signature.shapes, signature.dtypes
    rows, (terms, columns) = prod(shapes["x"][:-1]), shapes["w"]
    x, y = plain((rows, terms), dtypes["x"]), plain((rows, columns), dtypes["y"])
    w = plain((terms, columns), "int8")
    return _described("matmul", signature, (x, w, y), (), (2, (1, columns)), steps)


def _conv(signature: Signature, *, convolution: Convolution, steps: ScaledSum) -> PrimitiveSpec:
    _check(signature)
    shapes, groups, window = signature.shapes, convolution.groups, convolution.window
    check_window(window)
    if not convolution.channels_last:
        raise refuse("channels are last")
    w = shapes["w"]
    spans = [(count - 1) * step + 1 for count, step in zip(w[2:], window.dilations, strict=True)]
    pads = map(max, window.begins, window.ends)
    if any(pad >= span for pad, span in zip(pads, spans, strict=True)):  # its convolutions of bytes then may crash
        raise refuse("no window lies in padding as a whole")
    x, y = (activations(shapes[name], signature.dtypes[name], channels_last=True) for name in "xy")
    weights = plain(w if groups == 1 else (groups, w[0] // groups, *w[1:]), "int8")
    settings = (window.strides, gaps(window), window.begins, window.ends)
    scales = (1 if groups == 1 else 3, w[:1])
    return _described("convolution", signature, (x, weights, y), settings, scales, steps)


def _described(
    kind: str,
    signature: Signature,
    tensors: tuple[Tensor, Tensor, Tensor],
    settings: tuple[Setting, ...],
    scales: tuple[int, tuple[int, ...]],
    steps: ScaledSum,
) -> PrimitiveSpec:
    """Describe a primitive; ``scales`` are the mask of scales by column, and the shape of a bias."""
    x, w, y = tensors
    mask, per_column = scales
    arguments = [
        PrimitiveArgument("x", c_api.SRC, x),
        PrimitiveArgument("w", c_api.WEIGHTS, w.with_any_layout()),
        PrimitiveArgument("y", c_api.DST, y),
    ]
    if "b" in signature.shapes:
        arguments.append(PrimitiveArgument("b", c_api.BIAS, plain(per_column, "float32")))
    numbers: list[QuantisationArgument] = []
    if "z" in signature.shapes:
        numbers.append(QuantisationArgument("z", c_api.ZERO_POINTS_OF | c_api.SRC, plain((1,), "int32"), 0))
    if "s" in signature.shapes:
        count = prod(signature.shapes["s"])
        scale = plain((count,), "float32")
        numbers.append(QuantisationArgument("s", c_api.SCALES_OF | c_api.WEIGHTS, scale, mask if count > 1 else 0))
    if "sx" in signature.shapes:
        numbers.append(QuantisationArgument("sx", c_api.SCALES_OF | c_api.SRC, plain((1,), "float32"), 0))
    request = PrimitiveRequest(kind, tuple(arguments), settings, _post_ops(signature, y, steps), tuple(numbers))
    return PrimitiveSpec(request, {"w": w})


def _post_ops(signature: Signature, y: Tensor, steps: ScaledSum) -> tuple[PostOp, ...]:
    """Return the post-ops of the steps; the library itself rounds and saturates what it stores."""
    residual = Tensor(y.dims, signature.dtypes["r"], y.strides) if "r" in signature.shapes else None
    addend, scale, before = steps.addend, 1.0, list[PostOp]()
    if addend is not None:
        assert residual is not None
        step, zero = addend.own
        low, high = (limit - zero for limit in LIMITS[addend.dtype])
        if addend.other is None:
            residual = plain(tuple(n if axis == 1 else 1 for axis, n in enumerate(y.dims)), "float32")
            same_unit = Eltwise("linear", step)
        else:  # the residual is added as it is, to a result in its unit and less its zero point
            scale = addend.other[0]
            same_unit = Eltwise("linear", step / scale, -addend.other[1])
        rounded = (Eltwise("linear", 1 / step), Eltwise("round"), Eltwise("clip", low, high))
        before = [*post_ops_of(addend.activation), *rounded, same_unit, Binary("add", residual, "r")]
        residual = None
    after = list(post_ops_of(steps.activation, residual))
    if scale != 1 and (after or steps.quantise is None):
        before.append(Eltwise("linear", scale))
        scale = 1.0
    if steps.quantise is not None:
        unit, zero = steps.quantise
        # Sums of quantised values are often halves, which an odd zero point would round to the other side.
        apart = addend is not None and zero % 2
        after.append(Eltwise("linear", scale / unit, 0.0 if apart else float(zero)))
        after += [Eltwise("round"), Eltwise("linear", 1.0, float(zero))] if apart else []
    return (*before, *after)
