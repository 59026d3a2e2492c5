# SPDX-License-Identifier: Apache-2.0
"""Removal of identity nodes, and merging of consecutive reshapes."""

from __future__ import annotations

import math

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft

#: Reductions that are the identity on a single element.
_KEEP_ONE = frozenset({"sum", "mean", "max", "min", "prod"})


def remove_identities(draft: NetworkDraft) -> None:
    """Remove identity nodes; nodes that change only the shape become reshapes.

    These are element-wise nodes without an operator, transpositions that keep the element order, empty pads, slices of
    everything, concatenations of one value, poolings over single elements, resizing to the same size, reductions over
    axes of extent 1, and all but the last of consecutive reshapes. Results stay bit-identical.
    """
    for node in draft.each():
        source = node.inputs[0] if node.inputs else None
        target = node.outputs[0] if node.outputs else None
        if source is None or target is None or len(node.outputs) > 1 or draft.dtype(source) != draft.dtype(target):
            continue
        if _changes_nothing(draft, node, source, target):
            if draft.shape(source) == draft.shape(target):
                if draft.can_redirect(target, source):
                    draft.replace_node(node, source)
                    draft.record_change("changes nothing", node.name)
                continue
            if node.kind != "reshape":
                node = draft.change(node, kind="reshape", inputs=(source,), attributes={})
                draft.record_change("only another shape", node.name)
        if node.kind == "reshape":
            _skip_reshapes(draft, node, source)


def _skip_reshapes(draft: NetworkDraft, node: CanonicalNode, source: str) -> None:
    previous = draft.made_by(source, "reshape")
    if previous is not None:
        draft.change(node, inputs=previous.inputs)
        draft.remove_unread(source)
        draft.record_change("one reshape of two", node.name)


def _changes_nothing(draft: NetworkDraft, node: CanonicalNode, source: str, target: str) -> bool:
    """Return whether a node's result has the elements of its first input in the same order."""
    shape, made = draft.shape(source), draft.shape(target)
    if math.prod(shape) != math.prod(made):
        return False
    a = node.attributes
    match node.kind:
        case "elementwise":
            # An expansion that only adds axes of extent 1 is a reshape.
            return bool(a["expression"] == 0) and not isinstance(a["expression"], bool)
        case "reshape":
            return True
        case "transpose":
            return _keeps_order(shape, a["permutation"])
        case "pad":
            return not any(a["pads"])
        case "slice":
            return not any(a["starts"]) and all(s == 1 for s, n in zip(a["steps"], shape, strict=True) if n > 1)
        case "concat":
            return len(node.inputs) == 1
        case "pool":
            return shape == made and all(k == 1 for k in a["kernel"]) and not any(a["pads"]) and not a.get("activation")
        case "resize":
            return shape == made and all(s == 1 for s in a.get("scales", (0,))) and a["coordinates"] != _CROPS
        case "reduce":
            return a["mode"] in _KEEP_ONE and all(shape[axis] == 1 for axis in a["axes"])
    return False


_CROPS = "tf_crop_and_resize"


def _keeps_order(shape: tuple[int, ...], permutation: tuple[int, ...]) -> bool:
    """Return whether a transposition keeps the element order: it moves only axes of extent 1."""
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved) or 0 in shape
