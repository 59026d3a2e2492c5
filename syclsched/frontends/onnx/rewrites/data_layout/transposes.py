# SPDX-License-Identifier: Apache-2.0
"""Merging of consecutive transpositions, and fusion of transpositions into matrix products."""

from __future__ import annotations

import math
from typing import Any

from syclsched.frontends.onnx.network import CanonicalNode
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

    The transposition that would bring the rows together, or apart, is left out. Products of many matrices with one are
    left: they become one product.
    """
    for node in draft.each("matmul"):
        if math.prod(draft.shape(str(node.inputs[1]))[:-2]) == 1:
            continue
        for index, name in enumerate("ab"):
            source = node.inputs[index]
            before = draft.made_by(source, "transpose")
            if source is None or before is None or draft.sole_reader(source) is None or not _swaps_rows(before):
                continue
            if len(draft.shape(source)) == len(draft.shape(str(node.outputs[0]))):
                inputs = (*node.inputs[:index], before.inputs[0], *node.inputs[index + 1 :])
                node = draft.change(node, inputs=inputs, attributes=_interleaved(node, name))
                draft.remove_unread(source)
                draft.record_change("reads interleaved matrices", node.name)
        _interleave_result(draft, node)


def _interleave_result(draft: NetworkDraft, node: CanonicalNode) -> None:
    output = node.outputs[0]
    after = None if output is None else draft.sole_reader(output)
    bias = node.input(2)
    by_column = bias is None or math.prod(draft.shape(bias)[:-1]) == 1
    if after is None or after.kind != "transpose" or not _swaps_rows(after) or node.input(3) or not by_column:
        return
    draft.remove(after)
    draft.change(
        node,
        outputs=after.outputs,
        attributes=_interleaved(node, "y"),
        origin=(*node.origin, *after.origin),
    )
    draft.record_change("writes interleaved matrices", node.name)


def _swaps_rows(node: CanonicalNode) -> bool:
    """Return whether a transposition of four axes or more swaps the last axis of the batch with rows."""
    permutation = node.attributes["permutation"]
    rank = len(permutation)
    return rank >= 4 and permutation == (*range(rank - 3), rank - 2, rank - 3, rank - 1)


def _interleaved(node: CanonicalNode, name: str) -> dict[str, Any]:
    """Return a product's attributes with one more or one less of its arrays interleaved."""
    names = {*node.attributes.get("interleaved", ())} ^ {name}
    return {**node.attributes, "interleaved": tuple(sorted(names))}
