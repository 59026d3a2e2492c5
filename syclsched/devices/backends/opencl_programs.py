# SPDX-License-Identifier: Apache-2.0
"""Programs of OpenCL: built from source or SPIR-V, stored as binaries, and released with the last kernel of each.

dpctl builds programs, too, but keeps a reference of every program and kernel for ever, and the CPU driver has 0.4 to 3
MiB for a program. A program here is OpenCL's own; SYCL makes kernels of its kernels by ``make_kernel`` (OpenCL
backend's specification), and dpctl's extension module exports the function that wraps one. Where a symbol is missing,
programs are dpctl's, there are no binaries, and every process compiles.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
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
    dpctl_interface,
    function_of,
    loaded_library,
    pointer_property,
    sycl_runtime,
    text_property,
)
from syclsched.devices.native.exported_functions import exported_address
from syclsched.devices.native.sycl_types import SyclContext, SyclQueue
from syclsched.model.operation import OpenCLSource, SpirvModule

_MAKE_BUNDLE = "_ZN4sycl3_V16detail18make_kernel_bundleEmRKNS0_7contextEbNS0_12bundle_stateENS0_7backendE"
_MAKE_KERNEL = (
    "_ZN4sycl3_V16detail11make_kernelERKNS0_7contextERKNS0_13kernel_bundleILNS0_12bundle_stateE2EEEmbNS0_7backendE"
)
_EXECUTABLE = 2  # sycl::bundle_state::executable
_CONTEXT_DEVICES = 0x1081
_SIZEOF_OBJECT = 16  # of a SYCL bundle or kernel: a shared pointer
_PROGRAM_REFERENCES, _KERNEL_REFERENCES, _PROGRAM_KERNEL_NAMES = 0x1160, 0x1192, 0x1168
_PROGRAM_NUM_DEVICES, _PROGRAM_DEVICES, _PROGRAM_BINARY_SIZES, _PROGRAM_BINARIES = 0x1162, 0x1163, 0x1165, 0x1166


class OpenCLProgram:
    """A built program, with the interface of ``dpctl.program.SyclProgram``; its kernels outlive it."""

    __slots__ = ("__weakref__", "_bundle", "_context", "_functions", "_names", "handle")

    def __init__(self, functions: OpenCLPrograms, handle: int, context: SyclContext) -> None:
        self._functions, self._context = functions, context
        self.handle = handle  # of the OpenCL object
        self._names = frozenset(functions.kernel_names(handle))
        #: SYCL's object, which its kernels hold: drivers since 2026 forget a program that only kernels hold.
        self._bundle = functions.bundle(handle, context)

    def has_sycl_kernel(self, name: str) -> bool:
        """Return whether there is a kernel of this name."""
        return name in self._names

    def get_sycl_kernel(self, name: str) -> Any:
        """Return a kernel as ``dpctl.program.SyclKernel``."""
        return self._functions.kernel(self.handle, self._bundle, name, self._context)

    def __del__(self) -> None:
        # At interpreter exit, the driver may already be torn down.
        if sys is not None and not sys.is_finalizing():
            self._functions.delete_bundle(self._bundle)


class OpenCLPrograms:
    """The functions of the loaded libraries that build, load and save programs."""

    def __init__(self) -> None:
        from dpctl.program import _program

        opencl, sycl, interface = loaded_library(OPENCL), sycl_runtime(), dpctl_interface()
        pointer, number, size = ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t
        count, text = ctypes.c_uint32, ctypes.c_char_p
        self._queue_native = function_of(sycl, QUEUE_NATIVE, pointer, pointer, pointer)
        self._kernel_native = function_of(sycl, KERNEL_NATIVE, pointer, pointer)
        self._make_bundle = function_of(
            sycl, _MAKE_BUNDLE, pointer, pointer, size, pointer, ctypes.c_bool, number, number
        )
        self._make_kernel = function_of(
            sycl, _MAKE_KERNEL, pointer, pointer, pointer, pointer, size, ctypes.c_bool, number
        )
        self.delete_bundle = function_of(interface, "DPCTLKernelBundle_Delete", None, pointer)
        self._new = function_of(loaded_library("libstdc++.so.6"), OPERATOR_NEW, pointer, size)
        self._delete_kernel = function_of(interface, "DPCTLKernel_Delete", None, pointer)
        info = (number, pointer, count, size, pointer, pointer)
        self._queue_info = function_of(opencl, "clGetCommandQueueInfo", *info)
        self._kernel_info = function_of(opencl, "clGetKernelInfo", *info)
        self._context_info = function_of(opencl, "clGetContextInfo", *info)
        self._program_info = function_of(opencl, "clGetProgramInfo", *info)
        self._of_source = function_of(opencl, "clCreateProgramWithSource", pointer, pointer, count, *(pointer,) * 3)
        self._of_spirv = function_of(opencl, "clCreateProgramWithIL", pointer, pointer, pointer, size, pointer)
        self._of_binary = function_of(opencl, "clCreateProgramWithBinary", pointer, pointer, count, *(pointer,) * 5)
        self._build = function_of(opencl, "clBuildProgram", number, pointer, count, pointer, text, pointer, pointer)
        self._create_kernel = function_of(opencl, "clCreateKernel", pointer, pointer, text, pointer)
        self._release = function_of(opencl, "clReleaseProgram", number, pointer)
        self._release_kernel = function_of(opencl, "clReleaseKernel", number, pointer)
        self._release_queue = function_of(opencl, "clReleaseCommandQueue", number, pointer)
        self._wrap = ctypes.PYFUNCTYPE(ctypes.py_object, pointer, text)(exported_address(_program, "SyclKernel_Make"))

    def build(self, code: OpenCLSource | SpirvModule, options: str, queue: SyclQueue) -> OpenCLProgram | None:
        """Return a program built for a queue's device; None if the driver refuses it."""
        context, device = self._place(queue)
        error = ctypes.c_int32()
        if isinstance(code, OpenCLSource):
            source = ctypes.c_char_p(code.source.encode())
            program = self._of_source(context, 1, ctypes.byref(source), None, ctypes.byref(error))
        else:
            program = self._of_spirv(context, code.code, len(code.code), ctypes.byref(error))
        if not program or not self._is_built(program, [device], options):
            return None
        # Made of its binary it has a third of the memory.
        binary = self._binary(program, device)
        loaded = None if binary is None else self.load(binary, queue)
        devices = self._devices(context)
        if loaded is None and len(devices) > 1 and not self._is_built(program, devices, options):
            return None
        if loaded is None:
            return OpenCLProgram(self, program, queue.sycl_context)
        self._release(program)
        return loaded

    def load(self, binary: bytes, queue: SyclQueue) -> OpenCLProgram | None:
        """Return a program of a binary; None if the driver refuses it."""
        context = self._place(queue)[0]
        devices = self._devices(context)
        count, error = len(devices), ctypes.c_int32()
        status = (ctypes.c_int32 * count)()
        lengths, contents = (
            (ctypes.c_size_t * count)(*[len(binary)] * count),
            (ctypes.c_char_p * count)(*[binary] * count),
        )
        listed = (ctypes.c_void_p * count)(*devices)
        program = self._of_binary(context, count, listed, lengths, contents, status, ctypes.byref(error))
        if not program:
            return None
        if error.value or any(status):
            self._release(program)
            return None
        return OpenCLProgram(self, program, queue.sycl_context) if self._is_built(program, devices, "") else None

    def binary(self, kernel: Any, queue: SyclQueue) -> bytes | None:
        """Return the binary of a kernel's program for a queue's device; None if the driver has none."""
        native = self._kernel_native(kernel.addressof_ref())
        try:
            program = pointer_property(self._kernel_info, native, KERNEL_PROGRAM)
            return self._binary(program, self._place(queue)[1])
        finally:
            self._release_kernel(native)

    def kernel_names(self, program: int) -> list[str]:
        """Return the names of the kernels of a built program."""
        return text_property(self._program_info, program, _PROGRAM_KERNEL_NAMES).decode().split(";")

    def bundle(self, program: int, context: SyclContext) -> int:
        """Return a SYCL bundle of a built program, which takes over the caller's reference of the program."""
        made = int(self._new(_SIZEOF_OBJECT))
        self._make_bundle(made, program, context.addressof_ref(), False, _EXECUTABLE, BACKEND_OPENCL)
        if self.references(program) > 1:  # SYCL has retained it
            self._release(program)
        return made

    def kernel(self, program: int, bundle: int, name: str, context: SyclContext) -> Any:
        """Return a kernel of a program as ``dpctl.program.SyclKernel``, which keeps the bundle."""
        error = ctypes.c_int32()
        native = self._create_kernel(program, name.encode(), ctypes.byref(error))
        if not native:
            raise OSError(f"clCreateKernel returns {error.value} for {name!r}")
        made = self._new(_SIZEOF_OBJECT)
        self._make_kernel(made, context.addressof_ref(), bundle, native, False, BACKEND_OPENCL)
        if self._references(self._kernel_info, native, _KERNEL_REFERENCES) > 1:  # SYCL has retained it
            self._release_kernel(native)
        kernel = self._wrap(made, name.encode())
        if kernel.addressof_ref() != made:  # it has a copy
            self._delete_kernel(made)
        return kernel

    def references(self, program: int) -> int:
        """Return how many references a program has, those of its kernels included."""
        return self._references(self._program_info, program, _PROGRAM_REFERENCES)

    def _is_built(self, program: int, devices: Sequence[int], options: str) -> bool:
        """Build a program for devices; return whether the driver takes it, else release it."""
        listed = (ctypes.c_void_p * len(devices))(*devices)
        if self._build(program, len(devices), listed, options.encode(), None, None):
            self._release(program)
            return False
        return True

    def _binary(self, program: int, device: int) -> bytes | None:
        """Return a program's binary for a device; None if the driver has none."""
        count = ctypes.c_uint32()
        self._program_info(program, _PROGRAM_NUM_DEVICES, ctypes.sizeof(count), ctypes.byref(count), None)
        devices, sizes = (ctypes.c_void_p * count.value)(), (ctypes.c_size_t * count.value)()
        self._program_info(program, _PROGRAM_DEVICES, ctypes.sizeof(devices), devices, None)
        self._program_info(program, _PROGRAM_BINARY_SIZES, ctypes.sizeof(sizes), sizes, None)
        # Intel's driver refuses to give that of one device alone.
        made = [ctypes.create_string_buffer(size) if size else None for size in sizes]
        places = (ctypes.c_void_p * count.value)(*(None if each is None else ctypes.addressof(each) for each in made))
        if self._program_info(program, _PROGRAM_BINARIES, ctypes.sizeof(places), places, None):
            return None
        found = next((each for each, of in zip(made, devices, strict=True) if of == device), None)
        return None if found is None else found.raw

    def _devices(self, context: int) -> list[int]:
        """Return the devices of a context: SYCL since 2025 throws for a program that is not built for all of them."""
        size = ctypes.c_size_t()
        self._context_info(context, _CONTEXT_DEVICES, 0, None, ctypes.byref(size))
        found = (ctypes.c_void_p * (size.value // ctypes.sizeof(ctypes.c_void_p)))()
        self._context_info(context, _CONTEXT_DEVICES, size.value, found, None)
        return [each or 0 for each in found]

    def _place(self, queue: SyclQueue) -> tuple[int, int]:
        """Return the native context and device of a queue."""
        native = self._queue_native(queue.addressof_ref(), ctypes.byref(ctypes.c_int32()))
        try:
            return pointer_property(self._queue_info, native, QUEUE_CONTEXT), pointer_property(
                self._queue_info, native, QUEUE_DEVICE
            )
        finally:
            self._release_queue(native)

    @staticmethod
    def _references(info: Any, owner: int, name: int) -> int:
        """Return the reference count of an object, by a ``clGet...Info`` function."""
        found = ctypes.c_uint32()
        info(owner, name, ctypes.sizeof(found), ctypes.byref(found), None)
        return found.value


@lru_cache(maxsize=1)
def load_programs() -> OpenCLPrograms | None:
    """Return the functions, or None if some are missing."""
    try:
        return OpenCLPrograms()
    except (ImportError, OSError, AttributeError, KeyError):
        return None
