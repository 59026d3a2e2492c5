# SPDX-License-Identifier: Apache-2.0
"""Gradients of element-wise expressions and of in-place activations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from syclsched.errors import GradientError
from syclsched.frontends.onnx.importing.gradients.expressions import derivatives
from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of, no_gradient, sum_to
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.kernels.tensor.writing.expression import (
    MAX_OPERATORS,
    Expression,
    inputs_of,
    split_expression,
    substitute,
)


@gradient_of("elementwise")
def _elementwise(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    (gradient,) = gradients
    assert gradient is not None
    inputs = [name for name in node.inputs if name is not None]
    expression, result = node.attributes["expression"], node.outputs[0] or ""
    dtypes = tuple(b.dtype(name) for name in inputs)
    count = len(inputs)
    # The result is at hand; where it stands for the root, nothing is computed again.
    known = count + 1 if isinstance(expression, tuple) and expression[0] != "where" else None
    try:
        found = derivatives(expression, dtypes, count, known)
    except GradientError as error:
        raise no_gradient(node, error.what) from error
    if any(_is_long(each) for each in found.values()):
        return _in_steps(b, node, expression, inputs, gradient)
    made: list[str | None] = []
    for position, name in enumerate(inputs):
        if not wanted[position] or position not in found:
            made.append(None)
        else:
            each = found[position]
            own = gradient if each == count else _applied(b, each, [*inputs, gradient, result], b.shape(gradient))
            made.append(sum_to(b, own, b.shape(name)))
    return made


def _applied(b: NetworkBuilder, expression: Expression, values: Sequence[str], shape: tuple[int, ...]) -> str:
    """Add an expression of those values that it reads."""
    used = sorted(inputs_of(expression))
    renumbered = substitute(expression, {old: new for new, old in enumerate(used)})
    return b.elementwise(renumbered, *(values[old] for old in used), shape=shape)


def _is_long(expression: Expression) -> bool:
    """Return whether an expression, written out, is too long for one kernel."""
    return next((True for count, _ in enumerate(_operators(expression), 1) if count > MAX_OPERATORS), False)


def _operators(expression: Expression) -> Iterator[str]:
    if not isinstance(expression, int):
        yield expression[0]
        for operand in split_expression(expression)[1]:
            yield from _operators(operand)


def _in_steps(
    b: NetworkBuilder, node: CanonicalNode, expression: Expression, inputs: Sequence[str], gradient: str
) -> Names:
    """Return the gradients of an expression of which each operator is computed, and differentiated, once.

    Written out, a derivative repeats what its operators share, and its length may double with each of them.
    """
    shape = b.shape(gradient)
    values: dict[Expression, str] = {position: b.expand(name, shape) for position, name in enumerate(inputs)}
    steps: list[tuple[Expression, list[Expression], Expression]] = []

    def add(each: Expression) -> None:
        if each in values or (isinstance(each, tuple) and each[0] == "const"):
            return
        parameters, operands = split_expression(each)
        for operand in operands:
            add(operand)
        read = [operand for operand in operands if operand in values]
        places = {operand: place for place, operand in enumerate(dict.fromkeys(read))}
        own = (each[0], *parameters, *(places.get(operand, operand) for operand in operands))
        steps.append((each, list(places), own))
        values[each] = b.elementwise(own, *(values[operand] for operand in places), shape=shape)

    add(expression)
    parts: dict[Expression, list[str]] = {expression: [gradient]}
    for each, read, own in reversed(steps):
        if each not in parts:
            continue
        total = _sum(b, parts[each])
        given = [*(values[operand] for operand in read), total, values[each]]
        try:
            found = derivatives(own, tuple(b.dtype(name) for name in given[:-2]), len(read), len(read) + 1)
        except GradientError as error:
            raise no_gradient(node, error.what) from error
        for place, part in found.items():
            parts.setdefault(read[place], []).append(_applied(b, part, given, shape))
    return [
        sum_to(b, _sum(b, parts[position]), b.shape(name)) if position in parts else None
        for position, name in enumerate(inputs)
    ]


def _sum(b: NetworkBuilder, values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else b.elementwise(("add", *range(len(values))), *values)
