# SPDX-License-Identifier: Apache-2.0
"""Importers of MaxUnpool, and of MaxPool with the indices of the largest elements that it takes."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.window_parameters import Windows, window_counts
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

Array = np.ndarray[Any, Any]

#: Elements of all windows of a plane, whose places are a constant.
_MOST_PLACES: Final = 1 << 24


def pooled_with_indices(b: NetworkBuilder, node: ModelNode, x: str, kernel: tuple[int, ...], windows: Windows) -> Names:
    """Return the largest element of each window, and its index among all elements."""
    shape = b.shape(x)
    counts = window_counts(kernel, windows, shape[2:], ceil=bool(node.flag("ceil_mode")))
    places = math.prod(counts) * math.prod(kernel)
    if x in b.lengths or b.dtype(x) not in FLOATS or min(windows.pads, default=0) < 0 or places > _MOST_PLACES:
        raise UnsupportedFormError
    if node.integer("storage_order") or 0 in shape or min(counts) < 1:
        raise UnsupportedFormError
    planes, size = shape[0] * shape[1], math.prod(shape[2:])
    table = _places(shape[2:], kernel, windows, counts)
    rows = b.reshape(x, (planes, size))
    picked = b.gather(b.pad(rows, (0, 0, 0, 1), value=-math.inf), b.constant(table), 1)
    largest = b.emit("arg", [picked], mode="max", axis=2, keepdims=False, last=False)
    number = ("add", 0, ("mul", ("index", -1), ("const", table.shape[1], "int64")))
    index = b.gather(b.constant(table.reshape(-1)), b.elementwise(number, largest))
    index = b.elementwise(("min", 0, ("const", size - 1, "int64")), index)  # of a window without numbers
    values = b.emit("gather_elements", [rows, index], axis=1)
    whole = b.elementwise(("add", 0, ("mul", ("index", -2), ("const", size, "int64"))), index)
    return [b.reshape(each, (*shape[:2], *counts)) for each in (values, whole)]


def _places(extents: tuple[int, ...], kernel: tuple[int, ...], windows: Windows, counts: tuple[int, ...]) -> Array:
    """Return for each window the places of its elements in a plane; those of pads are one after the last."""
    rank = len(extents)
    flat, is_inside = np.zeros((1,) * (2 * rank), np.int64), np.ones((1,) * (2 * rank), bool)
    for axis, extent in enumerate(extents):
        steps = np.arange(counts[axis])[:, None] * windows.strides[axis] - windows.pads[axis]
        along = steps + np.arange(kernel[axis]) * windows.dilations[axis]
        shape = [1] * (2 * rank)
        shape[axis], shape[axis + rank] = along.shape
        flat = flat * extent + along.reshape(shape)
        is_inside = is_inside & ((along >= 0) & (along < extent)).reshape(shape)
    return np.where(is_inside, flat, math.prod(extents)).reshape(math.prod(counts), math.prod(kernel))


@imports("MaxUnpool")
def _max_unpool(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import MaxUnpool: elements are put to their places among zeros."""
    (x, indices), wanted = inputs.first("X", "I"), inputs.optional(2)
    shape, rank = b.shape(x), len(b.shape(x)) - 2
    if b.dtype(x) not in FLOATS or any(each in b.lengths for each in inputs.given()):
        raise UnsupportedFormError
    if b.shape(indices) != shape:
        raise b.wrong(f"indices of shape {b.shape(indices)} for an input of shape {shape}")
    kernel = node.integers_or("kernel_shape")
    strides, pads = node.integers("strides") or (1,) * rank, node.integers("pads") or (0,) * (2 * rank)
    if rank < 1 or len(kernel) != rank or len(strides) != rank or len(pads) != 2 * rank:
        raise b.wrong(f"kernel {kernel}, strides {strides} and pads {pads} for an input of shape {shape}")
    extents = [(shape[i + 2] - 1) * strides[i] - pads[i] - pads[i + rank] + kernel[i] for i in range(rank)]
    made, total = (*shape[:2], *extents), math.prod((*shape[:2], *extents))
    whole = made if wanted is None else b.integers(wanted, "the shape of the output")
    if len(whole) != len(made) or any(n < own for n, own in zip(whole, made, strict=False)):
        raise b.wrong(f"an output of shape {whole} for elements of {made}")
    given = [b.filled((total,), b.dtype(x)), *(b.reshape(each, (math.prod(shape),)) for each in (indices, x))]
    placed = b.reshape(b.emit("scatter_elements", given, axis=0, reduction="none"), made)
    ends = [n - own for n, own in zip(whole, made, strict=True)]
    return [b.pad(placed, (*(0 for _ in made), *ends))]
