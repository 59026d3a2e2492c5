# SPDX-License-Identifier: Apache-2.0
"""Importers of operators on sequences and optional values.

These exist only during import: positions in sequences, and whether there is a value, must be known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from syclsched.frontends.onnx.importing.scope import BoundValue, Scope, TensorSequence
from syclsched.frontends.onnx.model_file.dtypes import DTYPES
from syclsched.frontends.onnx.model_file.onnx_model import ModelGraph, ModelNode


def _sequence(scope: Scope, node: ModelNode) -> TensorSequence:
    found = scope.meaning(node.inputs[0])
    if not isinstance(found, TensorSequence):
        raise scope.b.wrong(f"{node.inputs[0]!r} is no sequence")
    return found


def _position(scope: Scope, node: ModelNode, index: int, count: int, default: int) -> int:
    if len(node.inputs) <= index or not node.inputs[index]:
        return default
    at = scope.b.integer(scope.tensor(node.inputs[index]), "a position in a sequence")
    if not -count <= at <= count:
        raise scope.b.wrong(f"position {at} in a sequence of {count}")
    return at + count if at < 0 else at


def _construct(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    items = tuple(scope.tensor(name) for name in node.inputs)
    return [TensorSequence(items, scope.b.dtype(items[0]))]


def _empty(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    return [TensorSequence((), DTYPES.get(node.integer("dtype", 1), "float32"))]


def _identity(scope: Scope, node: ModelNode) -> Sequence[BoundValue] | None:
    """Import Identity of a sequence or of an empty optional; tensors are left to other importers."""
    found = scope.meaning(node.inputs[0])
    return None if isinstance(found, str) else [found]


def _optional(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    """Import Optional: a value, or none."""
    return [scope.meaning(node.inputs[0]) if any(node.inputs) else None]


def _has_element(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    has = any(node.inputs) and scope.meaning(node.inputs[0]) is not None
    return [scope.b.constant(np.array(has))]


def _element(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    found = scope.meaning(node.inputs[0])
    if found is None:
        raise scope.b.wrong(f"the optional value {node.inputs[0]!r} has no element", hint="Give the input a value")
    return [found]


def _mapped(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    """Import SequenceMap: its body once for each element."""
    b, body = scope.b, node.attributes.get("body")
    first, *others = (scope.meaning(name) for name in node.inputs)
    if not isinstance(first, TensorSequence) or not isinstance(body, ModelGraph):
        raise b.wrong(f"{node.inputs[0]!r} is no sequence" if isinstance(body, ModelGraph) else "it has no body")
    sizes = {len(each.items) for each in (first, *others) if isinstance(each, TensorSequence)}
    if len(sizes) > 1:
        raise b.wrong(f"its sequences have different numbers of elements: {sorted(sizes)}")
    made = []
    for index, item in enumerate(first.items):
        given = [item, *(each.items[index] if isinstance(each, TensorSequence) else each for each in others)]
        b.end([], [])
        made.append(scope.inline(body, given, f"{node.name}/{index}/"))
        b.begin(scope.prefixed(node.name), node.label)
    if not made:
        return [TensorSequence((), output.dtype or "float32") for output in body.outputs]
    if not all(isinstance(each, str) for results in made for each in results):
        raise b.wrong("its body gives a sequence")
    rows = [[each for each in results if isinstance(each, str)] for results in made]
    return [TensorSequence(column, b.dtype(column[0])) for column in zip(*rows, strict=True)]


def _at(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    items = _sequence(scope, node).items
    position = _position(scope, node, 1, len(items), 0)
    if position >= len(items):
        raise scope.b.wrong(f"position {position} in a sequence of {len(items)}")
    return [items[position]]


def _insert(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    found = _sequence(scope, node)
    position = _position(scope, node, 2, len(found.items), len(found.items))
    items = (*found.items[:position], scope.tensor(node.inputs[1]), *found.items[position:])
    return [TensorSequence(items, found.dtype)]


def _erase(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    found = _sequence(scope, node)
    position = _position(scope, node, 1, len(found.items), len(found.items) - 1)
    return [TensorSequence((*found.items[:position], *found.items[position + 1 :]), found.dtype)]


def _length(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    return [scope.b.constant(np.array(len(_sequence(scope, node).items), np.int64))]


def _concatenated(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    """Import ConcatFromSequence, along an existing or a new axis."""
    b, items = scope.b, _sequence(scope, node).items
    if not items:
        raise b.wrong("there is nothing to join in an empty sequence")
    rank = len(b.shape(items[0]))
    if node.flag("new_axis"):
        return [b.stack(items, b.axis(node.integer("axis"), rank + 1))]
    return [b.concat(items, b.axis(node.integer("axis"), rank))]


def _split(scope: Scope, node: ModelNode) -> Sequence[BoundValue]:
    """Import SplitToSequence: parts of one size, of given sizes, or single slices."""
    b, x = scope.b, scope.tensor(node.inputs[0])
    shape = b.shape(x)
    axis = b.axis(node.integer("axis"), len(shape))
    extent, single = shape[axis], len(node.inputs) < 2 or not node.inputs[1]
    if single:
        sizes: tuple[int, ...] = (1,) * extent
    else:
        array = b.require(scope.tensor(node.inputs[1]), "the sizes of the parts")
        sizes = tuple(int(n) for n in array.reshape(-1))
        if array.ndim == 0:
            if sizes[0] < 1:
                raise b.wrong(f"parts of {sizes[0]} elements")
            sizes = tuple(min(sizes[0], extent - start) for start in range(0, extent, sizes[0]))
        if sum(sizes) != extent or min(sizes, default=0) < 0:
            raise b.wrong(f"parts {sizes} of axis {axis} of {shape}")
    parts: list[str] = []
    start = 0
    for size in sizes:
        part = b.part(x, axis, start, size)
        parts.append(b.without_axis(part, axis) if single and not node.flag("keepdims", 1) else part)
        start += size
    return [TensorSequence(tuple(parts), b.dtype(x))]


SEQUENCE_IMPORTERS = {
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceAt": _at,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceLength": _length,
    "ConcatFromSequence": _concatenated,
    "SplitToSequence": _split,
    "SequenceMap": _mapped,
    "Identity": _identity,
    "Optional": _optional,
    "OptionalHasElement": _has_element,
    "OptionalGetElement": _element,
}
