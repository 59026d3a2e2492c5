# SPDX-License-Identifier: Apache-2.0
"""Importers of constants, shapes and ranges."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.extents import (
    bounded,
    bounded_numbers,
    bounds_of,
    extents_of,
    is_fixed,
    numbers,
    with_extents,
    with_lengths,
)
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: Uses of numbers.
_COUNT: Final = "the elements of a range"
_LIMIT: Final = "the limit of a range"
#: Elements of a range without an end.
_ENDLESS: Final = 1 << 60


@imports("Constant")
def _constant(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Constant with any value except strings."""
    forms = {
        **dict.fromkeys(("value", "sparse_value")),
        **dict.fromkeys(("value_float", "value_floats"), "float32"),
        **dict.fromkeys(("value_int", "value_ints"), "int64"),
    }
    found = [name for name in node.attributes if name in forms]
    if len(found) != 1:
        given_forms = ", ".join(node.attributes) or "none"
        raise b.wrong(f"a constant has one value of numbers, not {given_forms}")
    return [b.constant(np.asarray(node.attributes[found[0]], forms[found[0]]))]


@imports("ConstantOfShape")
def _constant_of_shape(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    extents = bounded_numbers(b, inputs.required(0, "input"), "the extents of a constant")
    value = node.attributes.get("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise b.wrong(f"its value has {value.size} elements, expected 1")
    made = b.filled(bounds_of(extents), value.dtype.name, value.reshape(-1)[0].item(), folded=is_fixed(extents))
    return [with_extents(b, made, extents)]


@imports("Shape")
def _shape(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Shape, whole or from ``start`` to ``end``."""
    x = inputs.required(0, "data")
    extents = b.shape(x)
    start, end = node.integer("start"), node.integer("end", len(extents))
    rank = len(extents)
    low, high = (min(max(n + rank if n < 0 else n, 0), rank) for n in (start, end))
    parts: list[str] = []
    done = low
    for length in b.lengths.get(x, ()):
        if low <= length.axis < high:
            parts += [b.constant(np.array(extents[done : length.axis], np.int64)), b.reshape(length.count, (1,))]
            done = length.axis + 1
    return [b.concat([*parts, b.constant(np.array(extents[done : max(high, done)], np.int64))], 0)]


@imports("Size")
def _size(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "data")
    counts = {length.axis: length.count for length in b.lengths.get(x, ())}
    if not counts:
        return [b.constant(np.array(math.prod(b.shape(x)), np.int64))]
    others = math.prod(n for axis, n in enumerate(b.shape(x)) if axis not in counts)
    return [b.elementwise(("mul", *range(len(counts)), ("const", others, "int64")), *counts.values())]


@imports("Range")
def _range_of(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    given = inputs.first("start", "limit", "delta")
    known = [b.known(each) for each in given]
    if any(each is None for each in known):
        return [_open_range(b, *given)]
    start, limit, delta = (each.reshape(-1) for each in known if each is not None)
    if not start.size == limit.size == delta.size == 1 or not start.dtype == limit.dtype == delta.dtype:
        raise b.wrong("start, limit and delta must be one number each, of one dtype")
    if delta[0] == 0:
        raise b.wrong("a range in steps of 0")
    length = (float(limit[0]) - float(start[0])) / float(delta[0])
    if start.dtype.kind != "f":
        length = -((int(start[0]) - int(limit[0])) // int(delta[0]))
    if not math.isfinite(length):
        raise b.wrong(f"a range from {start[0]} to {limit[0]} by {delta[0]}")
    count = max(math.ceil(length), 0)
    bounded(b, count, _COUNT)
    if start.dtype.kind != "f":
        numbers(b, given[1], _LIMIT)
    b.check_folded((count,), start.dtype.name)
    return [b.constant((start[0] + np.arange(count, dtype=start.dtype) * delta[0]).astype(start.dtype))]


def _open_range(b: NetworkBuilder, *given: str) -> str:
    """Return a range whose start, limit or step follow from values of inputs."""
    dtypes = {b.dtype(each) for each in given}
    if len(dtypes) > 1 or any(math.prod(b.shape(each)) != 1 for each in given):
        raise b.wrong("start, limit and delta must be one number each, of one dtype")
    (dtype,) = dtypes
    start, limit, delta = (b.reshape(each, ()) for each in given)
    first, step = (None if found is None else found.item() for found in (b.known(start), b.known(delta)))
    if dtype not in FLOATS and (first, step) == (0, 1):
        (number,) = numbers(b, limit, _LIMIT)
    elif dtype not in FLOATS and step == 1:  # which may be the difference of two lengths
        wide = [b.cast(each, "int64") for each in (start, limit)]
        number = b.elementwise(("max", ("sub", 1, 0), ("const", 0, "int64")), *wide, dtype="int64")
    else:
        number = b.elementwise(_range_count(dtype), start, limit, delta, dtype="int64")
    extent = bounded(b, number, _COUNT, least=None)
    made = ("add", 0, ("mul", ("cast", dtype, ("index", -1)), 1))
    return with_extents(
        b, b.elementwise(made, start, delta, shape=(extent.bound,), dtype=dtype, folded=extent.count is None), [extent]
    )


def _range_count(dtype: str) -> Any:
    """Return the expression of the elements of a range; steps of 0 give a count above all bounds."""
    wide = "float64" if dtype in FLOATS else "int64"
    start, limit, delta = (("cast", wide, i) for i in range(3))
    way, zero = ("sub", limit, start), ("const", 0, wide)
    if wide == "float64":
        count: Any = ("cast", "int64", ("ceil", ("div", way, delta)))
    else:
        whole = ("div", way, delta)
        is_cut = ("not_equal", ("mul", whole, delta), way)
        grows = ("equal", ("less", way, zero), ("less", delta, zero))
        count = ("add", whole, ("cast", "int64", ("and", is_cut, grows)))
    return ("where", ("equal", delta, zero), ("const", _ENDLESS, "int64"), count)


@imports("EyeLike")
def _eye_like(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "input")
    number = node.integer("dtype")
    dtype = b.element_dtype(number) if number else b.dtype(x)
    extents = b.shape(x)
    if len(extents) != 2:
        raise b.wrong(f"an identity matrix of shape {extents}")
    k = node.integer("k")
    on = ("equal", ("index", -1), ("add", ("index", -2), ("const", k, "int64")))
    made = b.emit("elementwise", [], shape=extents, dtype=dtype, expression=("cast", dtype, on))
    return [with_extents(b, made, extents_of(b, x))]


@imports("OneHot")
def _one_hot(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import OneHot: the on value where the index equals the position, else the off value."""
    indices, depth_name, values = inputs.first("indices", "depth", "values")
    if math.prod(b.shape(depth_name)) != 1:
        raise b.wrong(f"a depth of shape {b.shape(depth_name)}")
    (number,) = numbers(b, b.cast(b.reshape(depth_name, ()), "int64"), "the depth of OneHot")
    depth = bounded(b, number, "the extent of OneHot")
    extents = b.shape(indices)
    axis = b.axis(node.integer("axis", -1), len(extents) + 1)
    made = (*extents[:axis], depth.bound, *extents[axis:])
    at = b.with_axis(b.cast(indices, "int64"), axis)
    off, on = (b.reshape(b.part(values, 0, place, 1), ()) for place in (0, 1))
    place = ("index", axis - len(made))
    most: Any = ("const", depth.bound, "int64") if depth.count is None else 3
    wrapped = ("where", ("less", 0, ("const", 0, "int64")), ("add", 0, most), 0)
    given = [at, on, off, *([] if depth.count is None else [depth.count])]
    hot = b.elementwise(("where", ("equal", wrapped, place), 1, 2), *given, shape=made, dtype=b.dtype(values))
    return [with_lengths(b, hot, axis, depth)]


@imports("Trilu")
def _trilu(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Trilu: the upper or lower triangle, with zeros elsewhere."""
    x, offset = inputs.required(0, "input"), inputs.optional(1)
    k = 0 if offset is None else b.integer(offset, "the diagonal of Trilu")
    name = "greater_equal" if node.flag("upper", 1) else "less_equal"
    kept = (name, ("index", -1), ("add", ("index", -2), ("const", k, "int64")))
    return [b.elementwise(("where", kept, 0, ("const", 0, b.dtype(x))), x)]
