# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays from outside a kernel, copied into it as constants."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba.np import arrayobj

from syclsched.kernel_compiler.lowering.arrays import contiguous_strides
from syclsched.kernel_compiler.target.contexts import lowering_registry
from syclsched.kernel_compiler.target.kernel_types import DeviceArray

_INDEX: Final = ir.IntType(64)


@lowering_registry.lower_constant(DeviceArray)  # type: ignore[untyped-decorator]
def _constant_array(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    element = context.get_data_type(kind.dtype)
    numbers = [_constant(element, number) for number in np.ravel(array).tolist()]
    whole = ir.ArrayType(element, len(numbers))
    name = builder.module.get_unique_name("constants")
    memory = ir.GlobalVariable(builder.module, whole, name, addrspace=kind.address_space)
    memory.linkage, memory.global_constant, memory.initializer = "internal", True, ir.Constant(whole, numbers)
    data = builder.gep(memory, [ir.Constant(_INDEX, 0), ir.Constant(_INDEX, 0)], inbounds=True)
    shape = [ir.Constant(_INDEX, extent) for extent in array.shape]
    itemsize = ir.Constant(_INDEX, context.get_abi_sizeof(element))
    value = arrayobj.make_array(kind)(context, builder)
    strides = contiguous_strides(builder, shape, itemsize, "C")
    arrayobj.populate_array(value, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return value._getvalue()


def _constant(kind: Any, number: Any) -> Any:
    if isinstance(number, complex):
        return ir.Constant(kind, [ir.Constant(kind.elements[0], part) for part in (number.real, number.imag)])
    return ir.Constant(kind, int(number) if isinstance(number, bool) else number)
