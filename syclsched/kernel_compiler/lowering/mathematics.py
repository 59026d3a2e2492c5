# SPDX-License-Identifier: Apache-2.0
"""Functions of ``math`` and of NumPy on scalars in kernels, by OpenCL's extended instructions."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing import mathdecl
from numba.core.typing.templates import ConcreteTemplate, signature
from numba.np import ufunc_db

from syclsched.kernel_compiler.lowering.spirv_calls import call, letter, mangled
from syclsched.kernel_compiler.target.contexts import (
    ROUNDING,
    lowering_registry,
    typing_registry,
    universal_functions,
)

#: OpenCL's name by Python's name in ``math``.
_UNARY: Final = {
    **{
        name: name
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2"),
            *("expm1", "fabs", "floor", "lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan"),
            *("tanh", "trunc"),
        )
    },
    "gamma": "tgamma",
}
_BINARY: Final = {"atan2": "atan2", "copysign": "copysign", "fmod": "fmod", "hypot": "hypot", "pow": "pow"}
#: OpenCL's name by NumPy's.
_NUMPY_UNARY: Final = {
    **{
        name: name
        for name in (
            *("ceil", "cos", "cosh", "exp", "exp2", "expm1", "fabs", "floor", "log", "log10", "log1p", "log2", "rint"),
            *("sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        )
    },
    **{f"arc{name}": f"a{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
}
_NUMPY_BINARY: Final = {"arctan2": "atan2", "copysign": "copysign", "fmod": "fmod", "hypot": "hypot", "power": "pow"}
_FLOATS: Final = {"f": types.float32, "d": types.float64}


def function_of(name: str, number: Any) -> Callable[..., Any]:
    """Return the code that calls an OpenCL function on numbers of a type."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = [
            context.cast(builder, value, kind, number) for value, kind in zip(arguments, signature.args, strict=True)
        ]
        letters = "".join(letter(value.type) for value in values)
        result = call(builder, mangled(name, letters), context.get_value_type(number), values, "readnone")
        return context.cast(builder, result, number, signature.return_type)

    return emit


def _number_of(kind: Any) -> Any:
    return types.float32 if kind == types.float32 else types.float64


#: Functions of `math` whose declarations are numba's.
_DECLARED: Final = {function for function, _ in mathdecl.registry.globals} - ROUNDING


def _register(function: Any, name: str, count: int) -> None:
    for kind in (types.float32, types.float64, types.int64, types.uint64):
        lowering_registry.lower(function, *[kind] * count)(function_of(name, _number_of(kind)))
    if function not in _DECLARED:
        _declare(function, count)


def _declare(function: Any, count: int) -> None:
    class Template(ConcreteTemplate):  # type: ignore[misc]
        key = function
        cases = tuple(
            signature(_number_of(kind), *[kind] * count)
            for kind in (types.int64, types.uint64, types.float32, types.float64)
        )

    typing_registry.register_global(function)(Template)


for _python, _opencl in _UNARY.items():
    if (_function := getattr(math, _python, None)) is not None:  # exp2 is new in Python 3.11
        _register(_function, _opencl, 1)
for _python, _opencl in _BINARY.items():
    _register(getattr(math, _python), _opencl, 2)


def _ldexp(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    number, exponent = arguments
    exponent = context.cast(builder, exponent, signature.args[1], types.int32)
    letters = letter(number.type) + "i"
    return call(builder, mangled("ldexp", letters), number.type, [number, exponent], "readnone")


for _kind in (types.float32, types.float64):
    for _exponent in (types.intc, types.int64):
        lowering_registry.lower(math.ldexp, _kind, _exponent)(_ldexp)


def _frexp(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    place = cgutils.alloca_once(builder, ir.IntType(32))
    letters = letter(arguments[0].type) + "Pi"
    mantissa = call(builder, mangled("frexp", letters), arguments[0].type, [arguments[0], place])
    exponent = context.cast(builder, builder.load(place), types.int32, signature.return_type[1])
    return context.make_tuple(builder, signature.return_type, [mantissa, exponent])


for _kind in (types.float32, types.float64):
    lowering_registry.lower(math.frexp, _kind)(_frexp)


def _complex_power(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    def power(base: Any, exponent: Any) -> Any:
        if exponent == 2:
            return base * base
        if base == 0:
            return base if exponent != 0 else base + 1
        return cmath.exp(exponent * cmath.log(base))

    return context.compile_internal(builder, power, signature, arguments)


for _power in (operator.pow, operator.ipow):
    lowering_registry.lower(_power, types.Complex, types.Complex)(_complex_power)

ufunc_db._lazy_init_db()
universal_functions.update({function: dict(loops) for function, loops in ufunc_db._ufunc_db.items()})
for _loop in ("FF->F", "DD->D"):
    universal_functions[np.power][_loop] = _complex_power
for _names, _count in ((_NUMPY_UNARY, 1), (_NUMPY_BINARY, 2)):
    for _python, _opencl in _names.items():
        for _code, _kind in _FLOATS.items():
            _loop = f"{_code * _count}->{_code}"
            if _loop in universal_functions[getattr(np, _python)]:
                universal_functions[getattr(np, _python)][_loop] = function_of(_opencl, _kind)
