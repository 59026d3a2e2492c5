# SPDX-License-Identifier: Apache-2.0
"""Element-wise expression language: nested tuples, with dtype inference and checks.

An expression is

- an integer: the number of an input;
- ``("const", value)``: a constant whose dtype is inferred from the other operands, or ``("const", value, dtype)``;
- ``("index", axis)``: int64, the index of the element along an axis of the result; the axis counts from the end (-1 is
  the last);
- ``("cast", dtype, e)``;
- ``(name, *parameters, *operands)`` for the operators of `OPERATORS`: parameters are plain numbers, and may be
  omitted if they have defaults.

``("relu", ("add", 0, ("mul", 1, ("const", 2.0))))`` is max(x0 + 2 x1, 0). The semantics are the same on all devices:

- The operands of an operator have one dtype; only ``cast`` converts. The second operand of shifts and ``pow`` may have
  another dtype; the result has the dtype of the first.
- float16 is computed in float32, and rounded by stores and casts.
- Integers wrap. ``div`` of integers truncates, ``mod`` has the sign of the divisor, ``fmod`` of the dividend; all
  three give 0 where the divisor is 0. ``mod`` of floats gives a zero the sign of the divisor, too.
- A shift by a negative amount, or by as many bits as there are, leaves copies of the sign alone: ``shift_right`` of a
  negative integer gives -1, everything else 0.
- ``("narrow", bits, exponent, e)`` rounds a float32 to as many bits of fraction, ties to even; below 2 to the exponent,
  to multiples of the least number there.
- ``bfloat16_bits`` gives the bits of a float32 rounded to bfloat16, ties to even, as an uint16; ``of_bfloat16_bits``
  gives the float32 of such bits.
- ``min``, ``max``, ``clip`` and ``relu`` propagate NaN; ``round`` rounds ties to even.

Names and semantics mostly follow the ONNX operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Literal, ParamSpec, TypeVar

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ALL_DTYPES

#: A nested tuple as described above.
Expression = Any

T = TypeVar("T")
P = ParamSpec("P")

#: Results that a function of expressions keeps.
_MOST_KNOWN: Final = 4096

#: Maximum operators in one expression; larger kernels take too long to compile.
MAX_OPERATORS: Final = 400

_FLOATS = frozenset({"float16", "float32", "float64"})
_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
_DOMAINS = {
    "float": _FLOATS,
    "integer": _INTEGERS,
    "number": _FLOATS | _INTEGERS,
    "bool": frozenset({"bool"}),
    "any": _FLOATS | _INTEGERS | {"bool"},
    **{dtype: frozenset({dtype}) for dtype in ("float32", "uint16")},
}

Rule = Literal["same", "bool", "where", "first", "uint16", "float32"]


@dataclass(frozen=True, slots=True)
class _OperatorSignature:
    """Signature of an operator."""

    domain: str  # dtypes of its operands: "float", "integer", "number", "bool", "any", or a dtype
    least: int = 1  # minimum number of operands
    most: int | None = 1  # maximum number of operands; None for any
    defaults: tuple[float | None, ...] = ()  # of its parameters; NaN for a required one
    #: Result dtype: "same" as the operands; "bool"; "where": same, and the first operand is a condition; "first": as
    #: the first operand, the second may have another; or a dtype.
    rule: Rule = "same"


_REQUIRED = math.nan
_SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def _table() -> dict[str, _OperatorSignature]:
    table = {
        name: _OperatorSignature("number")
        for name in ("neg", "abs", "sign", "relu", "square", "floor", "ceil", "round", "trunc")
    }
    for name in (
        *("exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "erf", "sigmoid", "softplus", "softsign"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("hard_swish", "gelu", "gelu_tanh", "silu", "mish"),
    ):
        table[name] = _OperatorSignature("float")
    for name, defaults in (
        *(("leaky_relu", (0.01,)), ("elu", (1.0,)), ("celu", (1.0,)), ("selu", _SELU), ("thresholded_relu", (1.0,))),
        *(("hard_sigmoid", (0.2, 0.5)), ("shrink", (0.5, 0.0)), ("scale", (_REQUIRED,))),
    ):
        table[name] = _OperatorSignature("float", defaults=defaults)
    table["narrow"] = _OperatorSignature("float", defaults=(_REQUIRED, _REQUIRED))
    table["bfloat16_bits"] = _OperatorSignature("float32", rule="uint16")
    table["of_bfloat16_bits"] = _OperatorSignature("uint16", rule="float32")
    table["clip"] = _OperatorSignature("number", defaults=(None, None))
    for name in ("add", "mul", "min", "max"):
        table[name] = _OperatorSignature("number", 1, None)
    for name in ("sub", "div", "mod", "fmod", "prelu"):
        table[name] = _OperatorSignature("number", 2, 2)
    table["pow"] = _OperatorSignature("number", 2, 2, rule="first")
    for name in ("shift_left", "shift_right"):
        table[name] = _OperatorSignature("integer", 2, 2, rule="first")
    for name in ("less", "less_equal", "greater", "greater_equal"):
        table[name] = _OperatorSignature("number", 2, 2, rule="bool")
    for name in ("equal", "not_equal"):
        table[name] = _OperatorSignature("any", 2, 2, rule="bool")
    table["isnan"] = _OperatorSignature("float", rule="bool")
    table["isinf"] = _OperatorSignature("float", defaults=(1, 1), rule="bool")
    for name in ("and", "or", "xor"):
        table[name] = _OperatorSignature("bool", 1, None, rule="bool")
    table["not"] = _OperatorSignature("bool", rule="bool")
    for name in ("bit_and", "bit_or", "bit_xor"):
        table[name] = _OperatorSignature("integer", 1, None)
    table["bit_not"] = _OperatorSignature("integer")
    table["where"] = _OperatorSignature("any", 3, 3, rule="where")
    return table


#: All operators by name, except ``const``, ``index`` and ``cast``.
OPERATORS: Final = _table()


@dataclass(frozen=True, slots=True, eq=False)
class TypedExpression:
    """An expression with dtypes; equal subexpressions are the same object."""

    operator: str  # a name of `OPERATORS`, or "input", "const", "index", "cast"
    parameters: tuple[Any, ...]  # with defaults; of "input" its number, of "const" its value, of "index" its axis
    operands: tuple[
        TypedExpression, ...
    ]  # variadic operators are nested pairs: ``add(a, b, c)`` is ``add(add(a, b), c)``
    dtype: str  # of the result


def infer_dtypes(expression: Expression, dtypes: tuple[str, ...], result: str | None = None) -> TypedExpression:
    """Check an expression and infer its dtypes; ``result`` is the required dtype, if any."""
    found = _DtypeInference(dtypes).typed(expression, result)
    if result is not None and found.dtype != result:
        raise ArgumentError(f"it gives {found.dtype}, not {result}", where=_where(expression))
    return found


def known_by_text(function: Callable[[Expression, tuple[str, ...]], T]) -> Callable[[Expression, tuple[str, ...]], T]:
    """Return a function of an expression and dtypes that keeps its results: networks repeat few expressions.

    Their keys are texts, since 1, 1.0 and True compare equal, as do 0.0 and -0.0.
    """
    results: dict[tuple[str, tuple[str, ...]], T] = {}

    @wraps(function)
    def known(expression: Expression, dtypes: tuple[str, ...]) -> T:
        key = repr(expression), dtypes
        if key in results:
            return results[key]
        result = function(expression, dtypes)
        if len(results) < _MOST_KNOWN:
            results[key] = result
        return result

    return known


def cached_by_text(function: Callable[P, T]) -> Callable[P, T]:
    """Return a factory that keeps its results by the text of its arguments, which contain expressions.

    Their values are no keys: 1, 1.0 and True compare equal, but are different constants, as are 0.0 and -0.0.
    """
    results: dict[str, T] = {}

    @wraps(function)
    def cached(*args: P.args, **kwargs: P.kwargs) -> T:
        key = repr((args, kwargs))
        if key not in results:
            results[key] = function(*args, **kwargs)
        return results[key]

    return cached


@known_by_text
def result_dtype(expression: Expression, dtypes: tuple[str, ...]) -> str:
    """Return the dtype of an expression's result."""
    return infer_dtypes(expression, dtypes).dtype


def inputs_of(expression: Expression) -> frozenset[int]:
    """Return the numbers of the inputs that an expression reads."""
    if isinstance(expression, int):
        return frozenset({expression})
    return frozenset().union(*(inputs_of(each) for each in split_expression(expression)[1]))


def substitute(expression: Expression, inputs: dict[int, Expression]) -> Expression:
    """Return an expression with inputs replaced by other expressions."""
    if isinstance(expression, int):
        return inputs.get(expression, expression)
    parameters, operands = split_expression(expression)
    return (expression[0], *parameters, *(substitute(each, inputs) for each in operands))


def axes_of(expression: Expression) -> frozenset[int]:
    """Return the axes whose ``index`` an expression uses."""
    if isinstance(expression, int):
        return frozenset()
    if expression[0] == "index":
        return frozenset({expression[1]})
    return frozenset().union(*(axes_of(each) for each in split_expression(expression)[1]))


def count_operators(expression: Expression) -> int:
    """Return the number of operators in an expression: roughly its cost per element."""
    if isinstance(expression, int):
        return 0
    return (expression[0] not in ("const", "index")) + sum(
        count_operators(each) for each in split_expression(expression)[1]
    )


def expression_text(expression: Expression) -> str:
    """Return an expression as text, for names and messages: ``relu(add(x0, mul(x1, 2.0)))``."""
    if isinstance(expression, int):
        return f"x{expression}"
    parameters, operands = split_expression(expression)
    if expression[0] == "const":
        return str(parameters[0]) if len(parameters) == 1 else f"{parameters[1]}({parameters[0]})"
    arguments = [*(str(each) for each in parameters), *(expression_text(each) for each in operands)]
    return f"{expression[0]}({', '.join(arguments)})"


def split_expression(expression: Expression) -> tuple[tuple[Any, ...], tuple[Expression, ...]]:
    """Return the parameters and operands of an expression other than an input."""
    if not isinstance(expression, tuple) or not expression or not isinstance(expression[0], str):
        raise ArgumentError(
            "it is no expression: expected the number of an input, or a tuple that begins with a name",
            where=_where(expression),
        )
    name, given = expression[0], expression[1:]
    if name in ("const", "index", "cast"):
        operands = 1 if name == "cast" else 0
        parameters = len(given) - operands
        if not 1 <= parameters <= (2 if name == "const" else 1):
            raise ArgumentError(f"{name!r} is given {len(given)} arguments", where=_where(expression))
        return given[:parameters], given[parameters:]
    operator = OPERATORS.get(name)
    if operator is None:
        raise ArgumentError(f"there is no operator {name!r}", hint=f"There are: {', '.join(sorted(OPERATORS))}")
    count = len(operator.defaults) if len(given) == len(operator.defaults) + operator.least else 0
    parameters, operands_given = given[:count], given[count:]
    most = math.inf if operator.most is None else operator.most
    if not operator.least <= len(operands_given) <= most or any(isinstance(p, (tuple, str)) for p in parameters):
        raise ArgumentError(
            f"{name!r} is given {len(given)} arguments that do not match its parameters and operands",
            where=_where(expression),
        )
    return parameters, operands_given


def _where(expression: Expression) -> str:
    shown = repr(expression)
    return f"expression {shown if len(shown) <= 120 else shown[:117] + '...'}"


class _DtypeInference:
    """Bottom-up dtype inference; constants without a dtype take that of the other operands."""

    def __init__(self, dtypes: tuple[str, ...]) -> None:
        self._dtypes = dtypes
        self._nodes: dict[tuple[Any, ...], TypedExpression] = {}
        self._count = 0

    def typed(self, expression: Expression, wanted: str | None) -> TypedExpression:
        if isinstance(expression, int) and not isinstance(expression, bool):
            if not 0 <= expression < len(self._dtypes):
                raise ArgumentError(f"there is no input {expression}, only {len(self._dtypes)}", where="expression")
            return self._node("input", (expression,), (), self._dtypes[expression])
        self._count += 1
        if self._count > MAX_OPERATORS:
            raise ArgumentError(
                f"it has more than {MAX_OPERATORS} operators, and a kernel of so many takes too long to compile",
                where="expression",
                hint="Compute it in several steps, with an operation for each",
            )
        parameters, operands = split_expression(expression)
        name = expression[0]
        if name == "const":
            return self._constant(expression, parameters, wanted)
        if name == "index":
            if not isinstance(parameters[0], int) or parameters[0] >= 0:
                raise ArgumentError("an axis is counted from the end: -1 is the last", where=_where(expression))
            return self._node("index", parameters, (), "int64")
        if name == "cast":
            self._check_known(parameters[0], expression)
            return self._node("cast", parameters, (self.typed(operands[0], None),), parameters[0])
        return self._operator(expression, parameters, operands, wanted)

    def _node(
        self, operator: str, parameters: tuple[Any, ...], operands: tuple[TypedExpression, ...], dtype: str
    ) -> TypedExpression:
        # 1, 1.0 and True compare equal, as do 0.0 and -0.0, but are different parameters.
        key = (operator, tuple((type(p), str(p)) for p in parameters), tuple(map(id, operands)), dtype)
        return self._nodes.setdefault(key, TypedExpression(operator, parameters, operands, dtype))

    def _check_known(self, dtype: Any, expression: Expression) -> None:
        if dtype not in ALL_DTYPES:
            raise ArgumentError(
                f"there is no dtype {dtype!r} here", where=_where(expression), hint=", ".join(ALL_DTYPES)
            )

    def _constant(self, expression: Expression, parameters: tuple[Any, ...], wanted: str | None) -> TypedExpression:
        value = parameters[0]
        if not isinstance(value, (bool, int, float)):
            raise ArgumentError(f"{value!r} is not a number", where=_where(expression))
        natural = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
        dtype = parameters[1] if len(parameters) == 2 else wanted or natural
        self._check_known(dtype, expression)
        if dtype in _INTEGERS:
            if isinstance(value, float) and not value.is_integer():
                raise ArgumentError(f"{value!r} is not a number of {dtype}", where=_where(expression))
            value = int(value)
        elif dtype == "bool":
            value = bool(value)
        else:
            value = float(value)
        return self._node("const", (value,), (), dtype)

    def _operator(
        self, expression: Expression, parameters: tuple[Any, ...], operands: tuple[Expression, ...], wanted: str | None
    ) -> TypedExpression:
        name = expression[0]
        operator = OPERATORS[name]
        parameters = parameters or operator.defaults
        if any(isinstance(p, float) and math.isnan(p) for p in parameters):
            raise ArgumentError(f"a parameter of {name!r} is missing or no number", where=_where(expression))
        before: tuple[TypedExpression, ...] = ()
        if operator.rule == "where":
            before, operands = (self.typed(operands[0], "bool"),), operands[1:]
            self._check(before[0].dtype, "bool", expression)
        if operator.rule == "bool":
            wanted = "bool" if operator.domain == "bool" else None
        elif operator.rule in ALL_DTYPES:
            wanted = operator.domain
        given = self._same_dtype(operands[:1] if operator.rule == "first" else operands, wanted, expression)
        if operator.rule == "first":
            given += (self.typed(operands[1], given[0].dtype),)
        for each in given:
            self._check(each.dtype, operator.domain, expression)
        dtype = operator.rule if operator.rule in ALL_DTYPES else given[0].dtype
        if operator.most is not None or len(given) == 1:
            if operator.most is None:
                return given[0]
            return self._node(name, parameters, before + given, dtype)
        node = given[0]
        for each in given[1:]:
            node = self._node(name, parameters, (node, each), dtype)
        return node

    def _same_dtype(
        self, operands: tuple[Expression, ...], wanted: str | None, expression: Expression
    ) -> tuple[TypedExpression, ...]:
        """Return operands of one dtype; untyped constants take the dtype of the others."""
        untyped = [_untyped(each) for each in operands]
        own = [None if late else self.typed(each, wanted) for each, late in zip(operands, untyped, strict=True)]
        dtypes = sorted({each.dtype for each in own if each is not None})
        if len(dtypes) > 1:
            raise ArgumentError(
                f"operands of {expression[0]!r} are {' and '.join(dtypes)}", where=_where(expression), hint="Cast one"
            )
        dtype = dtypes[0] if dtypes else wanted
        unified: list[TypedExpression] = []
        for each, known in zip(operands, own, strict=True):
            unified.append(self.typed(each, dtype) if known is None else known)
            dtype = dtype or unified[-1].dtype
        if len({each.dtype for each in unified}) > 1:
            raise ArgumentError(f"constants of {expression[0]!r} are of several dtypes", where=_where(expression))
        return tuple(unified)

    def _check(self, dtype: str, domain: str, expression: Expression) -> None:
        if dtype not in _DOMAINS[domain]:
            raise ArgumentError(f"{expression[0]!r} takes no {dtype}", where=_where(expression))


def _untyped(expression: Expression) -> bool:
    """Return whether an expression consists of constants without a dtype."""
    if isinstance(expression, int):
        return False
    name = expression[0] if isinstance(expression, tuple) and expression else None
    if name == "const":
        return len(expression) == 2
    if name in ("index", "cast") or name not in OPERATORS or OPERATORS[name].rule in ALL_DTYPES:
        return False
    operands = split_expression(expression)[1]
    if OPERATORS[name].rule == "first":
        operands = operands[:1]
    elif OPERATORS[name].rule == "where":
        operands = operands[1:]
    return all(_untyped(each) for each in operands)
