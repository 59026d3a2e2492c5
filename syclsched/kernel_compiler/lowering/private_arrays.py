# SPDX-License-Identifier: Apache-2.0
"""Private arrays in kernels: memory of the function, of a size that is known when it is compiled."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.npydecl import parse_dtype
from numba.np import arrayobj

from syclsched.kernel_compiler.kernel_api.memory import PrivateArray
from syclsched.kernel_compiler.kernel_api.memory_model import AddressSpace
from syclsched.kernel_compiler.lowering.arrays import contiguous_strides
from syclsched.kernel_compiler.lowering.declarations import declare_function
from syclsched.kernel_compiler.target.contexts import lowering_registry
from syclsched.kernel_compiler.target.kernel_types import DeviceArray

_INDEX: Final = ir.IntType(64)


def _extents(shape: Any) -> list[int]:
    kinds = list(shape) if isinstance(shape, types.BaseTuple) else [shape]
    if not all(isinstance(kind, types.IntegerLiteral) for kind in kinds):
        raise TypingError(f"the shape of a PrivateArray must be a constant, not {shape}")
    return [kind.literal_value for kind in kinds]


def _type(shape: Any, dtype: Any, fill_zeros: Any = False) -> Any:
    element = parse_dtype(dtype)
    if element is None:
        raise TypingError(f"the dtype of a PrivateArray must be a constant, not {dtype}")
    if not isinstance(fill_zeros, types.BooleanLiteral):
        raise TypingError("fill_zeros of a PrivateArray must be a constant")
    return DeviceArray(element, len(_extents(shape)), "C", int(AddressSpace.PRIVATE))


declare_function(PrivateArray, _type)


def _make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, extents = signature.return_type, _extents(signature.args[0])
    element = context.get_data_type(kind.dtype)
    whole = ir.ArrayType(element, prod(extents))
    memory = cgutils.alloca_once(builder, whole)
    size = context.get_abi_sizeof(element)
    if signature.args[2].literal_value:
        cgutils.memset(builder, memory, ir.Constant(_INDEX, size * prod(extents)), 0)
    data = builder.gep(memory, [ir.Constant(_INDEX, 0), ir.Constant(_INDEX, 0)], inbounds=True)
    shape = [ir.Constant(_INDEX, extent) for extent in extents]
    itemsize = ir.Constant(_INDEX, size)
    array = arrayobj.make_array(kind)(context, builder)
    strides = contiguous_strides(builder, shape, itemsize, "C")
    arrayobj.populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return array._getvalue()


lowering_registry.lower(PrivateArray, types.Any, types.Any, types.Any)(_make)
