# SPDX-License-Identifier: Apache-2.0
"""Numbers of type float16 in kernels: two bytes in memory, computed in float32 and rounded after each operation.

The result of an operation of two float16 numbers is the same as if it were computed in float16.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, signature

from syclsched.kernel_compiler.python_kernel import COMPARISONS
from syclsched.kernel_compiler.target.contexts import lowering_registry, typing_registry
from syclsched.kernel_compiler.target.kernel_types import HALF, round_to_half

_ARITHMETIC: Final = {
    operator.add: "fadd",
    operator.sub: "fsub",
    operator.mul: "fmul",
    operator.truediv: "fdiv",
    operator.iadd: "fadd",
    operator.isub: "fsub",
    operator.imul: "fmul",
    operator.itruediv: "fdiv",
}


def _declare(function: Any, result: Any, count: int) -> None:
    """Declare a function of float16 numbers alone: with others, numba's declarations convert."""

    class Template(AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            return signature(result, *args) if list(args) == [types.float16] * count else None

    typing_registry.register_global(function)(Template)


def _arithmetic(name: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return round_to_half(builder, getattr(builder, name)(*arguments))

    return emit


def _comparison(symbol: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        return compare(symbol, *arguments)

    return emit


def _negation(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.fneg(arguments[0])


def _magnitude(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = arguments[0].type
    return builder.call(builder.module.declare_intrinsic("llvm.fabs", [kind]), arguments)


for _symbol, _name in _ARITHMETIC.items():
    _declare(_symbol, types.float16, 2)
    lowering_registry.lower(_symbol, types.float16, types.float16)(_arithmetic(_name))
for _symbol, _name in COMPARISONS.items():
    _declare(_symbol, types.boolean, 2)
    lowering_registry.lower(_symbol, types.float16, types.float16)(_comparison(_name))
for _function, _emit in ((operator.neg, _negation), (abs, _magnitude)):
    _declare(_function, types.float16, 1)
    lowering_registry.lower(_function, types.float16)(_emit)


def _conversion(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.cast(builder, arguments[0], types.float16, signature.return_type)


for _builtin, _result in ((float, types.float32), (int, types.int64)):
    _declare(_builtin, _result, 1)
    lowering_registry.lower(_builtin, types.float16)(_conversion)


def _widen(context: Any, builder: Any, kind: Any, wanted: Any, value: Any) -> Any:
    return value if wanted == types.float32 else builder.fpext(value, context.get_value_type(wanted))


def _narrow(context: Any, builder: Any, kind: Any, wanted: Any, value: Any) -> Any:
    return builder.fpext(builder.fptrunc(value, HALF), context.get_value_type(wanted))


def _from_integer(context: Any, builder: Any, kind: Any, wanted: Any, value: Any) -> Any:
    convert = builder.sitofp if kind.signed else builder.uitofp
    return _narrow(context, builder, kind, wanted, convert(value, ir.DoubleType()))


for _kind in (types.float32, types.float64):
    lowering_registry.lower_cast(types.float16, _kind)(_widen)
    lowering_registry.lower_cast(_kind, types.float16)(_narrow)
for _kind in types.integer_domain:
    lowering_registry.lower_cast(_kind, types.float16)(_from_integer)
