# SPDX-License-Identifier: Apache-2.0
"""Normal form of element-wise formulas, so that one pattern matches all ways exporters write a formula.

A term is a value's name, a number, or a tuple:

- ``("prod", number, (term, ...))``: a number times terms that are not products;
- ``("sum", number, (term, ...))``: a number plus terms that are not sums;
- ``(operator, *parameters, *terms)``: any other operator; ``reciprocal`` stands for division.

Factors and summands are sorted, so equal products are equal terms. A value with several reads appears by its name: it
may occur twice in a formula, and a value with other readers is not computed again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from syclsched.frontends.onnx.rewrites.fusion.expressions import is_input, number, uses_indices
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.kernels.tensor.writing.expression import split_expression

Term = Any

#: Values with larger terms appear by their names.
_LARGEST: Final = 48


def product(factor: float, factors: list[Term]) -> Term:
    """Return the product of a number and terms."""
    return _combined("prod", operator.mul, 1.0, factor, factors)


def _total(summand: float, summands: list[Term]) -> Term:
    """Return the sum of a number and terms."""
    return _combined("sum", operator.add, 0.0, summand, summands)


def _combined(kind: str, apply: Callable[..., float], neutral: float, number: float, terms: list[Term]) -> Term:
    """Return a product or sum, with nested ones of the same kind merged into it."""
    flat: list[Term] = []
    for each in terms:
        if isinstance(each, tuple) and each[0] == kind:
            number = apply(number, each[1])
            flat += each[2]
        elif isinstance(each, float):
            number = apply(number, each)
        else:
            flat.append(each)
    if not flat:
        return number
    if number == neutral and len(flat) == 1:
        return flat[0]
    return (kind, number, tuple(sorted(flat, key=repr)))


def split_term(term: Term, kind: str) -> tuple[float, tuple[Term, ...]]:
    """Return the number and the operands of a product or sum; any other term is its own single operand."""
    if isinstance(term, tuple) and term[0] == kind:
        return term[1], term[2]
    return (1.0 if kind == "prod" else 0.0), (term,)


def without_operand(operands: tuple[Term, ...], without: Term) -> list[Term]:
    """Return the operands without one of them."""
    rest = list(operands)
    rest.remove(without)
    return rest


def operand_of(term: Term, name: str) -> Term | None:
    """Return the operand if the term is the given unary operator, else None."""
    return term[1] if isinstance(term, tuple) and term[0] == name and len(term) == 2 else None


class Terms:
    """The terms of a network's values, computed on demand."""

    def __init__(self, draft: NetworkDraft) -> None:
        self._draft = draft
        self._known: dict[str, Term] = {}

    def of(self, value: str) -> Term:
        """Return the term of a value: that of its element-wise producer, or else its name or number."""
        # Iterative, as chains can have thousands of nodes.
        todo = [value]
        while value not in self._known:
            deeper = [name for name in self._needed(todo[-1]) if name not in self._known]
            if deeper:
                todo += deeper
                continue
            last = todo.pop()
            self._known[last] = self._made(last)
        return self._known[value]

    def _needed(self, value: str) -> list[str]:
        """Return the values whose terms occur in a value's term."""
        node = None if value in self._draft.constants else self._draft.made_by(value, "elementwise")
        return [name for name in node.inputs if name and not self._is_opaque(name)] if node is not None else []

    def _is_opaque(self, value: str) -> bool:
        """Return whether a value appears by its name in other terms."""
        return value not in self._draft.constants and self._draft.reads(value) > 1

    def _made(self, value: str) -> Term:
        draft = self._draft
        array = draft.constant(value)
        if array is not None:
            return float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind == "f" else value
        node = draft.made_by(value, "elementwise")
        if node is None or not draft.dtype(value).startswith("float"):
            return value
        expression = node.attributes["expression"]
        if any(draft.dtype(name) != draft.dtype(value) for name in node.inputs if name) or uses_indices(expression):
            return value
        inputs = [self._within(name) for name in node.inputs if name is not None]
        return self._term(expression, inputs)

    def _within(self, value: str) -> Term:
        """Return a value's term for use in another term."""
        if self._is_opaque(value):
            return value
        term = self.of(value)
        return value if _size(term) > _LARGEST else term

    def _term(self, expression: Any, inputs: list[Term]) -> Term:
        if is_input(expression):
            return inputs[expression]
        value = number(expression)
        if value is not None:
            return float(value)
        name = expression[0]
        parameters, operands = split_expression(expression)
        terms = [self._term(each, inputs) for each in operands]
        match name:
            case "add":
                return _total(0.0, terms)
            case "mul":
                return product(1.0, terms)
            case "sub":
                return _total(0.0, [terms[0], product(-1.0, [terms[1]])])
            case "neg":
                return product(-1.0, terms)
            case "scale":
                return product(parameters[0], terms)
            case "div":
                return product(1.0, [terms[0], _reciprocal(terms[1])])
            case "reciprocal":
                return _reciprocal(terms[0])
            case "rsqrt":
                return _reciprocal(("sqrt", terms[0]))
            case "square":
                return product(1.0, [terms[0], terms[0]])
            case "pow" if isinstance(terms[1], float):
                return _power(terms[0], terms[1])
            case "relu":
                return ("max", 0.0, terms[0])
            case "clip" if len(parameters) == 2:
                return ("clip", *(None if each is None else float(each) for each in parameters), terms[0])
            case "min" | "max" if len(terms) == 2 and any(isinstance(each, float) for each in terms):
                bound, other = sorted(terms, key=lambda each: not isinstance(each, float))
                return _bounded(name, bound, other)
        return (name, *parameters, *terms)


def _reciprocal(term: Term) -> Term:
    if isinstance(term, float):
        return 1.0 / term if term else ("reciprocal", term)
    if isinstance(term, tuple) and term[0] == "prod" and term[1]:
        return product(1.0 / term[1], [_reciprocal(each) for each in term[2]])
    if isinstance(term, tuple) and term[0] == "reciprocal":
        return term[1]
    return ("reciprocal", term)


def _power(base: Term, exponent: float) -> Term:
    if exponent in (1.0, 2.0, 3.0):
        return product(1.0, [base] * int(exponent))
    if exponent == 0.5:
        return ("sqrt", base)
    if exponent == -0.5:
        return _reciprocal(("sqrt", base))
    if exponent == -1.0:
        return _reciprocal(base)
    return ("pow", base, exponent)


def _bounded(name: str, bound: float, term: Term) -> Term:
    """Return a min or max with a number; a min of a max (or the reverse) becomes a clip."""
    inner = {"min": "max", "max": "min"}[name]
    if isinstance(term, tuple) and term[0] == inner and isinstance(term[1], float):
        low, high = (term[1], bound) if name == "min" else (bound, term[1])
        return ("clip", low, high, term[2])
    return (name, bound, term)


def _size(term: Term) -> int:
    return 1 + sum(map(_size, term)) if isinstance(term, tuple) else 1
