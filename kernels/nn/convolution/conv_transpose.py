# SPDX-License-Identifier: Apache-2.0
"""`conv_transpose`: transposed convolution over any number of spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, Ints, numpy_implementation, with_recipe
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.convolution import conv_transpose_blocks
from syclsched.kernels.nn.convolution.conv_parameters import label, parameters
from syclsched.kernels.nn.geometry import arranged, channels, last, size, spatial
from syclsched.kernels.nn.opencl_types import sum_dtype
from syclsched.kernels.onednn.operations import conv as onednn
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.windows import Convolution, Window, spread, times
from syclsched.model.operation import Operation, Signature, Split, Work


def extents(window: Window, sizes: Ints, kernel: Ints, output_padding: Ints) -> Ints:
    """Return the spatial extents of a transposed convolution's result."""
    return tuple(
        (count - 1) * stride + span + extra - begin - end
        for count, stride, span, extra, begin, end in zip(
            sizes, window.strides, window.reach(kernel), output_padding, window.begins, window.ends, strict=True
        )
    )


def _check(
    signature: Signature, *, window: Window, output_padding: Ints, groups: int, last_: bool, bias: bool
) -> str | None:
    y, x, w = (signature.shapes[name] for name in ("y", "x", "w"))
    if not len(x) == len(w) == len(y) == window.ndim + 2:
        return f"y {y}, x {x} and w {w} have {window.ndim + 2} axes each"
    inside, outside = channels(x, last_), w[1] * groups
    if w[0] != inside or inside % groups:
        return f"w {w} does not fit the {inside} channels of x {x} in {groups} groups"
    wanted = arranged(x[0], extents(window, spatial(x, last_), w[2:], output_padding), outside, last_)
    if y != wanted:
        return f"y of x {x} and w {w} is {wanted}, not {y}"
    if bias and signature.shapes["b"] != (outside,):
        return f"b of w {w} is {(outside,)}, not {signature.shapes['b']}"
    return None


def _work(signature: Signature, *, extra: int) -> Work:
    w, dtype = signature.shapes["w"], signature.dtypes["y"]
    flops = 2.0 * size(signature.shapes["x"]) * size(w[1:]) + extra * size(signature.shapes["y"])
    moved = sum(map(size, signature.shapes.values())) * ITEM_BYTES[dtype]
    return Work(flops, float(moved), dtype, float(max(1, size(signature.shapes["y"]))))


def _host(
    *,
    y: Any,
    x: Any,
    w: Any,
    b: Any = None,
    window: Window,
    output_padding: Ints,
    groups: int,
    last_: bool,
    activation: Activation,
) -> None:
    import numpy as np

    kernel, dtype = w.shape[2:], sum_dtype(str(y.dtype))
    source, target = last(x, last_), last(y, last_)
    inside, outside = w.shape[0] // groups, w.shape[1]
    sizes = source.shape[1:-1]
    # A negative pad at the beginning adds positions there that receive nothing.
    starts = tuple(max(0, -begin) for begin in window.begins)
    whole = tuple(
        max(out + begin, (count - 1) * stride + span) + start
        for out, begin, count, stride, span, start in zip(
            target.shape[1:-1], window.begins, sizes, window.strides, window.reach(kernel), starts, strict=True
        )
    )
    total = np.zeros((source.shape[0], *whole, groups * outside), dtype)
    rows = source.reshape(math.prod(source.shape[:-1]), groups, inside).transpose(1, 0, 2).astype(dtype, copy=False)
    for place, cut in window.places(kernel, sizes):
        weights = w[(..., *place)].reshape(groups, inside, outside).astype(dtype, copy=False)
        moved = (slice(each.start + by, each.stop + by, each.step) for each, by in zip(cut, starts, strict=True))
        total[(slice(None), *moved)] += (
            np.matmul(rows, weights).transpose(1, 0, 2).reshape(*source.shape[:-1], groups * outside)
        )
    # Output beyond the last position that receives a contribution stays zero.
    begins = (begin + start for begin, start in zip(window.begins, starts, strict=True))
    part = total[(slice(None), *(slice(at, at + n) for at, n in zip(begins, target.shape[1:-1], strict=True)))]
    if b is not None:
        part = part + b
    target[...] = act.numpy(activation, part)


@cache
def _conv_transpose(convolution: Convolution, output_padding: Ints, bias: bool) -> Operation:
    window, activation = convolution.window, convolution.activation
    within = {"window": window, "groups": convolution.groups, "last_": convolution.channels_last}
    attributes = {**within, "output_padding": output_padding}
    more = f"o{times(output_padding)}" if any(output_padding) else ""
    arrays = parameters(window.ndim, bias=bias)
    opencl, _ = generated_implementations(
        arrays,
        partial(conv_transpose_blocks.write, bias=bias, activation=activation, **within),
        partial(conv_transpose_blocks.launch, **within),
        efficiency=0.4,
        revision="5",
    )
    return Operation(
        name=label("conv_transpose", convolution, more=more, bias=bias),
        parameters=arrays,
        implementations=(
            onednn.conv_transpose(convolution, output_padding=output_padding),
            replace(
                opencl,
                prepare=partial(conv_transpose_blocks.prepare, **within),
                form=partial(conv_transpose_blocks.form, **within),
            ),
            numpy_implementation(partial(_host, activation=activation, **attributes), efficiency=0.1),
        ),
        work=partial(_work, extra=bias + act.cost(activation)),
        check=partial(_check, bias=bias, **attributes),
        split=Split(rows=("y", "x"), inexact=("onednn", "numpy")),
    )


@with_recipe
def conv_transpose(
    ndim: int,
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    groups: int = 1,
    channels_last: bool = False,
    activation: Activation = (),
    bias: bool = False,
    output_padding: Sequence[int] = (),
) -> Operation:
    """Return the transposed convolution y = activation(conv_transpose(x, w) + b)."""
    window = Window.of(ndim, strides, pads, dilations)
    extra = spread(output_padding, ndim, 0, "output_padding")
    convolution = Convolution(window, int(groups), bool(channels_last), act.checked(activation))
    return _conv_transpose(convolution, extra, bool(bias))
