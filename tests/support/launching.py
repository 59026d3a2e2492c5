# SPDX-License-Identifier: Apache-2.0
"""Launches of kernels compiled by the kernel compiler, on NumPy arrays and scalars."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from syclsched import oneapi
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.kernel_compiler import (
    Argument,
    ArrayArgument,
    CompiledKernel,
    ItemArgument,
    KernelOptions,
    KernelParameter,
    LocalArgument,
    Part,
    ScalarArgument,
    compile_kernel,
)
from syclsched.kernel_compiler.kernel_api import LocalAccessor

_CTYPES: dict[str, Any] = {
    "bool": ctypes.c_uint8,
    "int8": ctypes.c_uint8,  # dpctl accepts no signed bytes; the bits are the same
    "uint8": ctypes.c_uint8,
    "int16": ctypes.c_int16,
    "uint16": ctypes.c_uint16,
    "float16": ctypes.c_uint16,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


@lru_cache(maxsize=1)
def cpu_queue() -> Any:
    """Return the queue of OpenCL's CPU device."""
    oneapi.load()
    import dpctl

    return dpctl.SyclQueue("opencl:cpu")


@lru_cache(maxsize=512)
def compiled(
    function: Callable[..., Any], types: tuple[Argument, ...], options: KernelOptions | None
) -> tuple[CompiledKernel, Any]:
    """Return a compiled kernel, and its program on the CPU device."""
    cpu_queue()
    from dpctl.program import create_program_from_spirv

    kernel = compile_kernel(function, types, options=options)
    return kernel, create_program_from_spirv(cpu_queue(), kernel.spirv).get_sycl_kernel(kernel.name)


def argument_type(value: Any) -> Argument:
    """Return the type of an argument."""
    if isinstance(value, np.ndarray):
        layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        return ArrayArgument(value.dtype.name, value.ndim, layout)
    if isinstance(value, LocalAccessor):
        return LocalArgument(value.dtype.name, value.ndim, value.shape)
    return ScalarArgument(np.asarray(value).dtype.name)


class _Memory:
    """USM memory with the bytes of a whole array, of which the argument may be a view."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        import dpctl.memory

        self.whole = array
        while isinstance(self.whole.base, np.ndarray):
            self.whole = self.whole.base
        first = np.lib.array_utils if hasattr(np.lib, "array_utils") else np
        low, high = first.byte_bounds(self.whole)
        self.content = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low)) if high > low else None
        self.usm = dpctl.memory.MemoryUSMShared(max(high - low, 1), queue=cpu_queue())
        if self.content is not None:
            self.usm.copy_from_host(self.content.copy())
        self.offset = array.__array_interface__["data"][0] - low if self.content is not None else 0

    def pointer(self) -> Any:
        return MemoryRange.around(self.usm).part(self.offset, self.usm.nbytes - self.offset).memory

    def fetch(self) -> None:
        if self.content is not None:
            self.content[:] = self.usm.copy_to_host()[: self.content.size]


def launch(
    function: Callable[..., Any],
    global_range: tuple[int, ...],
    *arguments: Any,
    local_range: tuple[int, ...] | None = None,
    options: KernelOptions | None = None,
) -> CompiledKernel:
    """Run a kernel; arrays receive the results."""
    types = (ItemArgument(len(global_range), local_range is not None), *map(argument_type, arguments))
    uses_half = any(getattr(each, "dtype", None) == "float16" for each in types)
    if uses_half and not cpu_queue().sycl_device.has_aspect_fp16:
        pytest.skip("the device has no float16")
    kernel, program = compiled(function, types, options)
    memories = {number: _Memory(each) for number, each in enumerate(arguments) if isinstance(each, np.ndarray)}
    given = [_kernel_argument(parameter, arguments, memories) for parameter in kernel.parameters]
    # The SYCL runtime counts dimensions from the last; items count from the first.
    ranges = [None if each is None else list(reversed(each)) for each in (global_range, local_range)]
    cpu_queue().submit(program, given, *ranges).wait()
    for memory in memories.values():
        memory.fetch()
    return kernel


def _kernel_argument(parameter: KernelParameter, arguments: tuple[Any, ...], memories: dict[int, _Memory]) -> Any:
    value = arguments[parameter.argument]
    if parameter.part is Part.POINTER:
        return memories[parameter.argument].pointer()
    if parameter.part is Part.EXTENT:
        return ctypes.c_int64(value.shape[parameter.axis])
    if parameter.part is Part.STRIDE:
        return ctypes.c_int64(value.strides[parameter.axis] // value.itemsize)
    number = {Part.REAL: np.real, Part.IMAGINARY: np.imag}.get(parameter.part, np.asarray)(value)
    number = np.asarray(number, parameter.dtype)
    return _CTYPES[parameter.dtype]((number.view(np.uint16) if parameter.dtype == "float16" else number).item())
