# SPDX-License-Identifier: Apache-2.0
"""Importers of constants, shapes and ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import given, imports, optional
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, element_type_name
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("Constant")
def constant(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Constant with any value except strings."""
    forms = {
        "value": None,
        "sparse_value": None,
        "value_float": "float32",
        "value_floats": "float32",
        "value_int": "int64",
        "value_ints": "int64",
    }
    found = [name for name in node.attributes if name in forms]
    if len(found) != 1:
        given_forms = ", ".join(node.attributes) or "none"
        raise b.wrong(f"a constant has one value of numbers, not {given_forms}")
    return [b.constant(np.asarray(node.attributes[found[0]], forms[found[0]]))]


@imports("ConstantOfShape")
def constant_of_shape(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import ConstantOfShape."""
    shape = b.integers(given(b, inputs, 0, "input"), "the extents of a constant")
    value = node.attributes.get("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise b.wrong(f"its value has {value.size} elements, expected 1")
    element = value.reshape(-1)[0]
    expression = ("const", element.item(), value.dtype.name)
    return [b.emit("elementwise", [], shape=shape, dtype=value.dtype.name, expression=expression)]


@imports("Shape")
def shape(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Shape, whole or from ``start`` to ``end``."""
    extents = b.shape(given(b, inputs, 0, "data"))
    start, end = node.integer("start"), node.integer("end", len(extents))
    rank = len(extents)
    low, high = (min(max(n + rank if n < 0 else n, 0), rank) for n in (start, end))
    return [b.constant(np.array(extents[low : max(high, low)], np.int64))]


@imports("Size")
def size(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Size."""
    return [b.constant(np.array(math.prod(b.shape(given(b, inputs, 0, "data"))), np.int64))]


@imports("Range")
def range_of(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Range."""
    names = ("start", "limit", "delta")
    start, limit, delta = (
        b.require(given(b, inputs, i, name), f"the {name} of a range").reshape(-1) for i, name in enumerate(names)
    )
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
    b.check_folded((count,), start.dtype.name)
    return [b.constant((start[0] + np.arange(count, dtype=start.dtype) * delta[0]).astype(start.dtype))]


@imports("EyeLike")
def eye_like(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import EyeLike."""
    x = given(b, inputs, 0, "input")
    number = node.integer("dtype", 0)
    if number and number not in DTYPES:
        raise b.wrong(f"elements of type {element_type_name(number)}, which is not supported")
    dtype = DTYPES[number] if number else b.dtype(x)
    extents = b.shape(x)
    if len(extents) != 2:
        raise b.wrong(f"an identity matrix of shape {extents}")
    k = node.integer("k")
    on = ("equal", ("index", -1), ("add", ("index", -2), ("const", k, "int64")))
    return [b.emit("elementwise", [], shape=extents, dtype=dtype, expression=("cast", dtype, on))]


@imports("OneHot")
def one_hot(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import OneHot: the on value where the index equals the position, else the off value."""
    indices, depth_name, values = (given(b, inputs, i, name) for i, name in enumerate(("indices", "depth", "values")))
    depth = int(b.require(depth_name, "the depth of OneHot").reshape(-1)[0])
    extents = b.shape(indices)
    axis = b.axis(node.integer("axis", -1), len(extents) + 1)
    made = (*extents[:axis], depth, *extents[axis:])
    at = b.reshape(b.cast(indices, "int64"), (*extents[:axis], 1, *extents[axis:]))
    off = b.reshape(b.slice(values, (0,), (1,)), ())
    on = b.reshape(b.slice(values, (1,), (1,)), ())
    place = ("index", axis - len(made))
    wrapped = ("where", ("less", 0, ("const", 0, "int64")), ("add", 0, ("const", depth, "int64")), 0)
    return [b.elementwise(("where", ("equal", wrapped, place), 1, 2), at, on, off, shape=made, dtype=b.dtype(values))]


@imports("Trilu")
def trilu(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Trilu: the upper or lower triangle, with zeros elsewhere."""
    x, offset = given(b, inputs, 0, "input"), optional(inputs, 1)
    k = 0 if offset is None else int(b.require(offset, "the diagonal of Trilu").reshape(-1)[0])
    name = "greater_equal" if node.integer("upper", 1) else "less_equal"
    kept = (name, ("index", -1), ("add", ("index", -2), ("const", k, "int64")))
    return [b.elementwise(("where", kept, 0, ("const", 0, b.dtype(x))), x)]
