# SPDX-License-Identifier: Apache-2.0
"""`conv`: convolution over any number of spatial axes, with bias, residual and activation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, REAL_DTYPES, numpy_implementation, with_recipe
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.convolution import conv_blocks, conv_groups, winograd_opencl, winograd_tiling
from syclsched.kernels.nn.convolution.conv_parameters import label, parameters, residual_of
from syclsched.kernels.nn.geometry import arranged, channels, last, size, spatial
from syclsched.kernels.nn.opencl_types import sum_dtype
from syclsched.kernels.onednn.operations import conv as onednn
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.windows import Convolution, Window
from syclsched.model.operation import Implementation, Operation, Signature, Split, Work


def _check(signature: Signature, *, window: Window, groups: int, last_: bool, bias: bool, residual: str) -> str | None:
    y, x, w = (signature.shapes[name] for name in ("y", "x", "w"))
    if not len(x) == len(w) == len(y) == window.ndim + 2:
        return f"y {y}, x {x} and w {w} have {window.ndim + 2} axes each"
    inside, outside = channels(x, last_), w[0]
    if w[1] * groups != inside or outside % groups:
        return f"w {w} does not fit the {inside} channels of x {x} in {groups} groups"
    wanted = arranged(x[0], window.extents(spatial(x, last_), w[2:]), outside, last_)
    if y != wanted:
        return f"y of x {x} and w {w} is {wanted}, not {y}"
    if bias and signature.shapes["b"] != (outside,):
        return f"b of w {w} is {(outside,)}, not {signature.shapes['b']}"
    if residual == "r" and signature.shapes["r"] != y:
        return f"r is as y {y}, not {signature.shapes['r']}"
    return None


def _work(signature: Signature, *, residual: str, extra: int) -> Work:
    w, dtype = signature.shapes["w"], signature.dtypes["y"]
    results = size(signature.shapes["y"])
    flops = results * (2.0 * size(w[1:]) + extra)
    # An in-place residual is read before it is written.
    again = results if residual == "y" else 0
    moved = (sum(map(size, signature.shapes.values())) + again) * ITEM_BYTES[dtype]
    return Work(flops, float(moved), dtype, float(max(1, results)))


def convolve(
    *,
    y: Any,
    x: Any,
    w: Any,
    b: Any = None,
    r: Any = None,
    window: Window,
    groups: int,
    last_: bool,
    activation: Activation,
    residual: str,
) -> None:
    """Compute a convolution with NumPy."""
    import numpy as np

    kernel, dtype = w.shape[2:], sum_dtype(str(y.dtype))
    target = last(y, last_)
    outputs = target.shape[1:-1]
    padded = window.padded(last(x, last_), kernel, outputs, 0).astype(dtype, copy=False)
    outside, inside = w.shape[:2]
    total = np.zeros((*target.shape[:-1], outside), dtype)
    pieces = total.reshape(-1, groups, outside // groups)
    # One BLAS product per kernel position needs no more memory than the result.
    for place, cut in window.places(kernel, outputs) if inside and total.size else ():
        rows = padded[(slice(None), *cut)].reshape(-1, groups, inside)
        weights = w[(..., *place)].reshape(groups, outside // groups, inside).astype(dtype, copy=False)
        if inside == 1 and outside == groups:
            pieces += rows * weights[:, :, 0].reshape(1, groups, 1)
        else:
            pieces += np.matmul(rows.transpose(1, 0, 2), weights.transpose(0, 2, 1)).transpose(1, 0, 2)
    if b is not None:
        total += b
    if residual:
        total += last(y if residual == "y" else r, last_)
    target[...] = act.numpy(activation, total)


def _winograd(convolution: Convolution, extra: Mapping[str, Any]) -> tuple[Implementation, ...]:
    """Return the Winograd implementation if there is one: fewer multiplications, different rounding."""
    if not winograd_opencl.is_supported(convolution.window, convolution.groups, convolution.channels_last):
        return ()
    return (
        Implementation(
            winograd_opencl.NAME,
            "opencl-c",
            partial(winograd_opencl.load, window=convolution.window, **extra),
            winograd_tiling.launch,
            replace(winograd_opencl.REQUIRES, refuses=winograd_opencl.refuses),
            efficiency=winograd_opencl.EFFICIENCY,
            revision="4",
            prepare=winograd_opencl.prepare,
            form=lambda signature, _: (winograd_opencl.NAME, winograd_tiling.tiling(signature).layout),
        ),
    )


def _refuses_empty(signature: Signature) -> str | None:
    empty = any(0 in shape for shape in signature.shapes.values())
    return "arrays must not be empty" if empty else None


@cache
def _conv(convolution: Convolution, bias: bool, residual: str) -> Operation:
    window, groups, activation = convolution.window, convolution.groups, convolution.activation
    attributes = {"window": window, "groups": groups, "last_": convolution.channels_last}
    extra = {"activation": activation, "bias": bias, "residual": residual}
    arrays = parameters(window.ndim, bias=bias, residual=residual)
    opencl, numba = (
        replace(each, prepare=partial(conv_blocks.prepare, **attributes), form=partial(conv_blocks.form, **attributes))
        for each in generated_implementations(
            arrays,
            partial(conv_blocks.write, **extra, **attributes),
            partial(conv_blocks.launch, **attributes),
            revision="8",
            numba_dtypes=REAL_DTYPES,
            takes_extents=partial(conv_blocks.takes_extents, **attributes),
        )
    )
    numba = replace(numba, requires=replace(numba.requires, refuses=_refuses_empty), efficiency=0.3)
    return Operation(
        name=label("conv", convolution, bias=bias, residual=residual),
        parameters=arrays,
        implementations=(
            onednn.conv(convolution, residual=residual),
            conv_groups.conv(convolution, bias=bias, residual=residual),
            opencl,
            *_winograd(convolution, extra),
            numba,
            numpy_implementation(partial(convolve, activation=activation, residual=residual, **attributes), 0.15),
        ),
        work=partial(_work, residual=residual, extra=bias + bool(residual) + act.cost(activation)),
        check=partial(_check, bias=bias, residual=residual, **attributes),
        split=Split(rows=("y", "x", *(["r"] if residual == "r" else [])), inexact=("numpy",)),
    )


@with_recipe
def conv(
    ndim: int,
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    groups: int = 1,
    channels_last: bool = False,
    activation: Activation = (),
    bias: bool = False,
    residual: bool = False,
    in_place: bool = False,
) -> Operation:
    """Return the convolution y = activation(conv(x, w) + b + r)."""
    window = Window.of(ndim, strides, pads, dilations)
    convolution = Convolution(window, int(groups), bool(channels_last), act.checked(activation))
    return _conv(convolution, bool(bias), residual_of(residual, in_place))
