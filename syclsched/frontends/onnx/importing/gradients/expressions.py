# SPDX-License-Identifier: Apache-2.0
"""Symbolic derivatives of element-wise expressions, by reverse accumulation.

Where a function has no derivative, the value is that of PyTorch: 0 at the kink of ``relu``, half for each of two equal
operands of ``max``, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from syclsched.errors import GradientError
from syclsched.kernels.common import Activation
from syclsched.kernels.tensor.writing.expression import (
    OPERATORS,
    Expression,
    expression_text,
    result_dtype,
    split_expression,
)

#: Function of the gradient of the result, the operands, the parameters and the result; returns those of the operands.
_Derivative = Callable[[Expression, Sequence[Expression], Sequence[Any], Expression], Sequence[Expression | None]]


def _c(value: float) -> Expression:
    return ("const", float(value))


def _mul(*factors: Expression) -> Expression:
    return ("mul", *factors)


def _where(condition: Expression, yes: Expression, no: Expression | None = None) -> Expression:
    return ("where", condition, yes, _c(0) if no is None else no)


def _factor(of: Callable[[Expression, Expression], Expression]) -> _Derivative:
    """Return the derivative of a function of one operand, as a factor given operand and result."""
    return lambda g, x, p, y: (_mul(g, of(x[0], y)),)


def _positive(x: Expression) -> Expression:
    return ("greater", x, _c(0))


def _rectifier(g: Expression, x: Sequence[Expression], p: Sequence[Any], y: Expression) -> Sequence[Expression | None]:
    """Return the gradient of a (leaky) rectifier, by its result if that is at hand: the operand need not be kept."""
    slope = float(p[0]) if p else 0.0
    known = y if isinstance(y, int) and slope >= 0 else x[0]
    return (_where(_positive(known), g, _mul(g, _c(slope)) if slope else None),)


def _extreme(name: str) -> _Derivative:
    better = "greater" if name == "max" else "less"

    def derivative(
        g: Expression, x: Sequence[Expression], p: Sequence[Any], y: Expression
    ) -> Sequence[Expression | None]:
        if len(x) == 1:
            return (g,)
        first, rest = x[0], x[1] if len(x) == 2 else (name, *x[1:])
        half = _where(("equal", first, rest), _mul(g, _c(0.5)))
        ours = _where((better, first, rest), g, half)
        theirs = _where((better, rest, first), g, half)
        return (ours, *((theirs,) if len(x) == 2 else derivative(theirs, x[1:], p, rest)))

    return derivative


def _product(g: Expression, x: Sequence[Expression], p: Sequence[Any], y: Expression) -> Sequence[Expression | None]:
    return tuple(_mul(g, *x[:i], *x[i + 1 :]) for i in range(len(x)))


def _power(g: Expression, x: Sequence[Expression], p: Sequence[Any], y: Expression) -> Sequence[Expression | None]:
    base, exponent = x
    if isinstance(exponent, tuple) and exponent[0] == "const":
        n = float(exponent[1])
        if n in (0, 1):
            return (g if n else None, None)
        return (_mul(g, _c(n), base if n == 2 else ("pow", base, _c(n - 1))), None)
    by_base = _where(("equal", exponent, _c(0)), _c(0), _mul(g, exponent, ("pow", base, ("sub", exponent, _c(1)))))
    return by_base, _where(_positive(base), _mul(g, y, ("log", base)))


def _clip(g: Expression, x: Sequence[Expression], p: Sequence[Any], y: Expression) -> Sequence[Expression | None]:
    low, high = (*p, None, None)[:2]
    inside = [("greater_equal", x[0], _c(low))] if low is not None else []
    inside += [("less_equal", x[0], _c(high))] if high is not None else []
    return (_where(("and", *inside), g) if inside else g,)


#: Functions written by simpler ones, whose derivatives follow.
_EXPANSIONS: Final[dict[str, Callable[[Expression, Sequence[Any]], Expression]]] = {
    "silu": lambda x, p: _mul(x, ("sigmoid", x)),
    "mish": lambda x, p: _mul(x, ("tanh", ("softplus", x))),
    "hard_swish": lambda x, p: _mul(x, ("hard_sigmoid", 1 / 6, 0.5, x)),
    "gelu_tanh": lambda x, p: _mul(
        x,
        _c(0.5),
        ("add", _c(1), ("tanh", _mul(_c(math.sqrt(2 / math.pi)), ("add", x, _mul(_c(0.044715), x, x, x))))),
    ),
}


def _zero(g: Expression, x: Sequence[Expression], p: Sequence[Any], y: Expression) -> Sequence[Expression | None]:
    return tuple(None for _ in x)


_DERIVATIVES: Final[dict[str, _Derivative]] = {
    **dict.fromkeys(("sign", "floor", "ceil", "round", "trunc"), _zero),
    "neg": lambda g, x, p, y: (("neg", g),),
    "abs": _factor(lambda x, y: ("sign", x)),
    "square": _factor(lambda x, y: _mul(_c(2), x)),
    "exp": _factor(lambda x, y: y),
    "expm1": _factor(lambda x, y: ("add", y, _c(1))),
    "log": lambda g, x, p, y: (("div", g, x[0]),),
    "log1p": lambda g, x, p, y: (("div", g, ("add", x[0], _c(1))),),
    "sqrt": lambda g, x, p, y: (("div", _mul(g, _c(0.5)), y),),
    "rsqrt": _factor(lambda x, y: _mul(_c(-0.5), y, y, y)),
    "reciprocal": _factor(lambda x, y: ("neg", ("square", y))),
    "erf": _factor(lambda x, y: _mul(_c(2 / math.sqrt(math.pi)), ("exp", ("neg", ("square", x))))),
    "sigmoid": _factor(lambda x, y: _mul(y, ("sub", _c(1), y))),
    "tanh": _factor(lambda x, y: ("sub", _c(1), ("square", y))),
    "softplus": _factor(lambda x, y: ("sigmoid", x)),
    "softsign": _factor(lambda x, y: ("reciprocal", ("square", ("add", _c(1), ("abs", x))))),
    "sin": _factor(lambda x, y: ("cos", x)),
    "cos": _factor(lambda x, y: ("neg", ("sin", x))),
    "tan": _factor(lambda x, y: ("add", _c(1), ("square", y))),
    "asin": _factor(lambda x, y: ("rsqrt", ("sub", _c(1), ("square", x)))),
    "acos": _factor(lambda x, y: ("neg", ("rsqrt", ("sub", _c(1), ("square", x))))),
    "atan": _factor(lambda x, y: ("reciprocal", ("add", _c(1), ("square", x)))),
    "sinh": _factor(lambda x, y: ("cosh", x)),
    "cosh": _factor(lambda x, y: ("sinh", x)),
    "asinh": _factor(lambda x, y: ("rsqrt", ("add", _c(1), ("square", x)))),
    "acosh": _factor(lambda x, y: ("rsqrt", ("sub", ("square", x), _c(1)))),
    "atanh": _factor(lambda x, y: ("reciprocal", ("sub", _c(1), ("square", x)))),
    "gelu": _factor(
        lambda x, y: (
            "add",
            _mul(_c(0.5), ("add", _c(1), ("erf", _mul(x, _c(math.sqrt(0.5)))))),
            _mul(x, _c(1 / math.sqrt(2 * math.pi)), ("exp", _mul(_c(-0.5), ("square", x)))),
        )
    ),
    "relu": _rectifier,
    "narrow": lambda g, x, p, y: (g,),  # rounding passes gradients on
    "scale": lambda g, x, p, y: (_mul(g, _c(p[0])),),
    "leaky_relu": _rectifier,
    "elu": lambda g, x, p, y: (_where(_positive(x[0]), g, _mul(g, _c(p[0]), ("exp", x[0]))),),
    "celu": lambda g, x, p, y: (_where(_positive(x[0]), g, _mul(g, ("exp", _mul(x[0], _c(1 / p[0]))))),),
    "selu": lambda g, x, p, y: (_where(_positive(x[0]), _mul(g, _c(p[1])), _mul(g, _c(p[0] * p[1]), ("exp", x[0]))),),
    "thresholded_relu": lambda g, x, p, y: (_where(("greater", x[0], _c(p[0])), g),),
    "hard_sigmoid": lambda g, x, p, y: (_where(("and", ("greater", y, _c(0)), ("less", y, _c(1))), _mul(g, _c(p[0]))),),
    "shrink": lambda g, x, p, y: (_where(("greater", ("abs", x[0]), _c(p[0])), g),),
    "clip": _clip,
    "add": lambda g, x, p, y: tuple(g for _ in x),
    "sub": lambda g, x, p, y: (g, ("neg", g)),
    "mul": _product,
    "div": lambda g, x, p, y: (("div", g, x[1]), ("neg", ("div", _mul(g, y), x[1]))),
    "mod": lambda g, x, p, y: (g, ("neg", _mul(g, ("floor", ("div", *x))))),
    "fmod": lambda g, x, p, y: (g, ("neg", _mul(g, ("trunc", ("div", *x))))),
    "prelu": lambda g, x, p, y: (
        _where(_positive(x[0]), g, _mul(g, x[1])),
        _where(_positive(x[0]), _c(0), _mul(g, x[0])),
    ),
    "pow": _power,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "where": lambda g, x, p, y: (None, _where(x[0], g), _where(x[0], _c(0), g)),
}


def applied(activation: Activation) -> Expression:
    """Return an activation of input 0."""
    made: Expression = 0
    for name, *numbers in activation:
        made = ("add", made, ("const", numbers[0])) if name == "shift" else (name, *numbers, made)
    return made


def derivatives(
    expression: Expression, dtypes: tuple[str, ...], gradient: Expression, result: Expression | None = None
) -> dict[int, Expression]:
    """Return the gradients of an expression's inputs, as expressions of the same inputs, given that of its result.

    The value of the expression, ``result``, is computed again if it is not given. Raises `GradientError` if an operator
    has no derivative.
    """
    found: dict[int, list[Expression]] = {}
    _accumulate(expression, dtypes, gradient, expression if result is None else result, found)
    return {i: each[0] if len(each) == 1 else ("add", *each) for i, each in found.items()}


def _accumulate(
    expression: Expression,
    dtypes: tuple[str, ...],
    gradient: Expression,
    result: Expression,
    found: dict[int, list[Expression]],
) -> None:
    if isinstance(expression, int):
        if dtypes[expression].startswith("float"):
            found.setdefault(expression, []).append(gradient)
        return
    name = expression[0]
    if name in ("const", "index"):
        return
    parameters, operands = split_expression(expression)
    if name == "cast":
        dtype = result_dtype(operands[0], dtypes)
        if dtype.startswith("float"):
            _accumulate(operands[0], dtypes, ("cast", dtype, gradient), operands[0], found)
        return
    if not result_dtype(expression, dtypes).startswith("float"):
        return
    expand = _EXPANSIONS.get(name)
    if expand is not None:
        expanded = expand(operands[0], parameters)
        _accumulate(expanded, dtypes, gradient, expanded, found)
        return
    derivative = _DERIVATIVES.get(name)
    if derivative is None:
        raise GradientError(f"{name} has no derivative", where=f"expression {expression_text(expression)}")
    given = derivative(gradient, operands, parameters or OPERATORS[name].defaults, result)
    for operand, part in zip(operands, given, strict=True):
        if part is not None:
            _accumulate(operand, dtypes, part, operand, found)
