# SPDX-License-Identifier: Apache-2.0
"""Activations applied to every element of a result before it is stored: as data, NumPy and OpenCL C.

An activation is a tuple of steps applied in order, each a tuple of a name and its numbers: ``()`` does nothing,
``(("relu",),)``, ``(("clip", 0.0, 6.0),)``, ``(("scale", 0.125), ("tanh",))``. It is hashable, so it can be an
attribute of an operation and part of its name. NaN stays NaN, as in NumPy and ONNX.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from syclsched.errors import ArgumentError
from syclsched.kernels.common import Activation
from syclsched.kernels.nn.opencl_types import literal

#: ONNX's alpha and gamma of selu.
SELU: Final = (1.67326319217681884765625, 1.05070102214813232421875)
_ROOT_HALF: Final = math.sqrt(0.5)
_GELU_TANH: Final = math.sqrt(2 / math.pi)


@dataclass(frozen=True, slots=True)
class _ActivationStep:
    """One kind of activation step."""

    numbers: tuple[float, ...]  # default numbers
    #: OpenCL C expression of ``{x}`` (a variable), numbers ``{0}``, ``{1}``, ... and literals ``{one}``, ``{half}``,
    #: ...; valid for scalars and vectors.
    opencl: str
    numpy: Callable[..., Any]  # ``function(x, *numbers)`` of a floating-point array; returns a new one
    cost: int = 1  # operations counted per element


def _np() -> Any:
    import numpy

    return numpy


def _erf(x: Any) -> Any:
    from scipy.special import erf

    return erf(x)


def _sigmoid(x: Any) -> Any:
    # exp of a large number overflows to infinity, and its reciprocal is 0 as it should be.
    with _np().errstate(over="ignore"):
        return 1 / (1 + _np().exp(-x))


def _exponential_unit(x: Any, alpha: float, inner: float = 1.0) -> Any:
    return _np().where(x < 0, alpha * _np().expm1(_np().minimum(x, 0) * inner), x)


STEPS: Final[dict[str, _ActivationStep]] = {
    "relu": _ActivationStep((), "({x} < {zero} ? {zero} : {x})", lambda x: _np().maximum(x, 0)),
    "leaky_relu": _ActivationStep(
        (0.01,), "({x} < {zero} ? {x} * {0} : {x})", lambda x, a: _np().where(x < 0, a * x, x), 2
    ),
    "thresholded_relu": _ActivationStep(
        (1.0,), "({x} <= {0} ? {zero} : {x})", lambda x, a: _np().where(x <= a, x.dtype.type(0), x)
    ),
    "elu": _ActivationStep((1.0,), "({x} < {zero} ? {0} * expm1({x}) : {x})", _exponential_unit, 3),
    "celu": _ActivationStep(
        (1.0,), "({x} < {zero} ? {0} * expm1({x} / {0}) : {x})", lambda x, a: _exponential_unit(x, a, 1 / a), 4
    ),
    "selu": _ActivationStep(
        SELU,
        "({1} * ({x} < {zero} ? {0} * expm1({x}) : {x}))",
        lambda x, alpha, gamma: gamma * _exponential_unit(x, alpha),
        4,
    ),
    "clip": _ActivationStep(
        (-math.inf, math.inf),
        "({x} < {0} ? {0} : ({x} > {1} ? {1} : {x}))",
        lambda x, low, high: _np().minimum(_np().maximum(x, low), high),
        2,
    ),
    "sigmoid": _ActivationStep((), "({one} / ({one} + exp(-{x})))", _sigmoid, 3),
    "tanh": _ActivationStep((), "tanh({x})", lambda x: _np().tanh(x)),
    "gelu": _ActivationStep(
        (), "({x} * {half} * ({one} + erf({x} * {roothalf})))", lambda x: x * 0.5 * (1 + _erf(x * _ROOT_HALF)), 5
    ),
    "gelu_tanh": _ActivationStep(
        (),
        "({x} * {half} * ({one} + tanh({tanhgelu} * ({x} + {cubicgelu} * {x} * {x} * {x}))))",
        lambda x: x * 0.5 * (1 + _np().tanh(_GELU_TANH * (x + 0.044715 * x * x * x))),
        9,
    ),
    "silu": _ActivationStep((), "({x} / ({one} + exp(-{x})))", lambda x: x * _sigmoid(x), 4),
    "hard_sigmoid": _ActivationStep(
        (0.2, 0.5),
        "({x} * {0} + {1} < {zero} ? {zero} : ({x} * {0} + {1} > {one} ? {one} : {x} * {0} + {1}))",
        lambda x, a, b: _np().minimum(_np().maximum(a * x + b, 0), 1),
        4,
    ),
    "hard_swish": _ActivationStep(
        (),
        "({x} < -{three} ? {zero} : ({x} > {three} ? {x} : {x} * ({x} + {three}) * {sixth}))",
        lambda x: x * _np().minimum(_np().maximum(x / 6 + 0.5, 0), 1),
        5,
    ),
    "softplus": _ActivationStep(
        (), "(fmax({x}, {zero}) + log1p(exp(-fabs({x}))) + {zero} * {x})", lambda x: _np().logaddexp(x, 0), 4
    ),
    "softsign": _ActivationStep((), "({x} / ({one} + fabs({x})))", lambda x: x / (1 + _np().abs(x)), 3),
    "mish": _ActivationStep(
        (),
        "({x} * tanh(fmax({x}, {zero}) + log1p(exp(-fabs({x})))))",
        lambda x: x * _np().tanh(_np().logaddexp(x, 0)),
        6,
    ),
    "erf": _ActivationStep((), "erf({x})", _erf),
    "exp": _ActivationStep((), "exp({x})", lambda x: _np().exp(x)),
    "log": _ActivationStep((), "log({x})", lambda x: _np().log(x)),
    "sqrt": _ActivationStep((), "sqrt({x})", lambda x: _np().sqrt(x)),
    "abs": _ActivationStep((), "fabs({x})", lambda x: _np().abs(x)),
    "neg": _ActivationStep((), "(-{x})", lambda x: -x),
    "square": _ActivationStep((), "({x} * {x})", lambda x: x * x),
    "reciprocal": _ActivationStep((), "({one} / {x})", lambda x: 1 / x),
    "scale": _ActivationStep((1.0,), "({x} * {0})", lambda x, a: x * a),
    "shift": _ActivationStep((0.0,), "({x} + {0})", lambda x, a: x + a),
}

_LITERALS: Final = {
    "zero": 0.0,
    "half": 0.5,
    "one": 1.0,
    "three": 3.0,
    "sixth": 1 / 6,
    "roothalf": _ROOT_HALF,
    "tanhgelu": _GELU_TANH,
    "cubicgelu": 0.044715,
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


def opencl(activation: Activation, variable: str, dtype: str, kind: str | None = None) -> str:
    """Return OpenCL C statements that apply an activation to a variable."""
    cast = f"({kind})" if kind else ""
    fixed = {key: f"{cast}{literal(value, dtype)}" for key, value in _LITERALS.items()}
    statements = []
    for name, *numbers in activation:
        template = STEPS[str(name)].opencl
        values = [f"{cast}({literal(float(number), dtype)})" for number in numbers]
        statements.append(f"{variable} = {template.format(*values, x=variable, **fixed)};")
    return " ".join(statements)


def numpy(activation: Activation, array: Any) -> Any:
    """Return an activation of a floating-point array, in its dtype; the array is not modified."""
    # Devices do not warn of overflow or invalid values, so neither does the host.
    with _np().errstate(all="ignore"):
        for name, *numbers in activation:
            array = STEPS[str(name)].numpy(array, *numbers).astype(array.dtype, copy=False)
    return array
