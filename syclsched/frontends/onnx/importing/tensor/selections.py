# SPDX-License-Identifier: Apache-2.0
"""Importers of NonZero, Compress, Unique and NonMaxSuppression, whose extents depend on values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.counted_results import emit_counted
from syclsched.frontends.onnx.importing.import_state import Shape
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.lengths import Length
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


def _given(b: NetworkBuilder, inputs: Inputs, count: int) -> list[str | None]:
    """Return a node's inputs, unless all are constant: then its result is computed beforehand."""
    given = [inputs.optional(position) for position in range(count)]
    if all(each is None or b.known(each) is not None for each in given):
        raise UnsupportedFormError
    return given


@imports("NonZero")
def _nonzero(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    (x,) = _given(b, inputs, 1)
    shape = b.shape(x or "")
    if not shape:
        raise UnsupportedFormError
    if len(shape) == 1 and _is_filled(b, x or ""):
        places = b.elementwise(("index", -1), shape=(1, *shape), dtype="int64", folded=False)
        b.give_lengths(places, [Length(1, length.count) for length in b.lengths[x or ""]])
        return [places]
    return emit_counted(b, "NonZero", [x], [((len(shape), math.prod(shape)), "int64", 1)])


def _is_filled(b: NetworkBuilder, x: str) -> bool:
    """Return whether all elements of a value with a length are one number that is not 0: their number is its length."""
    node = b.producer(x)
    expression = None if node is None else node.attributes.get("expression")
    return x in b.lengths and isinstance(expression, tuple) and expression[0] == "const" and bool(expression[1])


def _lines(b: NetworkBuilder, node: ModelNode, shape: Shape) -> tuple[int | None, int, Shape]:
    """Return the axis of a selection, None for that of all elements, its axis in the result, and that's shape."""
    if "axis" not in node.attributes:
        return None, 0, (math.prod(shape),)
    axis = b.axis(node.integer("axis"), len(shape))
    return axis, axis, shape


@imports("Compress")
def _compress(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    given = _given(b, inputs, 2)
    x, condition = given[0] or "", given[1] or ""
    axis, counted, shape = _lines(b, node, b.shape(x))
    if axis is not None and any(each.axis != axis for each in b.lengths.get(x, ())):
        raise UnsupportedFormError  # the result has several lengths
    if b.shape(condition)[0] > shape[counted]:  # the rest selects nothing
        given[1] = b.part(condition, 0, 0, shape[counted])
    known = b.known(condition)
    if known is not None and x not in b.lengths:
        places = b.constant(np.flatnonzero(known[: shape[counted]]), "int64")
        return [b.gather(x if axis is not None else b.reshape(x, shape), places, counted)]
    return emit_counted(b, "Compress", given, [(shape, b.dtype(x), counted)], options=(("axis", axis),))


@imports("Unique")
def _unique(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    given = _given(b, inputs, 1)
    x = given[0] or ""
    axis, counted, shape = _lines(b, node, b.shape(x))
    line = (shape[counted],)
    if x in b.lengths:  # one result would have its length, and the others another
        raise UnsupportedFormError
    made: list[Any] = [(shape, b.dtype(x), counted), (line, "int64", 0), (line, "int64", None), (line, "int64", 0)]
    options = (("axis", axis), ("ordered", bool(node.integer("sorted", 1))))
    return emit_counted(b, "Unique", given, made, options=options)[: len(node.outputs)]


@imports("NonMaxSuppression")
def _non_max_suppression(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    given = _given(b, inputs, 5)
    corners, scores = b.shape(given[0] or ""), b.shape(given[1] or "")
    if len(corners) != 3 or len(scores) != 3 or corners != (scores[0], scores[2], 4):
        raise b.wrong(f"boxes of shape {corners} with scores of shape {scores}")
    batches, kinds, boxes = scores
    most = b.known(given[2]) if given[2] is not None else None
    if given[2] is None:
        boxes = 0
    elif most is not None:
        boxes = min(boxes, max(0, int(most.reshape(-1)[0])))
    options = (("centered", bool(node.integer("center_point_box"))),)
    shape = (batches * kinds * boxes, 3)
    if not math.prod(shape):
        raise UnsupportedFormError
    return emit_counted(b, "NonMaxSuppression", given, [(shape, "int64", 0)], options=options)
