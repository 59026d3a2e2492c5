# SPDX-License-Identifier: Apache-2.0
"""Extensions of numba-dpex's kernel language: local arrays, fused multiply-add, access by memory offset.

numba-dpex takes local memory as an argument created by its own launcher, which is not used here. It does not contract
products and sums. An array index may be negative as far as it knows, which hides from the device's compiler that
neighbouring work-items access neighbouring elements. So this module registers four functions with its compiler, in the
same way as its own are.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

from syclsched.kernels.common import NUMBA_DPEX
from syclsched.kernels.vectors import numba_vectors
from syclsched.model.operation import Requirements, Signature


class LocalArray:
    """``LocalArray(shape, dtype)``: an uninitialised array in local memory, shared by a work-group."""


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``, rounded once; all operands have one floating-point dtype."""
    return a * b + c


def load(array: Any, place: Any) -> Any:
    """Return the element at offset ``place`` (not negative) of a C-contiguous array of any rank."""
    return array.ravel()[place]


def store(array: Any, place: Any, value: Any) -> None:
    """Store a value at an offset; see `load`."""
    array.ravel()[place] = value


@cache
def functions() -> SimpleNamespace:
    """Return the four functions, registered with numba-dpex's compiler."""
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.core.typing.npydecl import parse_dtype, parse_shape
    from numba.extending import type_callable
    from numba_dpex.core.types import USMNdArray
    from numba_dpex.kernel_api.memory_enums import AddressSpace
    from numba_dpex.kernel_api_impl.spirv.arrayobj import np_cfarray, require_literal
    from numba_dpex.kernel_api_impl.spirv.overloads._registry import lower

    space = AddressSpace.LOCAL.value

    @type_callable(LocalArray)
    def typed_array(context: Any) -> Any:
        def typer(shape: Any, dtype: Any) -> Any:
            require_literal(shape)
            return USMNdArray(dtype=parse_dtype(dtype), ndim=parse_shape(shape), layout="C", addrspace=space)

        return typer

    @lower(LocalArray, types.IntegerLiteral, types.Any)
    @lower(LocalArray, types.Tuple, types.Any)
    @lower(LocalArray, types.UniTuple, types.Any)
    def lowered_array(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        extents = signature.args[0]
        parts = extents if isinstance(extents, types.BaseTuple) else (extents,)
        element = context.get_data_type(signature.return_type.dtype)
        kind = ir.ArrayType(element, math.prod(each.literal_value for each in parts))
        variable = cgutils.add_global_variable(
            builder.module, kind, builder.module.get_unique_name("local_array"), addrspace=space
        )
        variable.linkage = "internal"
        variable.initializer = ir.Constant(kind, ir.Undefined)
        data = builder.bitcast(variable, element.as_pointer(space))
        return np_cfarray(context, builder, signature.return_type, extents, arguments[0], data)._getvalue()

    @type_callable(fma)
    def typed_fma(context: Any) -> Any:
        return lambda a, b, c: a if a == b == c and isinstance(a, types.Float) else None

    @lower(fma, types.Float, types.Float, types.Float)
    def lowered_fma(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_data_type(signature.return_type)
        letter = "d" if signature.return_type.bitwidth == 64 else "f"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * 3), f"_Z3fma{letter * 3}"
        )
        function.calling_convention = "spir_func"
        call = builder.call(function, arguments)
        call.cconv = "spir_func"
        return call

    def address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.gep(
            view.data, [context.cast(builder, arguments[1], signature.args[1], types.intp)], inbounds=True
        )

    @type_callable(load)
    def typed_load(context: Any) -> Any:
        return lambda array, place: array.dtype if isinstance(place, types.Integer) else None

    @lower(load, USMNdArray, types.Integer)
    def lowered_load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(address(context, builder, signature, arguments))

    @type_callable(store)
    def typed_store(context: Any) -> Any:
        return lambda array, place, value: types.void if isinstance(place, types.Integer) else None

    @lower(store, USMNdArray, types.Integer, types.Any)
    def lowered_store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = context.cast(builder, arguments[2], signature.args[2], signature.args[0].dtype)
        builder.store(value, address(context, builder, signature, arguments))
        return context.get_dummy_value()

    return SimpleNamespace(LocalArray=LocalArray, fma=fma, load=load, store=store)


@lru_cache(maxsize=1024)
def compiled(text: str, name: str, dtype: str) -> Any:
    """Return the numba-dpex kernel of a source text; equal texts share one kernel and its compiled code."""
    import numba_dpex
    import numpy as np
    from numba_dpex.kernel_api import group_barrier

    known = {
        **vars(functions()),
        **vars(numba_vectors.functions()),
        "real": np.dtype(dtype).type,
        "group_barrier": group_barrier,
    }
    known |= {"math": math, "inf": math.inf, "nan": math.nan}
    exec(compile(text, "<syclsched generated kernel>", "exec"), known)
    return numba_dpex.kernel(known[name], error_model="numpy")


def _refuses_empty(signature: Signature) -> str | None:
    return "the result must not be empty" if 0 in signature.shapes["y"] else None


#: Requirements of floating-point kernels that cannot handle empty results.
REQUIRES = Requirements(packages=NUMBA_DPEX.packages, dtypes=("float32", "float64"), refuses=_refuses_empty)
