# SPDX-License-Identifier: Apache-2.0
"""Mathematical functions of vectors in Python kernels; importing it requires numba.

Some are branch-free versions of this project, for vectors and scalars; the others are OpenCL built-in functions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from numba.core import types

from syclsched.kernel_compiler.python_kernel import CompilerExtension
from syclsched.kernels.vectors import scaled_exponential
from syclsched.kernels.vectors.error_function import error_function
from syclsched.kernels.vectors.exponential import power
from syclsched.kernels.vectors.inverse_root import inverse_root, inverse_three_quarters
from syclsched.kernels.vectors.llvm_ops import LlvmFloatOps, call_builtin
from syclsched.kernels.vectors.straight_line import Function, operand_names
from syclsched.kernels.vectors.vector_functions import (
    vadd_power,
    verf,
    vexp,
    vexpm1,
    vexponent,
    vfabs,
    vfma,
    vinverse_root,
    vinverse_three_quarters,
    vlog,
    vlog1p,
    vpower,
    vpower_over,
    vscaling,
    vsqrt,
    vtanh,
)
from syclsched.kernels.vectors.vector_type import Vector, broadcast_all, common, define, of_count

#: Functions that are OpenCL built-ins of the same name without its first letter.
_BUILTINS = (vexp, vlog, vsqrt, vfabs, vtanh, vexpm1, vlog1p)
#: Function -> its branch-free single-precision version, and the OpenCL built-in for double precision, if any.
_STRAIGHT: dict[Any, tuple[Function, str | None]] = {
    vpower: (power, "exp"),
    verf: (error_function, "erf"),
    vexponent: (scaled_exponential.exponent, None),
    vscaling: (scaled_exponential.scaling, None),
    vpower_over: (scaled_exponential.power_over, None),
    vadd_power: (scaled_exponential.add_power, None),
    vinverse_root: (inverse_root, None),
    vinverse_three_quarters: (inverse_three_quarters, None),
    vfma: (lambda o, a, b, c: o.fma(a, b, c), "fma"),
}


def register(extension: CompilerExtension) -> None:
    """Register the functions with a compiler."""
    lower = extension.lower
    for symbol, (function, builtin) in _STRAIGHT.items():
        count = len(operand_names(function))
        define(symbol, of_count(_straight_type(builtin is not None), count))
        for kinds in itertools.product((Vector, types.Float), repeat=count):
            lower(symbol, *kinds)(_straight(function, builtin))
    for symbol in _BUILTINS:
        define(symbol, of_count(_builtin_type, 1))
        lower(symbol, Vector)(_builtin(symbol.__name__[1:]))


def _straight_type(double: bool) -> Callable[..., Any]:
    """Return the typer of a function of vectors or scalars, of single or also of double precision."""

    def typer(*given: Any) -> Any:
        kind = common(*given) or (given[0] if len({*given}) == 1 else None)
        real = getattr(kind, "dtype", kind)
        return kind if isinstance(real, types.Float) and (double or real.bitwidth == 32) else None

    return typer


def _straight(function: Function, builtin: str | None) -> Callable[..., Any]:
    """Return the lowering of a branch-free function."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        if isinstance(kind, Vector):
            arguments = broadcast_all(context, builder, arguments, signature.args, kind)
        if builtin is not None and getattr(kind, "dtype", kind).bitwidth != 32:
            return call_builtin(context, builder, builtin, kind, [*arguments])
        return function(LlvmFloatOps(context, builder, kind), *arguments)

    return emit


def _builtin_type(*given: Any) -> Any:
    kind = common(*given)
    return kind if kind and isinstance(kind.dtype, types.Float) else None


def _builtin(name: str) -> Callable[..., Any]:
    """Return the lowering of an OpenCL built-in function."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = broadcast_all(context, builder, arguments, signature.args, signature.return_type)
        return call_builtin(context, builder, name, signature.return_type, vectors)

    return emit
