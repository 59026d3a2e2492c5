# SPDX-License-Identifier: Apache-2.0
"""oneDNN matrix products and convolutions of 8-bit numbers, with scales, zero point, bias and quantised result."""

from __future__ import annotations

import os
from functools import cache, partial
from math import prod

from syclsched.kernels.common import Activation
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.operations.conv import check_window, gaps, post_ops_of
from syclsched.kernels.onednn.post_ops import Eltwise
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest, QuantisationArgument, Setting
from syclsched.kernels.onednn.tensors import Tensor, activations, plain
from syclsched.kernels.windows import Convolution
from syclsched.model.operation import Implementation, Signature

_DTYPES = ("uint8", "int8", "int32", "float32")


def matmul(activation: Activation, quantise: tuple[float, int] | None) -> Implementation:
    """Return oneDNN's implementation of `kernels.nn.quantised.integer_matmul`."""
    describe = partial(_matmul, activation=activation, quantise=quantise)
    return implementation(describe, efficiency=3.0, dtypes=_DTYPES)


def conv(convolution: Convolution, activation: Activation, quantise: tuple[float, int] | None) -> Implementation:
    """Return oneDNN's implementation of `kernels.nn.quantised.integer_conv`."""
    describe = partial(_conv, convolution=convolution, activation=activation, quantise=quantise)
    return implementation(describe, efficiency=3.0, dtypes=_DTYPES)


@cache
def _multiplies_bytes() -> bool:
    """Return whether the processor adds products of bytes in 32 bits (VNNI), and oneDNN may use that."""
    from syclsched.processor_flags import read_flags

    return bool({"avx512_vnni", "avx_vnni"} & read_flags()) and "ONEDNN_MAX_CPU_ISA" not in os.environ


def _check(signature: Signature) -> None:
    if "w" not in signature.constants or signature.dtypes["w"] != "int8":
        raise refuse("weights are constant and of 8 bits")
    if signature.dtypes["z"] != "int32":
        raise refuse("a zero point has 32 bits")
    # It would add pairs of products in 16 bits, which saturate, and halve the weights for sources with a sign. Where
    # that is exact, for uint8 and weights of 7 bits, our kernels take less time.
    if not _multiplies_bytes():
        raise refuse("without VNNI, sums of products are not exact")


def _matmul(signature: Signature, *, activation: Activation, quantise: tuple[float, int] | None) -> PrimitiveSpec:
    _check(signature)
    shapes, dtypes = signature.shapes, signature.dtypes
    rows, (terms, columns) = prod(shapes["x"][:-1]), shapes["w"]
    x, y = plain((rows, terms), dtypes["x"]), plain((rows, columns), dtypes["y"])
    return _described(
        "matmul", signature, (x, plain((terms, columns), "int8"), y), (), (2, (1, columns)), activation, quantise
    )


def _conv(
    signature: Signature,
    *,
    convolution: Convolution,
    activation: Activation,
    quantise: tuple[float, int] | None,
) -> PrimitiveSpec:
    _check(signature)
    shapes, groups, window = signature.shapes, convolution.groups, convolution.window
    check_window(window)
    if not convolution.channels_last:
        raise refuse("channels are last")
    w = shapes["w"]
    x, y = (activations(shapes[name], signature.dtypes[name], channels_last=True) for name in "xy")
    weights = plain(w if groups == 1 else (groups, w[0] // groups, *w[1:]), "int8")
    settings = (window.strides, gaps(window), window.begins, window.ends)
    scales = (1 if groups == 1 else 3, w[:1])
    return _described("convolution", signature, (x, weights, y), settings, scales, activation, quantise)


def _described(
    kind: str,
    signature: Signature,
    tensors: tuple[Tensor, Tensor, Tensor],
    settings: tuple[Setting, ...],
    scales: tuple[int, tuple[int, ...]],
    activation: Activation,
    quantise: tuple[float, int] | None,
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
    numbers = [QuantisationArgument("z", c_api.ZERO_POINTS_OF | c_api.SRC, plain((1,), "int32"), 0)]
    if "s" in signature.shapes:
        count = prod(signature.shapes["s"])
        scale = plain((count,), "float32")
        numbers.append(QuantisationArgument("s", c_api.SCALES_OF | c_api.WEIGHTS, scale, mask if count > 1 else 0))
    residual = Tensor(y.dims, "float32", y.strides) if "r" in signature.shapes else None
    post_ops = list(post_ops_of(activation, residual))
    if quantise is not None:
        post_ops.append(Eltwise("linear", 1 / quantise[0], float(quantise[1])))
    request = PrimitiveRequest(kind, tuple(arguments), settings, tuple(post_ops), tuple(numbers))
    return PrimitiveSpec(request, {"w": w})
