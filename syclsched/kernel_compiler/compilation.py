# SPDX-License-Identifier: Apache-2.0
"""Compilation of a Python function for given argument types to SPIR-V."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.target_extension import target_override
from numba.np.numpy_support import from_dtype

from syclsched.errors import KernelCompilationError
from syclsched.kernel_compiler.compiled_kernel import (
    Argument,
    ArrayArgument,
    CompiledKernel,
    DataArgument,
    ItemArgument,
    KernelOptions,
    LocalArgument,
    ScalarArgument,
    data_arguments,
    flatten_arguments,
)
from syclsched.kernel_compiler.failures import explained, place_of
from syclsched.kernel_compiler.kernel_api.memory_model import AddressSpace
from syclsched.kernel_compiler.lowering import load_all
from syclsched.kernel_compiler.lowering.arrays import contiguous_strides
from syclsched.kernel_compiler.target import spirv
from syclsched.kernel_compiler.target.code_library import FUNCTION_CONVENTION, KERNEL_CONVENTION
from syclsched.kernel_compiler.target.contexts import TARGET, descriptor
from syclsched.kernel_compiler.target.device_functions import compile_function, kernel_flags
from syclsched.kernel_compiler.target.expressible import obstacle
from syclsched.kernel_compiler.target.kernel_types import DeviceArray, ItemType, NdItemType
from syclsched.kernel_compiler.target.optimisation import optimise
from syclsched.kernel_compiler.target.vector_calls import split_vector_calls


@global_compiler_lock  # type: ignore[untyped-decorator]
def compile_kernel(
    function: Callable[..., Any], argument_types: tuple[Argument, ...], *, options: KernelOptions | None = None
) -> CompiledKernel:
    """Compile a kernel function to SPIR-V.

    Parameters
    ----------
    function : callable
        A Python function; its first parameter is an ``Item`` or ``NdItem``, and it returns nothing.
    argument_types : tuple of Argument
        The types of its arguments: an `ItemArgument` first.
    options : KernelOptions, optional
        Options of the compilation.

    Returns
    -------
    CompiledKernel
        The SPIR-V, the name of its entry point and its arguments.

    Raises
    ------
    KernelCompilationError
        If the function cannot be compiled; names the line and the reason.
    """
    options = options or KernelOptions()
    parameters = flatten_arguments(argument_types)
    with explained(function), target_override(TARGET):
        spirv.prepare()
        load_all()
        descriptor.refresh()
        flags = kernel_flags(fastmath=options.fastmath, float_atomics=options.float_atomics)
        result = compile_function(function, tuple(map(_numba_type, argument_types)), types.void, flags)
        # PoCL gives a kernel with the name of a built-in function, such as ``mix``, another name: none ends like this.
        name = re.sub(r"\W", "_", function.__name__) + "_kernel"
        descriptor.target_context.remove_user_function(result.entry_point)  # numba keeps it, in case others call it
        module = result.library.linked_module()
        module.link_in(binding.parse_assembly(str(_entry_point(result.fndesc, argument_types, name))))
        optimise(module, name)
        module = split_vector_calls(module, name, options.vector_bits)
        if (needed := obstacle(str(module), name)) is not None:
            raise KernelCompilationError(
                f"the kernel needs {needed}, which devices do not have", where=place_of(function)
            )
        code = spirv.emit(module, options.spirv_version)
    return CompiledKernel(code, name, parameters, argument_types, options)


def _numba_type(argument: Argument) -> Any:
    if isinstance(argument, ItemArgument):
        return (NdItemType if argument.grouped else ItemType)(argument.dimensions)
    element = from_dtype(np.dtype(argument.dtype))
    if isinstance(argument, ScalarArgument):
        return element
    if isinstance(argument, LocalArgument):
        return DeviceArray(element, argument.ndim, "C", int(AddressSpace.LOCAL))
    return DeviceArray(element, argument.ndim, argument.layout, int(argument.address_space))


def _entry_point(description: Any, arguments: tuple[Argument, ...], name: str) -> Any:
    """Return a module with the kernel: it joins its arguments to Python's and calls the compiled function."""
    context = descriptor.target_context
    module = context.create_module(name)
    kinds = [each for argument in data_arguments(arguments) for each in _kernel_argument_types(context, argument)]
    kernel = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    kernel.calling_convention = KERNEL_CONVENTION
    builder = ir.IRBuilder(kernel.append_basic_block("entry"))
    given = iter(kernel.args)
    values = [context.get_constant_null(description.argtypes[0])]
    for argument, kind in zip(data_arguments(arguments), description.argtypes[1:], strict=True):
        values.append(_python_argument(context, builder, argument, kind, given))
    callee_type = context.call_conv.get_function_type(description.restype, description.argtypes)
    callee = ir.Function(module, callee_type, description.llvm_func_name)
    callee.calling_convention = FUNCTION_CONVENTION
    context.call_conv.call_function(builder, callee, description.restype, description.argtypes, values)
    builder.ret_void()
    return module


def _kernel_argument_types(context: Any, argument: DataArgument) -> list[Any]:
    element = context.get_data_type(from_dtype(np.dtype(argument.dtype)))
    if isinstance(argument, ScalarArgument):
        return [*element.elements] if isinstance(element, ir.LiteralStructType) else [element]
    index = ir.IntType(64)
    if isinstance(argument, LocalArgument):
        pointer = ir.PointerType(element, int(AddressSpace.LOCAL))
        return [] if argument.shape is not None else [pointer, *[index] * argument.ndim]
    count = argument.ndim * (2 if argument.layout == "A" else 1)
    return [ir.PointerType(element, int(argument.address_space)), *[index] * count]


def _python_argument(context: Any, builder: Any, argument: DataArgument, kind: Any, given: Any) -> Any:
    """Return a value of numba's type made from kernel arguments."""
    if isinstance(argument, ScalarArgument):
        if isinstance(kind, types.Complex):
            return cgutils.pack_struct(builder, [next(given), next(given)])
        return context.data_model_manager[kind].from_data(builder, next(given))
    index = ir.IntType(64)
    if isinstance(argument, LocalArgument) and argument.shape is not None:
        data = _local_memory(context, builder, argument, kind)
        extents = [ir.Constant(index, extent) for extent in argument.shape]
    else:
        data = next(given)
        extents = [next(given) for _ in range(argument.ndim)]
    size = ir.Constant(index, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    if isinstance(argument, ArrayArgument) and argument.layout == "A":
        strides = [builder.mul(next(given), size, flags=["nsw"]) for _ in range(argument.ndim)]
    else:
        strides = contiguous_strides(builder, extents, size, kind.layout)
    array = context.make_array(kind)(context, builder)
    context.populate_array(array, data=data, shape=extents, strides=strides, itemsize=size, meminfo=None, parent=None)
    return array._getvalue()


def _local_memory(context: Any, builder: Any, argument: LocalArgument, kind: Any) -> Any:
    """Return a pointer to memory of the work-group that is part of the kernel."""
    assert argument.shape is not None
    whole = ir.ArrayType(context.get_data_type(kind.dtype), prod(argument.shape))
    name = builder.module.get_unique_name("local_memory")
    memory = ir.GlobalVariable(builder.module, whole, name, addrspace=int(AddressSpace.LOCAL))
    memory.linkage, memory.initializer = "internal", ir.Constant(whole, ir.Undefined)
    zero = ir.Constant(ir.IntType(64), 0)
    return builder.gep(memory, [zero, zero], inbounds=True)
