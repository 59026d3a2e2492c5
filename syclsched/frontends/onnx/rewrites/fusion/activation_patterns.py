# SPDX-License-Identifier: Apache-2.0
"""Recognition of activations that exporters decomposed: Gelu, SiLU, hard swish, Mish, sigmoid, softplus.

As one operator they can be fused into the preceding convolution or matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from syclsched.frontends.onnx.rewrites.fusion.expressions import set_expression
from syclsched.frontends.onnx.rewrites.fusion.terms import Term, Terms, operand_of, product, split_term, without_operand
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft

_ROOT_HALF: Final = math.sqrt(0.5)
_TANH: Final = math.sqrt(2 / math.pi)
_CUBIC: Final = 0.044715


def replace_activations(draft: NetworkDraft) -> None:
    """Replace decomposed activations by one operator."""
    terms = Terms(draft)
    for node in reversed(tuple(draft.each("elementwise"))):
        output = node.outputs[0]
        if node.name not in draft or output is None:
            continue
        term = terms.of(output)
        if not isinstance(term, tuple):
            continue
        for name, formula in _FORMULAS.items():
            x = formula(term)
            if x is None or (isinstance(x, str) and draft.shape(x) != draft.shape(output)):
                continue
            writer = _ExpressionWriter(draft.dtype(output))
            expression = (name, writer.expression(x))
            if expression == node.attributes["expression"]:
                break
            set_expression(draft, node, expression, tuple(writer.inputs))
            draft.remove_unread(*node.inputs)
            draft.record_change(f"{name} in pieces is one operator", node.name)
            break


def _is_close(one: Any, other: float) -> bool:
    """Return whether a number of a model equals a formula's number, rounded to float32."""
    return isinstance(one, float) and abs(one - other) <= 2e-6 * abs(other)


def _half_of_one_plus(term: Term, operator: str) -> tuple[float, list[Term], Term] | None:
    """Match factor * rest * (1 + operator(argument)), with the factor distributed or not; return the three."""
    factor, factors = split_term(term, "prod")
    for each in factors:
        summand, summands = split_term(each, "sum")
        if len(summands) != 1 or not summand:
            continue
        inner, applied = split_term(summands[0], "prod")
        found = operand_of(applied[0], operator) if len(applied) == 1 else None
        if found is not None and _is_close(inner, summand):
            return factor * summand, without_operand(factors, each), found
    return None


def _gelu(term: Term) -> Term | None:
    found = _half_of_one_plus(term, "erf")
    if found is None:
        return None
    factor, rest, inner = found
    share, factors = split_term(inner, "prod")
    scale = 1.0 if _is_close(share, _ROOT_HALF) else share / _ROOT_HALF
    return (
        product(scale, list(factors))
        if _is_close(factor, 0.5 * scale) and sorted(rest, key=repr) == [*factors]
        else None
    )


def _gelu_tanh(term: Term) -> Term | None:
    found = _half_of_one_plus(term, "tanh")
    if found is None or not _is_close(found[0], 0.5) or len(found[1]) != 1:
        return None
    x = found[1][0]
    scale, factors = split_term(found[2], "prod")
    if len(factors) == 1:
        summand, summands = split_term(factors[0], "sum")
        if not summand and len(summands) == 2:
            shares = sorted((split_term(each, "prod") for each in summands), key=lambda each: len(each[1]))
            right = shares[0][1] == (x,) and shares[1][1] == (x, x, x)
            right = right and _is_close(scale * shares[0][0], _TANH) and _is_close(scale * shares[1][0], _TANH * _CUBIC)
            return x if right else None
    if len(factors) == 2 and x in factors:
        summand, summands = split_term(without_operand(factors, x)[0], "sum")
        if len(summands) == 1:
            share, squares = split_term(summands[0], "prod")
            right = squares == (x, x) and _is_close(scale * summand, _TANH) and _is_close(scale * share, _TANH * _CUBIC)
            return x if right else None
    return None


def _sigmoid(term: Term) -> Term | None:
    below = operand_of(term, "reciprocal")
    summand, summands = split_term(below, "sum") if below is not None else (0.0, ())
    power = operand_of(summands[0], "exp") if len(summands) == 1 and _is_close(summand, 1.0) else None
    if power is None:
        return None
    factor, factors = split_term(power, "prod")
    return product(-factor, list(factors))


def _silu(term: Term) -> Term | None:
    return _times_function(term, lambda each: operand_of(each, "sigmoid") or _sigmoid(each))


def _times_function(term: Term, match: Callable[[Term], Term | None]) -> Term | None:
    """Match x * f(x), where ``match`` returns the argument of f."""
    factor, factors = split_term(term, "prod")
    if factor != 1 or len(factors) != 2:
        return None
    for each in factors:
        x = match(each)
        if x is not None and without_operand(factors, each) == [x]:
            return x
    return None


def _hard_swish(term: Term) -> Term | None:
    factor, factors = split_term(term, "prod")
    if len(factors) != 2:
        return None
    for each in factors:
        x = without_operand(factors, each)[0]
        if not isinstance(each, tuple):
            continue
        if each[0] == "hard_sigmoid":
            numbers = each[1:-1] or (0.2, 0.5)
            if each[-1] == x and factor == 1 and _is_close(numbers[0], 1 / 6) and _is_close(numbers[1], 0.5):
                return x
        if each[0] == "clip" and each[1] == 0 and isinstance(each[2], float) and each[2] > 0:
            summand, summands = split_term(each[3], "sum")
            share, inner = split_term(summands[0], "prod") if len(summands) == 1 else (0.0, ())
            scale = factor * each[2]
            right = inner == (x,) and _is_close(scale, 1.0) and _is_close(summand * factor, 0.5)
            if right and _is_close(share * factor, 1 / 6):
                return x
    return None


def _softplus(term: Term) -> Term | None:
    inner = operand_of(term, "log")
    if inner is not None:
        summand, summands = split_term(inner, "sum")
        return operand_of(summands[0], "exp") if len(summands) == 1 and _is_close(summand, 1.0) else None
    inner = operand_of(term, "log1p")
    return operand_of(inner, "exp") if inner is not None else None


def _mish(term: Term) -> Term | None:
    def argument(each: Term) -> Term | None:
        inner = operand_of(each, "tanh")
        return None if inner is None else operand_of(inner, "softplus") or _softplus(inner)

    return _times_function(term, argument)


_FORMULAS: Final[dict[str, Callable[[Term], Term | None]]] = {
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "hard_swish": _hard_swish,
    "mish": _mish,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
}


class _ExpressionWriter:
    """Conversion of a term to an expression and its inputs."""

    def __init__(self, dtype: str) -> None:
        self.inputs: list[str] = []
        self._dtype = dtype

    def expression(self, term: Term) -> Any:
        if isinstance(term, str):
            if term not in self.inputs:
                self.inputs.append(term)
            return self.inputs.index(term)
        if isinstance(term, float):
            return ("const", term, self._dtype)
        if term[0] in ("prod", "sum"):
            name, neutral = ("mul", 1.0) if term[0] == "prod" else ("add", 0.0)
            operands = [self.expression(each) for each in term[2]]
            if term[1] != neutral:
                operands.append(self.expression(term[1]))
            return operands[0] if len(operands) == 1 else (name, *operands)
        if term[0] in ("max", "min") and isinstance(term[1], float):
            return (term[0], self.expression(term[2]), self.expression(term[1]))
        if term[0] == "pow":
            return ("pow", self.expression(term[1]), self.expression(term[2]))
        return tuple(
            self.expression(each) if isinstance(each, (str, tuple)) and i else each for i, each in enumerate(term)
        )
