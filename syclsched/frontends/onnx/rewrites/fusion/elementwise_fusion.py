# SPDX-License-Identifier: Apache-2.0
"""Fusion of consecutive element-wise nodes into one pass over memory and one task."""

from __future__ import annotations

import math
from typing import Any, Final

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.expressions import (
    compact_inputs,
    dtypes_of,
    is_input,
    set_expression,
    simplified,
    uses_indices,
    with_explicit_dtype,
)
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.kernels.tensor.writing.expression import count_operators, substitute

#: Most inputs and operators of one node.
MOST_INPUTS: Final = 8
MOST_OPERATORS: Final = 48
#: Number and kinds of operators that may be recomputed for each element of a larger result: cheaper than a task.
_FEW: Final = 2
_CHEAP: Final = frozenset({"add", "sub", "mul", "neg", "cast", "not", "and", "or", "equal", "less", "greater", "relu"})


def fuse_elementwise(draft: NetworkDraft) -> None:
    """Fuse element-wise nodes into their only reader if it is element-wise, too.

    A node with several readers stays, unless these have been fused into one, or all compute single numbers of a single
    number: a task takes longer than to compute that twice. A broadcast value is fused into a larger result only if it
    costs at most two cheap operators.
    """
    for node in draft.each("elementwise"):
        current = node
        changed = True
        while changed:
            changed = False
            for value in current.inputs:
                producer = draft.made_by(value, "elementwise")
                joined = None if producer is None else _fused(draft, current, producer)
                if joined is not None:
                    current, changed = joined, True
                    break


def _fused(draft: NetworkDraft, node: CanonicalNode, producer: CanonicalNode) -> CanonicalNode | None:
    value, target = producer.outputs[0], node.outputs[0]
    if value is None or target is None:
        return None
    inner, outer = producer.attributes["expression"], node.attributes["expression"]
    if isinstance(inner, tuple) and inner[0] == "bfloat16_bits":
        return None  # a value stored in 16 bits keeps this dtype
    free = is_input(inner)
    if not free and (draft.is_output(value) or (len(draft.readers(value)) != 1 and not _is_of_numbers(draft, value))):
        return None
    shape, made = draft.shape(value), draft.shape(target)
    if shape != made and not free and not _is_cheap(inner, math.prod(made) / max(math.prod(shape), 1)):
        return None
    if shape != made and uses_indices(inner):
        return None
    inputs = (*node.inputs, *producer.inputs)
    offset = len(node.inputs)
    moved = substitute(inner, {index: index + offset for index in range(len(producer.inputs))})
    dtypes = dtypes_of(draft, inputs)
    placed = with_explicit_dtype(moved, draft.dtype(value))
    index = node.inputs.index(value)
    names = tuple(str(name) for name in inputs)
    expression, kept = compact_inputs(simplified(substitute(outer, {index: placed}), dtypes), names)
    if len(kept) > max(MOST_INPUTS, len(node.inputs)) or count_operators(expression) > MOST_OPERATORS:
        return None
    joined = set_expression(draft, node, expression, kept)
    joined = draft.change(joined, origin=tuple(dict.fromkeys((*producer.origin, *node.origin))))
    draft.remove_unread(value)
    draft.record_change("part of the element-wise node after it", producer.name)
    return joined


def _is_of_numbers(draft: NetworkDraft, value: str) -> bool:
    """Return whether a single number has element-wise readers alone that make a single number each."""
    made = [(each.kind, each.outputs[0]) for each in draft.readers(value)]
    numbers = [name for kind, name in made if kind == "elementwise" and name is not None]
    return len(numbers) == len(made) and all(math.prod(draft.shape(each)) == 1 for each in (value, *numbers))


def _is_cheap(expression: Any, times: float) -> bool:
    """Return whether an expression is cheap enough to compute for a result ``times`` as large."""
    if times == 1:
        return True
    text = _operators(expression)
    return len(text) <= _FEW and set(text) <= _CHEAP


def _operators(expression: Any) -> list[str]:
    if is_input(expression) or not isinstance(expression, tuple) or expression[0] in ("const", "index"):
        return []
    return [
        expression[0],
        *(name for each in expression[1:] if isinstance(each, (tuple, int)) for name in _operators(each)),
    ]
