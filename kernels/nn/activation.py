# SPDX-License-Identifier: Apache-2.0
"""Activations applied to every element of a result before it is stored: as data, in NumPy and in kernels.

An activation is a tuple of steps applied in order, each a tuple of a name and its numbers: ``()`` does nothing,
``(("relu",),)``, ``(("clip", 0.0, 6.0),)``, ``(("scale", 0.125), ("tanh",))``. It is hashable, so it can be an
attribute of an operation and part of its name. NaN stays NaN, as in NumPy and ONNX.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syclsched.errors import ArgumentError
from syclsched.kernels.common import Activation
from syclsched.kernels.nn.opencl_types import literal
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.kernels.vectors import error_function

#: ONNX's alpha and gamma of selu.
SELU: Final = (1.67326319217681884765625, 1.05070102214813232421875)
_ROOT_HALF: Final = math.sqrt(0.5)
_GELU_TANH: Final = math.sqrt(2 / math.pi)
#: Without overflow; the logarithm propagates NaN.
_SOFTPLUS: Final = "((x if x > 0 else 0) + log1p(exp(-fabs(x))))"


@dataclass(frozen=True, slots=True)
class _ActivationStep:
    """One kind of activation step."""

    numbers: tuple[float, ...]  # default numbers
    #: Expression of ``x``, the numbers ``a`` and ``b``, and C library functions; see `Translation`.
    formula: str
    numpy: Callable[..., Any]  # ``function(x, *numbers)`` of a floating-point array; returns a new one
    cost: int = 1  # operations counted per element


def _np() -> Any:
    import numpy

    return numpy


def _sigmoid(x: Any) -> Any:
    # exp of a large number overflows to infinity, and its reciprocal is 0 as it should be.
    with _np().errstate(over="ignore"):
        return 1 / (1 + _np().exp(-x))


def _exponential_unit(x: Any, alpha: float, inner: float = 1.0) -> Any:
    return _np().where(x < 0, alpha * _np().expm1(_np().minimum(x, 0) * inner), x)


STEPS: Final[dict[str, _ActivationStep]] = {
    "relu": _ActivationStep((), "0 if x < 0 else x", lambda x: _np().maximum(x, 0)),
    "leaky_relu": _ActivationStep((0.01,), "x * a if x < 0 else x", lambda x, a: _np().where(x < 0, a * x, x), 2),
    "thresholded_relu": _ActivationStep(
        (1.0,), "0 if x <= a else x", lambda x, a: _np().where(x <= a, x.dtype.type(0), x)
    ),
    "elu": _ActivationStep((1.0,), "a * expm1(x) if x < 0 else x", _exponential_unit, 3),
    "celu": _ActivationStep((1.0,), "a * expm1(x / a) if x < 0 else x", lambda x, a: _exponential_unit(x, a, 1 / a), 4),
    "selu": _ActivationStep(
        SELU,
        "b * (a * expm1(x) if x < 0 else x)",
        lambda x, alpha, gamma: gamma * _exponential_unit(x, alpha),
        4,
    ),
    "clip": _ActivationStep(
        (-math.inf, math.inf),
        "a if x < a else b if x > b else x",
        lambda x, low, high: _np().minimum(_np().maximum(x, low), high),
        2,
    ),
    "sigmoid": _ActivationStep((), "1 / (1 + exp(-x))", _sigmoid, 3),
    "tanh": _ActivationStep((), "tanh(x)", lambda x: _np().tanh(x)),
    "gelu": _ActivationStep(
        (),
        f"x * 0.5 * (1 + erf(x * {_ROOT_HALF!r}))",
        lambda x: x * 0.5 * (1 + error_function.of_array(x * _ROOT_HALF)),
        5,
    ),
    "gelu_tanh": _ActivationStep(
        (),
        f"x * 0.5 * (1 + tanh({_GELU_TANH!r} * (x + 0.044715 * x * x * x)))",
        lambda x: x * 0.5 * (1 + _np().tanh(_GELU_TANH * (x + 0.044715 * x * x * x))),
        9,
    ),
    "silu": _ActivationStep((), "x / (1 + exp(-x))", lambda x: x * _sigmoid(x), 4),
    "hard_sigmoid": _ActivationStep(
        (0.2, 0.5),
        "0 if x * a + b < 0 else 1 if x * a + b > 1 else x * a + b",
        lambda x, a, b: _np().minimum(_np().maximum(a * x + b, 0), 1),
        4,
    ),
    "hard_swish": _ActivationStep(
        (),
        f"0 if x < -3 else x if x > 3 else x * (x + 3) * {1 / 6!r}",
        lambda x: x * _np().minimum(_np().maximum(x / 6 + 0.5, 0), 1),
        5,
    ),
    "softplus": _ActivationStep((), _SOFTPLUS, lambda x: _np().logaddexp(x, 0), 4),
    "softsign": _ActivationStep((), "x / (1 + fabs(x))", lambda x: x / (1 + _np().abs(x)), 3),
    "mish": _ActivationStep(
        (),
        f"x * tanh({_SOFTPLUS})",
        lambda x: x * _np().tanh(_np().logaddexp(x, 0)),
        6,
    ),
    "erf": _ActivationStep((), "erf(x)", error_function.of_array),
    "exp": _ActivationStep((), "exp(x)", lambda x: _np().exp(x)),
    "log": _ActivationStep((), "log(x)", lambda x: _np().log(x)),
    "sqrt": _ActivationStep((), "sqrt(x)", lambda x: _np().sqrt(x)),
    "abs": _ActivationStep((), "fabs(x)", lambda x: _np().abs(x)),
    "neg": _ActivationStep((), "-x", lambda x: -x),
    "square": _ActivationStep((), "x * x", lambda x: x * x),
    "reciprocal": _ActivationStep((), "1 / x", lambda x: 1 / x),
    "scale": _ActivationStep((1.0,), "x * a", lambda x, a: x * a),
    "shift": _ActivationStep((0.0,), "x + a", lambda x, a: x + a),
}


def checked(activation: Activation) -> Activation:
    """Return the activation with all numbers of its steps filled in."""
    made = []
    for name, *numbers in activation:
        step = STEPS.get(str(name))
        if step is None:
            raise ArgumentError(f"there is no activation {name!r}", hint=f"There are: {', '.join(sorted(STEPS))}")
        if len(numbers) > len(step.numbers):
            raise ArgumentError(f"activation {name!r} takes {len(step.numbers)} numbers, not {len(numbers)}")
        made.append((str(name), *map(float, numbers), *step.numbers[len(numbers) :]))
    return tuple(made)


def label(activation: Activation) -> str:
    """Return the activation's part of an operation's name, such as ``clip(0,6)``; empty for none."""
    return "+".join(
        f"{name}({','.join(f'{number:.9g}' for number in numbers)})"
        if numbers and numbers != [*STEPS[str(name)].numbers]
        else str(name)
        for name, *numbers in activation
    )


def cost(activation: Activation) -> int:
    """Return the operations counted per element."""
    return sum(STEPS[str(name)].cost for name, *_ in activation)


@dataclass(frozen=True, slots=True)
class Translation:
    """Translation of formulas, Python expressions, to the language of a kernel."""

    number: Callable[[float], str]  # text of a constant
    select: Callable[[str, str, str], str]  # text of a selection, by a condition, of one of two values
    call: Callable[[str, str], str]  # text of a call of a C library function

    def step(self, name: str, x: str, numbers: Sequence[float]) -> str:
        """Return the text of a step applied to a value."""
        known = {"x": x, **{each: self.number(value) for each, value in zip("ab", numbers, strict=False)}}
        return self._text(ast.parse(STEPS[name].formula, mode="eval").body, known)

    def _text(self, node: ast.expr, known: Mapping[str, str]) -> str:
        match node:
            case ast.Name(name):
                return known[name]
            case ast.Constant(int() | float() as value):
                return self.number(float(value))
            case ast.UnaryOp(ast.USub(), operand):
                return f"(-{self._text(operand, known)})"
            case ast.BinOp(left, operator, right) | ast.Compare(left, [operator], [right]):
                return f"({self._text(left, known)} {_SYMBOLS[type(operator)]} {self._text(right, known)})"
            case ast.IfExp(condition, yes, no):
                return self.select(*(self._text(each, known) for each in (condition, yes, no)))
            case ast.Call(ast.Name(function), [operand]):
                return self.call(function, self._text(operand, known))
        raise AssertionError(ast.dump(node))


_SYMBOLS: Final = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">"}


def _bounds(activation: Activation) -> tuple[float, ...] | None:
    """Return the lower bound, and the upper one if there is any, of an activation that only limits numbers, or None."""
    match activation:
        case ():
            return (-math.inf,)
        case (("relu",),):
            return (0.0,)
        case (("clip", float(low), float(high)),) if low <= high:
            return (low,) if high == math.inf else (low, high)
    return None


#: Names of arguments for bounds of results.
_BOUNDS: Final = ("lower_bound", "upper_bound")


def emitter(w: KernelWriter, activation: Activation, dtype: str) -> Callable[[str], str]:
    """Return a function that emits an activation of a number or a vector, and returns the name of the result.

    Kernels that take extents as arguments take a bound of the results, too: one is for a rectifier and for none.
    """
    language = Translation(lambda value: w.constant(value, dtype), w.select, w.call)
    bounds = _bounds(activation)
    given = [w.real(*each, dtype) for each in zip(_BOUNDS, bounds or (), strict=False)]
    if given and None not in given:

        def limit(x: str) -> str:
            for bound, sign in zip(given, "<>", strict=False):
                x = w.value(dtype, w.select(f"({x} {sign} {bound})", str(bound), x))
            return x

        return limit

    def emit_steps(x: str) -> str:
        for name, *numbers in activation:
            x = w.value(dtype, language.step(str(name), x, [*map(float, numbers)]))
        return x

    return emit_steps


def emit(w: KernelWriter, activation: Activation, dtype: str, x: str) -> str:
    """Emit an activation of a number, or in `KernelWriter.each_vector` of a vector; return the name of the result."""
    return emitter(w, activation, dtype)(x)


def opencl(
    activation: Activation, variable: str, dtype: str, kind: str | None = None, given: ExtentArguments | None = None
) -> str:
    """Return OpenCL C statements that apply an activation to a variable, scalar or of a vector type ``kind``.

    With arguments of the kernel, these include bounds of the results, as in `emitter`.
    """
    cast = f"({kind})" if kind else ""
    bounds = _bounds(activation)
    if given is not None and bounds is not None and dtype == "float32":
        texts = [f"{cast}({given.real(*each)})" for each in zip(_BOUNDS, bounds, strict=False)]
        each = zip(texts, "<>", strict=False)
        return " ".join(f"{variable} = {variable} {sign} {bound} ? {bound} : {variable};" for bound, sign in each)
    language = Translation(
        lambda value: f"{cast}({literal(value, dtype)})",
        lambda condition, yes, no: f"({condition} ? {yes} : {no})",
        lambda function, x: f"{function}({x})",
    )
    return " ".join(
        f"{variable} = {language.step(str(name), variable, [*map(float, numbers)])};" for name, *numbers in activation
    )


def numpy(activation: Activation, array: Any) -> Any:
    """Return an activation of a floating-point array, in its dtype; the array is not modified."""
    # Devices do not warn of overflow or invalid values, so neither does the host.
    with _np().errstate(all="ignore"):
        for name, *numbers in activation:
            array = STEPS[str(name)].numpy(array, *numbers).astype(array.dtype, copy=False)
    return array
