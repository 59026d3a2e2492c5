# SPDX-License-Identifier: Apache-2.0
"""Importers of pooling operators: maximum, average and Lp norms, local and global."""

from __future__ import annotations

import math
from typing import Any

from syclsched.frontends.onnx.importing.extents import mean
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.window_parameters import (
    Windows,
    check_lengths,
    crop_negative_pads,
    windows_of,
)
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.kernels.nn.pooling.pool import MAX_DTYPES

Ints = tuple[int, ...]


@imports("MaxPool", "AveragePool")
def _pool(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import MaxPool and AveragePool; a MaxPool with the indices output is left to the host."""
    x = inputs.required(0, "X")
    mode = "max" if node.operator == "MaxPool" else "average"
    if len(node.outputs) > 1 and node.outputs[1]:
        raise UnsupportedFormError
    if b.dtype(x) not in (MAX_DTYPES if mode == "max" else FLOATS):
        raise UnsupportedFormError
    shape = b.shape(x)
    if len(shape) < 3:
        raise b.wrong(f"an input of shape {shape} has no spatial axes")
    kernel = node.integers_or("kernel_shape")
    windows = windows_of(b, node, kernel, shape[2:])
    check_lengths(b, node, x, windows)
    x, pads = crop_negative_pads(b, x, windows.pads)
    windows = windows._replace(pads=pads)
    extents = _window_counts(kernel, windows, b.shape(x)[2:], ceil=node.flag("ceil_mode"))
    if min(extents) < 1:
        raise b.wrong(f"windows {kernel} do not fit into {shape}")
    counted = node.flag("count_include_pad")
    return [_emit(b, x, mode, kernel, windows, shape=(*shape[:2], *extents), count_include_pad=counted)]


def _emit(b: NetworkBuilder, x: str, mode: str, kernel: Ints, windows: Windows, **rest: Any) -> str:
    return b.emit("pool", [x], mode=mode, kernel=kernel, **windows._asdict(), **rest, channels_last=False)


def _window_counts(kernel: Ints, windows: Windows, extents: Ints, *, ceil: bool) -> Ints:
    """Return the number of windows along each axis."""
    made: list[int] = []
    rank = len(extents)
    for i, n in enumerate(extents):
        span = n + windows.pads[i] + windows.pads[i + rank] - windows.dilations[i] * (kernel[i] - 1) - 1
        step = windows.strides[i]
        count = (-(-span // step) if ceil else span // step) + 1
        if ceil and (count - 1) * step >= n + windows.pads[i]:
            count -= 1
        made.append(count)
    return tuple(made)


@imports("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import global pooling: one window over all spatial axes."""
    x = inputs.required(0, "X")
    shape = b.shape(x)
    rank = len(shape) - 2
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    if rank < 1 or 0 in shape[2:]:
        raise b.wrong(f"an input of shape {shape} has nothing to pool")
    if any(each.axis > 1 for each in b.lengths.get(x, ())):
        axes = tuple(range(2, len(shape)))
        is_max = node.operator == "GlobalMaxPool"
        return [b.reduce("max", x, axes) if is_max else mean(b, x, axes, keepdims=True)]
    windows = Windows((1,) * rank, (1,) * rank, (0,) * (2 * rank))
    mode = "max" if node.operator == "GlobalMaxPool" else "average"
    return [_emit(b, x, mode, shape[2:], windows, count_include_pad=False)]


@imports("GlobalLpPool")
def _global_lp_pool(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import GlobalLpPool for the L1 and L2 norms."""
    x, p = inputs.required(0, "X"), node.integer("p", 2)
    if p not in (1, 2):
        raise UnsupportedFormError
    return [b.reduce(f"l{p}", x, range(2, len(b.shape(x))))]


@imports("LpPool")
def _lp_pool(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import LpPool: a mean over zero-padded windows times the window size gives the sum."""
    x, p = inputs.required(0, "X"), node.integer("p", 2)
    shape = b.shape(x)
    if b.dtype(x) not in FLOATS or p < 1 or node.integer("ceil_mode"):
        raise UnsupportedFormError
    kernel = node.integers_or("kernel_shape")
    windows = windows_of(b, node, kernel, shape[2:])
    kind = b.dtype(x)
    power = ("abs", 0) if p == 1 else ("square", 0) if p == 2 else ("pow", ("abs", 0), ("const", float(p), kind))
    mean = _emit(b, b.elementwise(power, x), "average", kernel, windows, count_include_pad=True)
    total = ("mul", 0, ("const", float(math.prod(kernel)), kind))
    root = total if p == 1 else ("sqrt", total) if p == 2 else ("pow", total, ("const", 1.0 / p, kind))
    return [b.elementwise(root, mean)]
