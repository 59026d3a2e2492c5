# SPDX-License-Identifier: Apache-2.0
"""Merging of consecutive transpositions, and fusion of transpositions into matrix products."""

from __future__ import annotations

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
