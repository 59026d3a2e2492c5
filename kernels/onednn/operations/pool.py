# SPDX-License-Identifier: Apache-2.0
"""oneDNN max and average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from syclsched.kernels.common import Activation
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.operations.conv import check_window, post_ops_of
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest, Setting
from syclsched.kernels.onednn.tensors import Shape, Tensor, activations
from syclsched.kernels.windows import Window
from syclsched.model.operation import Implementation, Signature


def pool(
    mode: str, kernel: Shape, window: Window, *, count_include_pad: bool, channels_last: bool, activation: Activation
) -> Implementation:
    """Return oneDNN's pooling: parameters y and x."""
    describe = partial(_pool, mode, kernel, window, count_include_pad, channels_last, activation)
    return implementation(describe, efficiency=0.5)


def _pool(
    mode: str,
    kernel: Shape,
    window: Window,
    include: bool,
    channels_last: bool,
    activation: Activation,
    signature: Signature,
) -> PrimitiveSpec:
    ends, settings = _described(signature, "xy", mode, kernel, window, include, channels_last)
    arguments = PrimitiveArgument("x", c_api.SRC, ends[0]), PrimitiveArgument("y", c_api.DST, ends[1])
    return PrimitiveSpec(PrimitiveRequest("pooling", arguments, settings, post_ops_of(activation)))


def pool_gradient(kernel: Shape, window: Window, *, count_include_pad: bool, channels_last: bool) -> Implementation:
    """Return oneDNN's gradient of average pooling: parameters y, x (not read), dy."""
    return implementation(partial(_pool_gradient, kernel, window, count_include_pad, channels_last), efficiency=0.5)


def _pool_gradient(
    kernel: Shape, window: Window, include: bool, channels_last: bool, signature: Signature
) -> PrimitiveSpec:
    ends, settings = _described(signature, ("y", "dy"), "average", kernel, window, include, channels_last)
    arguments = PrimitiveArgument("dy", c_api.DIFF_DST, ends[1]), PrimitiveArgument("y", c_api.DIFF_SRC, ends[0])
    return PrimitiveSpec(PrimitiveRequest("pooling_gradient", arguments, settings))


def _described(
    signature: Signature,
    names: Sequence[str],
    mode: str,
    kernel: Shape,
    window: Window,
    include: bool,
    channels_last: bool,
) -> tuple[tuple[Tensor, Tensor], tuple[Setting, ...]]:
    """Return the arrays that pooling reads and makes, or their gradients, and a primitive's settings."""
    check_window(window)
    if max(window.dilations) > 1:
        raise refuse("windows with gaps are left to its reference implementation")
    x, y = (activations(signature.shapes[n], signature.dtypes[n], channels_last=channels_last) for n in names)
    strides, begins, ends = window.strides, window.begins, list(window.ends)
    for axis in range(window.ndim):
        extent, count = x.dims[axis + 2], y.dims[axis + 2]
        span = kernel[axis]
        last = (count - 1) * strides[axis] - begins[axis]
        if begins[axis] >= span or last >= extent:
            raise refuse("a window has nothing but pads in it")
        beyond = last + span - extent - ends[axis]
        if beyond > 0:
            if include:
                raise refuse("the last windows reach beyond the pads, which do not count there")
            ends[axis] += beyond
    algorithm = c_api.POOLING[mode, int(include)]
    return (x, y), (algorithm, strides, kernel, (0,) * window.ndim, begins, tuple(ends))
