# SPDX-License-Identifier: Apache-2.0
"""Operators on vectors in Python kernels: arithmetic, comparisons, logic; importing it requires numba."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from numba.core import types

from syclsched.kernel_compiler.python_kernel import COMPARISONS, CompilerExtension
from syclsched.kernels.vectors.vector_functions import bits, choose, of_bits, quotient, unordered
from syclsched.kernels.vectors.vector_type import (
    Vector,
    broadcast_all,
    common,
    common_pair,
    define,
    lower_pairs,
    operands,
)

_ARITHMETIC = {operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div"}
_LOGIC = {operator.and_: "and_", operator.or_: "or_"}


def register(extension: CompilerExtension) -> None:
    """Register the operators with a compiler."""
    _register_arithmetic(extension)
    _register_comparisons(extension)
    _register_logic(extension)


# --- arithmetic ---------------------------------------------------------------------------------------


def _register_arithmetic(extension: CompilerExtension) -> None:
    for symbol, word in _ARITHMETIC.items():
        define(symbol, common_pair)
        lower_pairs(extension, symbol, _arithmetic(word))
    define(operator.neg, lambda x: x if isinstance(x, Vector) else None)
    extension.lower(operator.neg, Vector)(_negation)
    define(quotient, _quotient_type)
    lower_pairs(extension, quotient, _quotient)
    for function, given, made in ((bits, types.float32, types.uint32), (of_bits, types.uint32, types.float32)):
        define(function, _reinterpretation_type(given, made))
        extension.lower(function, given)(_reinterpretation)


def _reinterpretation_type(given: Any, made: Any) -> Callable[..., Any]:
    return lambda x: made if x == given else None


def _reinterpretation(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))


def _arithmetic(word: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype, a, b = operands(context, builder, signature, arguments)
        return getattr(builder, f"f{word}" if isinstance(dtype, types.Float) else word)(a, b)

    return emit


def _negation(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    whole = isinstance(signature.args[0].dtype, types.Integer)
    return (builder.neg if whole else builder.fneg)(arguments[0])


def _quotient_type(a: Any, b: Any) -> Any:
    kind = common(a, b)
    return kind if kind and isinstance(kind.dtype, types.Integer) else None


def _quotient(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    dtype, a, b = operands(context, builder, signature, arguments)
    return (builder.sdiv if dtype.signed else builder.udiv)(a, b)


# --- comparisons --------------------------------------------------------------------------------------


def _register_comparisons(extension: CompilerExtension) -> None:
    for symbol, word in COMPARISONS.items():
        define(symbol, _comparison_type)
        lower_pairs(extension, symbol, _comparison(word))
    define(unordered, _unordered_type)
    lower_pairs(extension, unordered, _unordered)


def _comparison_type(a: Any, b: Any) -> Any:
    kind = common(a, b)
    return kind and Vector(types.boolean, kind.lanes)


def _comparison(word: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype, a, b = operands(context, builder, signature, arguments)
        if isinstance(dtype, types.Float):
            # NaN compares unequal to everything.
            return (builder.fcmp_unordered if word == "!=" else builder.fcmp_ordered)(word, a, b)
        return (builder.icmp_signed if dtype.signed else builder.icmp_unsigned)(word, a, b)

    return emit


def _unordered_type(a: Any, b: Any) -> Any:
    kind = common(a, b)
    return Vector(types.boolean, kind.lanes) if kind and isinstance(kind.dtype, types.Float) else None


def _unordered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    _, a, b = operands(context, builder, signature, arguments)
    return builder.fcmp_unordered("uno", a, b)


# --- logic and selection ------------------------------------------------------------------------------


def _register_logic(extension: CompilerExtension) -> None:
    for symbol, word in _LOGIC.items():
        define(symbol, _logic_type)
        extension.lower(symbol, Vector, Vector)(_logic(word))
    define(operator.invert, lambda x: x if isinstance(x, Vector) and x.dtype == types.boolean else None)
    extension.lower(operator.invert, Vector)(_inversion)
    define(choose, _choice_type)
    extension.lower(choose, Vector, types.Any, types.Any)(_choice)


def _logic_type(a: Any, b: Any) -> Any:
    return a if a == b and isinstance(a, Vector) and a.dtype == types.boolean else None


def _logic(word: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, word)(*arguments)

    return emit


def _inversion(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.not_(arguments[0])


def _choice_type(condition: Any, yes: Any, no: Any) -> Any:
    return common(yes, no) if isinstance(condition, Vector) else None


def _choice(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    choices = broadcast_all(context, builder, arguments[1:], signature.args[1:], signature.return_type)
    return builder.select(arguments[0], *choices)
