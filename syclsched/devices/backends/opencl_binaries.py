# SPDX-License-Identifier: Apache-2.0
"""Binaries of OpenCL programs: taken from a built program, and loaded into a SYCL program in another process.

SYCL makes a program of a native one by ``make_kernel_bundle`` (OpenCL backend's specification), and dpctl's extension
module exports the function that wraps it. dpctl itself builds its programs in the same way. Where a symbol is missing,
there are no binaries, and every process compiles.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from syclsched.devices.backends.opencl_calls import (
    BACKEND_OPENCL,
    KERNEL_NATIVE,
    KERNEL_PROGRAM,
    OPENCL,
    OPERATOR_NEW,
    QUEUE_CONTEXT,
    QUEUE_DEVICE,
    QUEUE_NATIVE,
    function_of,
    loaded_library,
    pointer_property,
    sycl_runtime,
)
from syclsched.devices.native.exported_functions import exported_address
from syclsched.devices.native.sycl_types import SyclQueue

_MAKE_PROGRAM = "_ZN4sycl3_V16detail18make_kernel_bundleEmRKNS0_7contextEbNS0_12bundle_stateENS0_7backendE"
_CONTEXT_DEVICES = 0x1081
_EXECUTABLE = 2  # sycl::bundle_state::executable
_SIZEOF_PROGRAM = 16  # a shared pointer
_PROGRAM_NUM_DEVICES, _PROGRAM_DEVICES, _PROGRAM_BINARY_SIZES, _PROGRAM_BINARIES = 0x1162, 0x1163, 0x1165, 0x1166


class _OpenCLBinaries:
    """The functions of the loaded libraries that save and load programs."""

    def __init__(self) -> None:
        from dpctl.program import _program

        opencl, sycl = loaded_library(OPENCL), sycl_runtime()
        pointer, number, size = ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t
        self._queue_native = function_of(sycl, QUEUE_NATIVE, pointer, pointer, pointer)
        self._kernel_native = function_of(sycl, KERNEL_NATIVE, pointer, pointer)
        self._make_program = function_of(
            sycl, _MAKE_PROGRAM, pointer, pointer, size, pointer, ctypes.c_bool, number, number
        )
        self._new = function_of(loaded_library("libstdc++.so.6"), OPERATOR_NEW, pointer, size)
        info = (number, pointer, ctypes.c_uint32, size, pointer, pointer)
        self._queue_info = function_of(opencl, "clGetCommandQueueInfo", *info)
        self._kernel_info = function_of(opencl, "clGetKernelInfo", *info)
        self._context_info = function_of(opencl, "clGetContextInfo", *info)
        self._program_info = function_of(opencl, "clGetProgramInfo", *info)
        self._load = function_of(
            opencl, "clCreateProgramWithBinary", pointer, pointer, ctypes.c_uint32, *(pointer,) * 5
        )
        self._build = function_of(
            opencl, "clBuildProgram", number, pointer, ctypes.c_uint32, pointer, ctypes.c_char_p, pointer, pointer
        )
        self._release_program = function_of(opencl, "clReleaseProgram", number, pointer)
        self._release_kernel = function_of(opencl, "clReleaseKernel", number, pointer)
        self._release_queue = function_of(opencl, "clReleaseCommandQueue", number, pointer)
        self._wrap = ctypes.PYFUNCTYPE(ctypes.py_object, pointer)(exported_address(_program, "SyclProgram_Make"))

    def binary(self, kernel: Any, queue: SyclQueue) -> bytes | None:
        """Return the binary of a kernel's program for a queue's device; None if the driver has none."""
        native = self._kernel_native(kernel.addressof_ref())
        try:
            program = pointer_property(self._kernel_info, native, KERNEL_PROGRAM)
            device = self._place(queue)[1]
            count = ctypes.c_uint32()
            self._program_info(program, _PROGRAM_NUM_DEVICES, ctypes.sizeof(count), ctypes.byref(count), None)
            devices, sizes = (ctypes.c_void_p * count.value)(), (ctypes.c_size_t * count.value)()
            self._program_info(program, _PROGRAM_DEVICES, ctypes.sizeof(devices), devices, None)
            self._program_info(program, _PROGRAM_BINARY_SIZES, ctypes.sizeof(sizes), sizes, None)
            # Intel's driver refuses to give that of one device alone.
            made = [ctypes.create_string_buffer(size) if size else None for size in sizes]
            places = (ctypes.c_void_p * count.value)(
                *(None if each is None else ctypes.addressof(each) for each in made)
            )
            if self._program_info(program, _PROGRAM_BINARIES, ctypes.sizeof(places), places, None):
                return None
            found = next((each for each, of in zip(made, devices, strict=True) if of == device), None)
            return None if found is None else found.raw
        finally:
            self._release_kernel(native)

    def load(self, binary: bytes, queue: SyclQueue) -> Any | None:
        """Return a program of a binary, as ``dpctl.program.SyclProgram``; None if the driver refuses it."""
        # SYCL since 2025 throws for a program that is not built for all devices of its context.
        context = self._place(queue)[0]
        size = ctypes.c_size_t()
        self._context_info(context, _CONTEXT_DEVICES, 0, None, ctypes.byref(size))
        count = size.value // ctypes.sizeof(ctypes.c_void_p)
        devices, status, error = (ctypes.c_void_p * count)(), (ctypes.c_int32 * count)(), ctypes.c_int32()
        self._context_info(context, _CONTEXT_DEVICES, size.value, devices, None)
        lengths, contents = (
            (ctypes.c_size_t * count)(*[len(binary)] * count),
            (ctypes.c_char_p * count)(*[binary] * count),
        )
        program = self._load(context, count, devices, lengths, contents, status, ctypes.byref(error))
        if not program:
            return None
        if error.value or any(status) or self._build(program, count, devices, b"", None, None):
            self._release_program(program)
            return None
        bundle = self._new(_SIZEOF_PROGRAM)
        self._make_program(bundle, program, queue.sycl_context.addressof_ref(), False, _EXECUTABLE, BACKEND_OPENCL)
        self._release_program(program)  # SYCL has retained it
        return self._wrap(bundle)  # which deletes it

    def _place(self, queue: SyclQueue) -> tuple[int, int]:
        """Return the native context and device of a queue."""
        native = self._queue_native(queue.addressof_ref(), ctypes.byref(ctypes.c_int32()))
        try:
            return pointer_property(self._queue_info, native, QUEUE_CONTEXT), pointer_property(
                self._queue_info, native, QUEUE_DEVICE
            )
        finally:
            self._release_queue(native)


@lru_cache(maxsize=1)
def load_binaries() -> _OpenCLBinaries | None:
    """Return the functions, or None if some are missing."""
    try:
        return _OpenCLBinaries()
    except (ImportError, OSError, AttributeError, KeyError):
        return None
