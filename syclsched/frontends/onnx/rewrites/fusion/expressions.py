# SPDX-License-Identifier: Apache-2.0
"""Queries and simplification of element-wise expressions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.kernels.tensor.writing.expression import (
    inputs_of,
    known_by_text,
    result_dtype,
    split_expression,
    substitute,
)

Expression = Any

#: Idempotent operators.
_IDEMPOTENT: Final = frozenset({"relu", "abs", "floor", "ceil", "round", "trunc", "sign"})


def is_input(expression: Expression) -> bool:
    """Return whether an expression is just an input."""
    return isinstance(expression, int) and not isinstance(expression, bool)


def number(expression: Expression) -> float | int | bool | None:
    """Return the value of a constant expression, or None."""
    if isinstance(expression, tuple) and expression[0] == "const":
        value: float | int | bool = expression[1]
        return value
    return None


def count(expression: Expression, index: int) -> int:
    """Return the number of occurrences of an input in an expression."""
    if is_input(expression):
        return int(expression == index)
    return sum(count(each, index) for each in split_expression(expression)[1])


def uses_indices(expression: Expression) -> bool:
    """Return whether an expression depends on the element's indices."""
    if is_input(expression):
        return False
    return bool(expression[0] == "index") or any(uses_indices(each) for each in split_expression(expression)[1])


def dtypes_of(draft: NetworkDraft, inputs: tuple[str | None, ...]) -> tuple[str, ...]:
    """Return the dtypes of a node's inputs, which must all be present."""
    return tuple(draft.dtype(name) for name in inputs if name is not None)


def compact_inputs(expression: Expression, inputs: tuple[str, ...]) -> tuple[Expression, tuple[str, ...]]:
    """Remove unread and repeated inputs of an expression, and number the others in reading order."""
    (compact,), kept = compact_all((expression,), inputs)
    return compact, kept


def compact_all(
    expressions: tuple[Expression, ...], inputs: tuple[str, ...]
) -> tuple[tuple[Expression, ...], tuple[str, ...]]:
    """Remove unread and repeated inputs of expressions, and number the others in reading order."""
    order: dict[str, int] = {}

    def visit(each: Expression) -> None:
        if is_input(each):
            order.setdefault(inputs[each], len(order))
        else:
            for operand in split_expression(each)[1]:
                visit(operand)

    for expression in expressions:
        visit(expression)
    renumbered = {index: order[name] for index, name in enumerate(inputs) if name in order}
    return tuple(substitute(each, renumbered) for each in expressions), tuple(order)


def set_expression(
    draft: NetworkDraft, node: CanonicalNode, expression: Expression, inputs: tuple[str, ...]
) -> CanonicalNode:
    """Set the expression and inputs of an element-wise node, without unread and repeated inputs."""
    expression, inputs = compact_inputs(expression, inputs)
    return draft.change(node, inputs=inputs, attributes={**node.attributes, "expression": expression})


def with_explicit_dtype(expression: Expression, dtype: str) -> Expression:
    """Return an expression with a fixed dtype, for substitution into others: constants get an explicit dtype."""
    if isinstance(expression, tuple) and expression[0] == "const" and len(expression) == 2:
        return ("const", expression[1], dtype)
    if inputs_of(expression):
        return expression
    return ("cast", dtype, expression)


def simplified(expression: Expression, dtypes: tuple[str, ...]) -> Expression:
    """Return an equivalent expression with fewer operators."""
    return _known_simplified(expression, dtypes)


def _simplified(expression: Expression, dtypes: tuple[str, ...]) -> Expression:
    if is_input(expression):
        return expression
    parameters, operands = split_expression(expression)
    rebuilt = (expression[0], *parameters, *(_simplified(each, dtypes) for each in operands))
    for _ in range(8):
        changed = _step(rebuilt, dtypes)
        if changed is None or is_input(changed):
            return rebuilt if changed is None else changed
        rebuilt = changed
    return rebuilt


_known_simplified: Callable[[Expression, tuple[str, ...]], Expression] = known_by_text(_simplified)


def _step(expression: Expression, dtypes: tuple[str, ...]) -> Expression | None:
    """Simplify the root of an expression; None if no rule applies."""
    name = expression[0]
    parameters, operands = split_expression(expression)
    match name:
        case "cast":
            return _cast(parameters[0], operands[0], dtypes)
        case "add" | "mul" | "min" | "max" | "and" | "or":
            return _of_any_number(name, operands)
        case "sub" if number(operands[1]) == 0 and not _is_constant(operands[0]):
            return operands[0]
        case "div":
            return _div(operands, dtypes)
        case "pow":
            return _pow(operands, dtypes)
        case "scale" if parameters == (1.0,):
            return operands[0]
        case "neg" | "not" if isinstance(operands[0], tuple) and operands[0][0] == name:
            return operands[0][1]
        case "where" if isinstance(number(operands[0]), bool):
            return operands[1] if number(operands[0]) else operands[2]
    if name in _IDEMPOTENT and isinstance(operands[0], tuple) and operands[0][0] == name:
        return operands[0]
    return None


def _is_constant(expression: Expression) -> bool:
    return number(expression) is not None


def _floating(expression: Expression, dtypes: tuple[str, ...]) -> bool:
    return bool(inputs_of(expression)) and result_dtype(expression, dtypes).startswith("float")


def _cast(dtype: str, operand: Expression, dtypes: tuple[str, ...]) -> Expression | None:
    if inputs_of(operand) and result_dtype(operand, dtypes) == dtype:
        return operand
    value = number(operand)
    if value is not None and len(operand) == 3:
        made = np.array(value, operand[2]).astype(dtype).item()
        return ("const", made, dtype) if not isinstance(made, float) or math.isfinite(made) else None
    return None


def _of_any_number(name: str, operands: tuple[Expression, ...]) -> Expression | None:
    neutral = {"add": 0, "mul": 1, "and": True, "or": False}.get(name)
    if len(operands) == 1:
        return operands[0]
    if neutral is not None:
        kept = tuple(each for each in operands if number(each) != neutral)
        if len(kept) < len(operands) and any(inputs_of(each) for each in kept):
            return kept[0] if len(kept) == 1 else (name, *kept)
    if name == "max" and len(operands) == 2 and any(number(each) == 0 for each in operands):
        other = operands[0] if number(operands[1]) == 0 else operands[1]
        return ("relu", other) if not _is_constant(other) else None
    return None


def _div(operands: tuple[Expression, ...], dtypes: tuple[str, ...]) -> Expression | None:
    value = number(operands[1])
    if value is None or isinstance(value, bool) or _is_constant(operands[0]):
        return None
    if value == 1:
        return operands[0]
    # The reciprocal of a power of two is exact, so the product equals the quotient.
    if _floating(operands[0], dtypes) and value and math.frexp(abs(value))[0] == 0.5 and 2**-20 < abs(value) < 2**20:
        return ("mul", operands[0], ("const", 1.0 / value, *operands[1][2:]))
    return None


def _pow(operands: tuple[Expression, ...], dtypes: tuple[str, ...]) -> Expression | None:
    value = number(operands[1])
    if value is None or isinstance(value, bool) or _is_constant(operands[0]):
        return None
    if value == 1:
        return operands[0]
    if value == 2:
        return ("square", operands[0])
    if _floating(operands[0], dtypes):
        names = {0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}
        if float(value) in names:
            return (names[float(value)], operands[0])
    return None
