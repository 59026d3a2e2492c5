# SPDX-License-Identifier: Apache-2.0
"""oneDNN max and average pooling."""

from __future__ import annotations

from functools import partial

from syclsched.kernels.common import Activation
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.operations.conv import check_window, post_ops_of
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Shape, activations
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
    dtype = signature.dtypes["y"]
    check_window(window)
    if max(window.dilations) > 1:
        raise refuse("windows with gaps are left to its reference implementation")
    x, y = (activations(signature.shapes[name], dtype, channels_last=channels_last) for name in "xy")
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
    settings = (algorithm, strides, kernel, (0,) * window.ndim, begins, tuple(ends))
    ends_of_it = PrimitiveArgument("x", c_api.SRC, x), PrimitiveArgument("y", c_api.DST, y)
    return PrimitiveSpec(PrimitiveRequest("pooling", ends_of_it, settings, post_ops_of(activation)))
