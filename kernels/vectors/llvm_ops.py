# SPDX-License-Identifier: Apache-2.0
"""LLVM IR of single-precision functions, for compilers of Python kernels; importing it requires numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from syclsched.kernels.vectors.straight_line import FloatOps


def call_builtin(context: Any, builder: Any, name: str, kind: Any, vectors: list[Any]) -> Any:
    """Emit a call of an OpenCL built-in function."""
    value = context.get_value_type(kind)
    letter = "d" if getattr(kind, "dtype", kind).bitwidth == 64 else "f"
    # Itanium C++ ABI: a repeated vector type is mangled as a back-reference; built-in scalar types are not.
    mangled_types = [f"Dv{kind.lanes}_{letter}", "S_"] if getattr(kind, "lanes", 0) else [letter, letter]
    mangled = f"_Z{len(name)}{name}{mangled_types[0]}" + mangled_types[1] * (len(vectors) - 1)
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(value, [value] * len(vectors)), mangled)
    function.calling_convention = "spir_func"
    call = builder.call(function, vectors)
    call.cconv = "spir_func"
    return call


class LlvmFloatOps(FloatOps):
    """Operations emitted as LLVM instructions, on vectors or (without lanes) scalars."""

    def __init__(self, context: Any, builder: Any, kind: Any) -> None:
        self.context, self.builder, self.kind = context, builder, kind
        self.lanes = getattr(kind, "lanes", 0)

    def _of(self, element: Any, number: Any) -> Any:
        return (
            ir.Constant(ir.VectorType(element, self.lanes), [number] * self.lanes)
            if self.lanes
            else (ir.Constant(element, number))
        )

    def _given(self, x: Any) -> Any:
        return self._of(ir.FloatType(), x) if isinstance(x, float) else x

    def binary(self, symbol: str, a: Any, b: Any) -> Any:
        """See `FloatOps.binary`."""
        instruction = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}[symbol]
        return getattr(self.builder, instruction)(self._given(a), self._given(b))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """See `FloatOps.fma`."""
        return call_builtin(self.context, self.builder, "fma", self.kind, [*map(self._given, (a, b, c))])

    def choose(self, symbol: str, a: Any, b: Any, yes: Any, no: Any) -> Any:
        """See `FloatOps.choose`."""
        condition = self.builder.fcmp_ordered(symbol, self._given(a), self._given(b))
        return self.builder.select(condition, self._given(yes), self._given(no))

    def _bits(self, x: Any) -> Any:
        whole = ir.IntType(32)
        return self.builder.bitcast(x, ir.VectorType(whole, self.lanes) if self.lanes else whole)

    def two_to(self, z: Any) -> Any:
        """See `FloatOps.two_to`."""
        shifted = self.builder.shl(self._bits(z), self._of(ir.IntType(32), 23))
        return self.builder.bitcast(shifted, z.type)

    def magnitude(self, x: Any) -> Any:
        """See `FloatOps.magnitude`."""
        return call_builtin(self.context, self.builder, "fabs", self.kind, [x])

    def signed(self, x: Any, sign: Any) -> Any:
        """See `FloatOps.signed`."""
        return call_builtin(self.context, self.builder, "copysign", self.kind, [x, sign])

    def near_inverse_root(self, x: Any) -> Any:
        """See `FloatOps.near_inverse_root`."""
        return call_builtin(self.context, self.builder, "native_rsqrt", self.kind, [x])
