# SPDX-License-Identifier: Apache-2.0
"""Importers of gather and scatter operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


def _indices(b: NetworkBuilder, inputs: Inputs, x: str, axes: Sequence[int]) -> str:
    """Return the indices input; constant indices are range-checked."""
    name = inputs.required(1, "indices")
    if b.dtype(name) not in ("int32", "int64"):
        raise b.wrong(f"indices are {b.dtype(name)}, expected int32 or int64")
    array, shape = b.known(name), b.shape(x)
    if array is not None and array.size:
        columns = [(axes[0], array)] if len(axes) == 1 else [(a, array[..., i]) for i, a in enumerate(axes)]
        for axis, column in columns:
            low, high = int(column.min()), int(column.max())
            if low < -shape[axis] or high >= shape[axis]:
                raise b.wrong(f"index {low if low < -shape[axis] else high} is outside axis {axis} of {shape}")
    return name


@imports("Gather", "GatherElements")
def _gather(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "data")
    axis = b.axis(node.integer("axis"), len(b.shape(x)))
    indices = _indices(b, inputs, x, (axis,))
    if b.shape(x)[axis] == 0 and 0 not in b.shape(indices):
        raise b.wrong(f"axis {axis} of {b.shape(x)} has no elements to pick")
    return [b.emit("gather" if node.operator == "Gather" else "gather_elements", [x, indices], axis=axis)]


@imports("GatherND")
def _gather_nd(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, batch = inputs.required(0, "data"), node.integer("batch_dims")
    shape = b.shape(inputs.required(1, "indices"))
    depth = shape[-1] if shape else 0
    if not 1 <= depth <= len(b.shape(x)) - batch:
        raise b.wrong(f"indices {shape} are no indices into {b.shape(x)} with {batch} batch axes")
    indices = _indices(b, inputs, x, range(batch, batch + depth)) if depth > 1 else inputs.required(1, "indices")
    return [b.emit("gather_nd", [x, indices], batch_dims=batch)]


@imports("Scatter", "ScatterElements")
def _scatter_elements(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import ScatterElements, named Scatter before opset 11."""
    x, updates = inputs.required(0, "data"), inputs.required(2, "updates")
    axis = b.axis(node.integer("axis"), len(b.shape(x)))
    indices = _indices(b, inputs, x, (axis,))
    return _scattered(b, node, "scatter_elements", x, indices, updates, axis=axis)


@imports("ScatterND")
def _scatter_nd(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    return _scattered(b, node, "scatter_nd", *inputs.first("data", "indices", "updates"))


def _scattered(
    b: NetworkBuilder, node: ModelNode, kind: str, x: str, indices: str, updates: str, **options: Any
) -> Names:
    """Return a scattered value; sums and products of truth values are their disjunctions and conjunctions."""
    reduction = _reduction(b, node)
    if b.dtype(x) != "bool" or reduction not in ("add", "mul"):
        return [b.emit(kind, [x, indices, updates], reduction=reduction, **options)]
    numbers, added = b.cast(x, "int32"), b.cast(updates, "int32")
    made = b.emit(kind, [numbers, indices, added], reduction={"add": "max", "mul": "min"}[reduction], **options)
    return [b.cast(made, "bool")]


@imports("TensorScatter")
def _tensor_scatter(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import TensorScatter of a cache that is carried from call to call: it is written in place."""
    cache, update = inputs.first("past_cache", "update")
    shape, rows, starts = b.shape(cache), b.shape(update), inputs.optional(2)
    if (
        cache not in b.carried
        or len(shape) not in (3, 4)
        or b.axis(node.integer("axis", -2), len(shape)) != len(shape) - 2
    ):
        raise UnsupportedFormError
    given = [
        b.reshape(each, (n[0], 1, *n[1:])) if len(n) == 3 else each for each, n in ((cache, shape), (update, rows))
    ]
    starts = b.filled(shape[:1], "int64") if starts is None else starts
    written = b.emit("cache_write", [*given, starts], circular=node.text("mode", "linear") == "circular")
    return [b.reshape(written, shape)]


@imports("ReverseSequence")
def _reverse_sequence(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import ReverseSequence: a gather of rows over the first two axes, time and batch."""
    x, lengths = inputs.first("input", "sequence_lens")
    shape, time = b.shape(x), node.integer("time_axis")
    if sorted((time, node.integer("batch_axis", 1))) != [0, 1] or len(shape) < 2:
        raise b.wrong(f"time_axis and batch_axis are the first two, one each; x is {shape}")
    steps, batch = shape[time], shape[1 - time]
    if b.shape(lengths) != (batch,):
        raise b.wrong(f"{b.shape(lengths)} lengths for {batch} sequences")
    known = b.known(lengths)
    if known is not None and known.size and (known.min() < 0 or known.max() > steps):
        raise b.wrong(f"lengths from {known.min()} to {known.max()} of sequences of {steps} steps")
    if known is not None and known.size and (known == steps).all() and steps:
        firsts, strides = [0] * len(shape), [1] * len(shape)
        firsts[time], strides[time] = steps - 1, -1
        return [b.slice(x, firsts, shape, strides)]
    # The source time step of each element, and the row of the flattened time and batch axes.
    place, row = (("index", -2), ("index", -1)) if time == 0 else (("index", -1), ("index", -2))
    turned = ("where", ("less", place, 0), ("sub", ("sub", 0, place), ("const", 1, "int64")), place)
    major, minor, extent = (turned, row, batch) if time == 0 else (row, turned, steps)
    flat = ("add", ("mul", major, ("const", extent, "int64")), minor)
    counted = b.reshape(lengths, (1, batch) if time == 0 else (batch, 1))
    indices = b.elementwise(flat, counted, shape=shape[:2], dtype="int64")
    rows = b.reshape(x, (steps * batch, *shape[2:]))
    return [b.reshape(b.gather(rows, b.reshape(indices, (steps * batch,))), shape)]


def _reduction(b: NetworkBuilder, node: ModelNode) -> str:
    reduction = node.text("reduction", "none")
    if reduction not in ("none", "add", "mul", "max", "min"):
        raise b.wrong(f"reduction is {reduction!r}, expected none, add, mul, max or min")
    return reduction
