# SPDX-License-Identifier: Apache-2.0
"""Importers of pooling operators: maximum, average and Lp norms, local and global."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.extents import mean
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.lengths import Length
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.maxima import places_of_maxima
from syclsched.frontends.onnx.importing.nn.window_parameters import (
    OpenWindows,
    Windows,
    check_lengths,
    crop_negative_pads,
    window_counts,
    windows_of,
    with_open_windows,
)
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.kernels.nn.pooling.pool import MAX_DTYPES

Ints = tuple[int, ...]
#: Most elements of all windows of a picture, if there is one at each place, whose places become a constant.
_MOST_PLACES: Final = 1 << 26


@imports("MaxPool", "AveragePool")
def _pool(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import MaxPool and AveragePool."""
    x = inputs.required(0, "X")
    mode = "max" if node.operator == "MaxPool" else "average"
    if b.dtype(x) not in (MAX_DTYPES if mode == "max" else FLOATS):
        raise UnsupportedFormError
    shape = b.shape(x)
    if len(shape) < 3:
        raise b.wrong(f"an input of shape {shape} has no spatial axes")
    kernel = node.integers_or("kernel_shape")
    windows = windows_of(b, node, kernel, shape[2:])
    check_lengths(b, x, windows)
    counted = node.flag("count_include_pad")
    has_indices = len(node.outputs) > 1 and bool(node.outputs[1])
    if has_indices and not math.prod(shape):
        raise UnsupportedFormError
    if has_indices and math.prod((*shape[2:], *kernel)) > _MOST_PLACES:
        raise UnsupportedFormError
    is_open = any(each.axis > 1 for each in b.lengths.get(x, ()))
    has_pads = any(windows.pads) or node.flag("ceil_mode") or node.text("auto_pad").startswith("SAME")
    if mode == "average" and is_open and has_pads:
        return [_open_average(b, node, x, kernel, windows)]
    made = _windowed(b, node, x, mode, kernel, windows, count_include_pad=counted)
    return [made, places_of_maxima(b, node, x, kernel, windows, made)] if has_indices else [made]


def _windowed(
    b: NetworkBuilder, node: ModelNode, x: str, mode: str, kernel: Ints, windows: Windows, *, count_include_pad: bool
) -> str:
    """Return the pooled value of a node."""
    lowest = -math.inf if b.dtype(x) in FLOATS else int(np.iinfo(b.dtype(x)).min)
    opened = with_open_windows(b, node, x, kernel, windows, lowest if mode == "max" else 0)
    x, pads = crop_negative_pads(b, opened.x, opened.windows.pads)
    windows, shape = opened.windows._replace(pads=pads), b.shape(x)
    extents = _window_counts(b, node, kernel, windows, opened, x)
    if min(extents) < 1:
        raise b.wrong(f"windows {kernel} do not fit into {shape}")
    made = _emit(b, x, mode, kernel, windows, shape=(*shape[:2], *extents), count_include_pad=count_include_pad)
    return opened.lengthened(b, made)


def _window_counts(
    b: NetworkBuilder, node: ModelNode, kernel: Ints, windows: Windows, opened: OpenWindows, x: str
) -> Ints:
    """Return the number of windows along each axis, of which those with pads in the value have no further ones."""
    rounded = (window_counts(kernel, windows, b.shape(x)[2:], ceil=ceil) for ceil in (False, node.flag("ceil_mode")))
    return tuple(whole if i + 2 in opened.counts else n for i, (whole, n) in enumerate(zip(*rounded, strict=True)))


def _open_average(b: NetworkBuilder, node: ModelNode, x: str, kernel: Ints, windows: Windows) -> str:
    """Return means over windows of which parts lie beyond a length: their sums by those of how much counts in them."""
    rank, counts_pads, kind = len(kernel), node.flag("count_include_pad"), b.dtype(x)
    total = _windowed(b, node, x, "average", kernel, windows, count_include_pad=True)
    if counts_pads and not node.flag("ceil_mode"):
        return total
    if counts_pads:  # those that are not of the model's pads
        margins = (0, 0, *windows.pads[:rank], 0, 0, *windows.pads[rank:])
        whole = b.pad(b.filled((1, 1, *b.shape(x)[2:]), kind, 1.0, folded=False), margins, "constant", 1.0)
        lengths = [(each.axis, each.count) for each in b.lengths[x] if each.axis > 1]
        added = {axis: windows.pads[axis - 2] + windows.pads[axis - 2 + rank] for axis, _ in lengths}
        longer = [Length(axis, b.elementwise(("add", 0, ("const", added[axis], "int64")), n)) for axis, n in lengths]
        b.give_lengths(whole, longer)
        windows = windows._replace(pads=(0,) * (2 * rank))
    else:
        whole = b.filled((1, 1, *b.shape(x)[2:]), kind, 1.0, folded=False)
        b.give_lengths(whole, [each for each in b.lengths[x] if each.axis > 1])
    share = _windowed(b, node, whole, "average", kernel, windows, count_include_pad=True)
    lengths_of_total = [each for each in b.lengths.get(total, ()) if each.axis > 1]
    b.give_lengths(share, lengths_of_total)
    return b.elementwise(("div", 0, 1), total, share)


def _emit(b: NetworkBuilder, x: str, mode: str, kernel: Ints, windows: Windows, **rest: Any) -> str:
    return b.emit("pool", [x], mode=mode, kernel=kernel, **windows._asdict(), **rest, channels_last=False)


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
    check_lengths(b, x, windows)
    mean = _windowed(b, node, b.elementwise(power, x), "average", kernel, windows, count_include_pad=True)
    total = ("mul", 0, ("const", float(math.prod(kernel)), kind))
    root = total if p == 1 else ("sqrt", total) if p == 2 else ("pow", total, ("const", 1.0 / p, kind))
    return [b.elementwise(root, mean)]
