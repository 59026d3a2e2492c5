# SPDX-License-Identifier: Apache-2.0
"""Movement of quantised values: nodes that move or select dequantised numbers move the 8-bit ones instead."""

from __future__ import annotations

from typing import Final

from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.frontends.onnx.rewrites.fusion.quantisation_patterns import Quantised, dequantised, quantisation
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft

#: Kinds that only move or select elements of their first input.
_MOVING: Final = ("reshape", "transpose", "slice", "gather", "concat", "pool")


def move_quantised(draft: NetworkDraft) -> None:
    """Dequantise after moving elements, and leave out to quantise again by the same numbers."""
    for node in draft.each(*_MOVING, "elementwise"):
        if node.kind == "elementwise":
            _skip_requantisation(draft, node)
        elif node.kind != "pool" or (node.attributes["mode"] == "max" and not node.attributes.get("activation")):
            _dequantise_later(draft, node)


def _dequantise_later(draft: NetworkDraft, node: CanonicalNode) -> None:
    count = len(node.inputs) if node.kind == "concat" else 1
    found = [dequantised(draft, name) for name in node.inputs[:count]]
    first, output = found[0], node.outputs[0]
    if first is None or output is None or not (first.is_scalar and first.scale.reshape(-1)[0] > 0):
        return
    if first.value in draft.constants or not all(_same(first, each) for each in found):
        return
    source = draft.producer(node.inputs[0])
    assert source is not None
    values = [each.value for each in found if each is not None]
    moved = draft.fresh(output)
    draft.values[moved] = Value(moved, draft.shape(output), draft.dtype(first.value))
    position = source.inputs.index(first.value)
    draft.change(node, inputs=(*values, *node.inputs[count:]), outputs=(moved,))
    again = (*source.inputs[:position], moved, *source.inputs[position + 1 :])
    draft.add("elementwise", again, (), "", source.attributes, like=source, output=output)
    draft.remove_unread(*(name for name in {source.outputs[0]} if name is not None))
    draft.record_change("dequantised later", node.name)


def _skip_requantisation(draft: NetworkDraft, node: CanonicalNode) -> None:
    """Leave out a node that quantises by the numbers its input was dequantised by."""
    output = node.outputs[0]
    if output is None or not node.inputs:
        return
    step, given = quantisation(draft, node, draft.dtype(output)), dequantised(draft, node.inputs[0])
    if step is None or given is None or not given.is_scalar or draft.shape(given.value) != draft.shape(output):
        return
    same = step == (float(given.scale.reshape(-1)[0]), float(given.zero.reshape(-1)[0]))
    if same and draft.dtype(given.value) == draft.dtype(output) and draft.can_redirect(output, given.value):
        draft.replace_node(node, given.value)
        draft.remove_unread(node.inputs[0])
        draft.record_change("quantised already", node.name)


def _same(first: Quantised, other: Quantised | None) -> bool:
    if other is None or not other.is_scalar:
        return False
    return bool(first.scale.reshape(-1) == other.scale.reshape(-1) and first.zero.reshape(-1) == other.zero.reshape(-1))
