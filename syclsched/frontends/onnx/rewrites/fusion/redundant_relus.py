# SPDX-License-Identifier: Apache-2.0
"""Removal of redundant rectifiers, and moving of activations before concatenations."""

from __future__ import annotations

from typing import Any, Final

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.expressions import is_input
from syclsched.frontends.onnx.rewrites.fusion.post_op_fusion import POST_OP_ACTIVATIONS, POST_OP_KINDS
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft

#: Operators with a non-negative result; NaN stays NaN.
_NEVER_NEGATIVE: Final = frozenset({"relu", "sigmoid", "exp", "square", "abs", "hard_sigmoid", "softplus", "sqrt"})
#: Kinds of nodes whose result is non-negative if all their inputs are.
_KEEPS: Final = frozenset({"pool", "reshape", "transpose", "concat", "slice", "lrn"})
#: Depth of the search for signs.
_DEPTH: Final = 6


def simplify_rectifiers(draft: NetworkDraft) -> None:
    """Remove rectifiers of non-negative values; move activations before concatenations.

    An activation of a concatenation moves to its parts if it is free there: each part is the result of a convolution or
    matrix product with no other reader, or the activation is a rectifier and the part is non-negative.
    """
    for node in draft.each("elementwise"):
        expression: Any = node.attributes["expression"]
        source, output = node.inputs[0] if node.inputs else None, node.outputs[0]
        if source is None or output is None or len(node.inputs) != 1 or is_input(expression):
            continue
        if expression[1:] != (0,) or draft.shape(source) != draft.shape(output):
            continue
        if expression[0] == "relu" and _is_non_negative(draft, source) and draft.can_redirect(output, source):
            draft.replace_node(node, source)
            draft.record_change("nothing to rectify", node.name)
        elif expression[0] in POST_OP_ACTIVATIONS:
            _move_before_concat(draft, node, expression, source)


def _is_non_negative(draft: NetworkDraft, value: str, depth: int = _DEPTH) -> bool:
    """Return whether a value is provably non-negative."""
    node = draft.producer(value)
    if node is None or not depth:
        return False
    if node.kind == "softmax":
        return not node.attributes["log"]
    if node.kind == "elementwise":
        expression = node.attributes["expression"]
        return isinstance(expression, tuple) and expression[0] in _NEVER_NEGATIVE
    activation = node.attributes.get("activation", ())
    if node.kind in POST_OP_KINDS or activation:
        return bool(activation) and activation[-1][0] in _NEVER_NEGATIVE
    if node.kind in _KEEPS:
        return all(name is not None and _is_non_negative(draft, name, depth - 1) for name in node.inputs)
    return False


def _move_before_concat(draft: NetworkDraft, node: CanonicalNode, expression: Any, source: str) -> None:
    joined = draft.made_by(source, "concat")
    if joined is None or draft.reads(source) != 1 or len(set(joined.inputs)) != len(joined.inputs):
        return
    parts = [str(name) for name in joined.inputs]
    rectified = [expression[0] == "relu" and _is_non_negative(draft, part) for part in parts]
    free = [
        done or ((maker := draft.producer(part)) is not None and maker.kind in POST_OP_KINDS and draft.reads(part) == 1)
        for done, part in zip(rectified, parts, strict=True)
    ]
    if not all(free) or all(rectified):
        return
    made = [
        part
        if done
        else draft.add(
            "elementwise", (part,), draft.shape(part), draft.dtype(part), {"expression": expression}, like=node
        )
        for done, part in zip(rectified, parts, strict=True)
    ]
    draft.change(joined, inputs=tuple(made))
    draft.record_change("activation before joining", node.name)
    draft.replace_node(node, source)
