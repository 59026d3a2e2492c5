# SPDX-License-Identifier: Apache-2.0
"""Removal of redundant rectifiers, and moving of activations before concatenations."""

from __future__ import annotations

from typing import Any, Final

from syclsched.frontends.onnx.network import Node
from syclsched.frontends.onnx.rewrites.editing import Draft
from syclsched.frontends.onnx.rewrites.expressions import is_input
from syclsched.frontends.onnx.rewrites.post_ops import KINDS, ON_THE_WAY

#: Operators with a non-negative result; NaN stays NaN.
_NEVER_NEGATIVE: Final = frozenset({"relu", "sigmoid", "exp", "square", "abs", "hard_sigmoid", "softplus", "sqrt"})
#: Kinds of nodes whose result is non-negative if all their inputs are.
_KEEPS: Final = frozenset({"pool", "reshape", "transpose", "concat", "slice", "lrn"})
#: Depth of the search for signs.
_DEPTH: Final = 6


def use(draft: Draft) -> None:
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
        if expression[0] == "relu" and not_negative(draft, source) and draft.replaceable(output, source):
            draft.supersede(node, source)
            draft.did("nothing to rectify", node.name)
        elif expression[0] in ON_THE_WAY:
            _move_before_concat(draft, node, expression, source)


def not_negative(draft: Draft, value: str, depth: int = _DEPTH) -> bool:
    """Return whether a value is provably non-negative."""
    node = draft.maker(value)
    if node is None or not depth:
        return False
    if node.kind == "softmax":
        return not node.attributes["log"]
    if node.kind == "elementwise":
        expression = node.attributes["expression"]
        return isinstance(expression, tuple) and expression[0] in _NEVER_NEGATIVE
    activation = node.attributes.get("activation", ())
    if node.kind in KINDS or activation:
        return bool(activation) and activation[-1][0] in _NEVER_NEGATIVE
    if node.kind in _KEEPS:
        return all(name is not None and not_negative(draft, name, depth - 1) for name in node.inputs)
    return False


def _move_before_concat(draft: Draft, node: Node, expression: Any, source: str) -> None:
    joined = draft.made_by(source, "concat")
    if joined is None or draft.reads(source) != 1 or len(set(joined.inputs)) != len(joined.inputs):
        return
    parts = [str(name) for name in joined.inputs]
    rectified = [expression[0] == "relu" and not_negative(draft, part) for part in parts]
    free = [
        done or ((maker := draft.maker(part)) is not None and maker.kind in KINDS and draft.reads(part) == 1)
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
    draft.did("activation before joining", node.name)
    draft.supersede(node, source)
