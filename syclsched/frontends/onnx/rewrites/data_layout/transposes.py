# SPDX-License-Identifier: Apache-2.0
"""Merging of consecutive transpositions, and fusion of transpositions into matrix products."""

from __future__ import annotations

import math
from typing import Any

from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.frontends.onnx.rewrites.data_layout.layout_rules import permute_index_axes
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def merge_transposes(draft: NetworkDraft) -> None:
    """Merge two consecutive transpositions."""
    for node in draft.each("transpose"):
        source = node.inputs[0]
        previous = draft.made_by(source, "transpose")
        if previous is None:
            continue
        first, second = previous.attributes["permutation"], node.attributes["permutation"]
        draft.change(node, inputs=previous.inputs, attributes={"permutation": tuple(first[axis] for axis in second)})
        draft.remove_unread(source)
        draft.record_change("one transposition of two", node.name)


def fuse_into_products(draft: NetworkDraft) -> None:
    """Fuse transpositions into the matrix products that read them, where that saves or simplifies a transposition.

    A transposition that only swaps the last two axes becomes ``transpose_a`` or ``transpose_b``. From a more general
    one this swap is split off if the rest keeps the last axis in place: the rest then copies whole rows.
    """
    for node in draft.each("matmul"):
        for index, flag in ((0, "transpose_a"), (1, "transpose_b")):
            source = node.inputs[index]
            before = draft.made_by(source, "transpose")
            if source is None or before is None or len(draft.shape(source)) < 2:
                continue
            node = _absorb(draft, node, before, index, flag)


def _absorb(draft: NetworkDraft, node: CanonicalNode, before: CanonicalNode, index: int, flag: str) -> CanonicalNode:
    permutation = before.attributes["permutation"]
    rank = len(permutation)
    swapped = (*permutation[:-2], permutation[-1], permutation[-2])
    source = before.outputs[0]
    assert source is not None
    if swapped == tuple(range(rank)):
        given = before.inputs[0]
    elif swapped[-1] == rank - 1 and draft.sole_reader(source) is not None:
        shape = draft.shape(source)
        turned = (*shape[:-2], shape[-1], shape[-2])
        dtype = draft.dtype(source)
        given = draft.add("transpose", before.inputs, turned, dtype, {"permutation": swapped}, like=before)
    else:
        return node
    inputs = (*node.inputs[:index], given, *node.inputs[index + 1 :])
    attributes = {**node.attributes, flag: not node.attributes.get(flag, False)}
    node = draft.change(node, inputs=inputs, attributes=attributes)
    draft.remove_unread(source)
    draft.record_change("reads its operand transposed", node.name)
    return node


def interleave_products(draft: NetworkDraft) -> None:
    """Let products read and write matrices whose rows come before the last axis of the batch, as heads of attention do.

    The transposition that would bring the rows together, or apart, is left out, also behind an element-wise node, such
    as one that quantises. Products of many matrices with one are left: they become one product.
    """
    for node in draft.each("matmul"):
        if math.prod(draft.shape(str(node.inputs[1]))[:-2]) == 1:
            continue
        for index, name in enumerate("ab"):
            source = node.inputs[index]
            stored = None if source is None else _stored_apart(draft, source, len(draft.shape(str(node.outputs[0]))))
            if stored is not None:
                inputs = (*node.inputs[:index], stored, *node.inputs[index + 1 :])
                node = draft.change(node, inputs=inputs, attributes=_interleaved(node, name))
                draft.remove_unread(source)
                draft.record_change("reads interleaved matrices", node.name)
        _interleave_result(draft, node)


def _stored_apart(draft: NetworkDraft, source: str, rank: int) -> str | None:
    """Return an operand of a rank without the transposition that brings its rows together; None if there is none."""
    before = draft.producer(source)
    if before is None or draft.sole_reader(source) is None or len(draft.shape(source)) != rank:
        return None
    if before.kind == "transpose":
        return before.inputs[0] if _swaps_rows(before) else None
    array = _only_array(draft, before)
    found = None if array is None or draft.shape(array) != draft.shape(source) else _stored_apart(draft, array, rank)
    if found is None:
        return None
    inputs = tuple(found if name == array else name for name in before.inputs)
    dtype = draft.dtype(source)
    return draft.add("elementwise", inputs, draft.shape(found), dtype, _with_rows_apart(before, rank), like=before)


def _with_rows_apart(node: CanonicalNode, rank: int) -> dict[str, Any]:
    """Return the attributes of an element-wise node whose values are stored with rows apart."""
    return {**node.attributes, "expression": permute_index_axes(node.attributes["expression"], _rows_apart(rank))}


def _only_array(draft: NetworkDraft, node: CanonicalNode) -> str | None:
    """Return the only input of an element-wise node that is more than a number, and is read once; None for others."""
    arrays = [name for name in node.inputs if name is not None and math.prod(draft.shape(name)) != 1]
    return arrays[0] if node.kind == "elementwise" and len(arrays) == 1 else None


def _interleave_result(draft: NetworkDraft, node: CanonicalNode) -> None:
    output, bias = node.outputs[0], node.input(2)
    if output is None or node.input(3) or (bias is not None and math.prod(draft.shape(bias)[:-1]) != 1):
        return
    after = draft.sole_reader(output)
    between = None
    if after is not None and _only_array(draft, after) == output:
        between, made = after, str(after.outputs[0])
        after = draft.sole_reader(made) if draft.shape(made) == draft.shape(output) else None
    if after is None or after.kind != "transpose" or not _swaps_rows(after):
        return
    draft.remove(after)
    result = after.outputs[0]
    assert result is not None
    if between is not None:
        stored = draft.fresh(output)
        draft.values[stored] = Value(stored, draft.shape(result), draft.dtype(output))
        inputs = tuple(stored if name == output else name for name in between.inputs)
        attributes = _with_rows_apart(between, len(draft.shape(output)))
        origin = (*between.origin, *after.origin)
        draft.change(between, inputs=inputs, outputs=(result,), attributes=attributes, origin=origin)
        result = stored
    origin = node.origin if between is not None else (*node.origin, *after.origin)
    draft.change(node, outputs=(result,), attributes=_interleaved(node, "y"), origin=origin)
    draft.record_change("writes interleaved matrices", node.name)


def _swaps_rows(node: CanonicalNode) -> bool:
    """Return whether a transposition of four axes or more swaps the last axis of the batch with rows."""
    permutation = node.attributes["permutation"]
    return len(permutation) >= 4 and permutation == _rows_apart(len(permutation))


def _rows_apart(rank: int) -> tuple[int, ...]:
    """Return the order of axes in which rows come before the last axis of the batch."""
    return (*range(rank - 3), rank - 2, rank - 3, rank - 1)


def _interleaved(node: CanonicalNode, name: str) -> dict[str, Any]:
    """Return a product's attributes with one more or one less of its arrays interleaved."""
    names = {*node.attributes.get("interleaved", ())} ^ {name}
    return {**node.attributes, "interleaved": tuple(sorted(names))}
