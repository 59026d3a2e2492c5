# SPDX-License-Identifier: Apache-2.0
"""OpenCL: devices that take source, and the native objects behind SYCL's queues, kernels and events.

SYCL returns them by ``get_native`` and accepts them by ``make_event`` (SYCL 2020, 4.5.1, and the OpenCL backend's
specification). dpctl has no binding of these, so the functions of the runtime's library are called as its headers do.
If the library lacks these symbols, there is no native access, and everything goes through SYCL.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from syclsched.devices.backends.opencl_calls import (
    BACKEND_OPENCL,
    DEVICE_NATIVE,
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
    number_property,
    pointer_property,
    sycl_runtime,
    text_property,
)
from syclsched.devices.backends.opencl_programs import load_programs
from syclsched.devices.backends.sycl import Backend, NativeAccess, sycl_event_at
from syclsched.devices.native.fences import scratch_for
from syclsched.devices.native.submission_library import NATIVE_VARIABLE, table
from syclsched.devices.native.sycl_types import SyclDevice, SyclEvent, SyclQueue
from syclsched.model.operation import OpenCLSource, SpirvModule

#: Number of worker threads per kernel of the CPU runtime; with one each queue of the CPU device is one core.
_WORKERS = "CL_CONFIG_CPU_TBB_NUM_WORKERS"

_EVENT_NATIVE = "_ZNK4sycl3_V15event9getNativeEv"
_MAKE_EVENT = "_ZN4sycl3_V16detail10make_eventEmRKNS0_7contextENS0_7backendE"
_SIZEOF_EVENT = 16  # a shared pointer

_QUEUE_PROPERTIES = 0x1093
_QUEUE_LOCAL_THREAD = 1 << 31  # CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL
_LOCAL_THREAD = b"cl_intel_exec_by_local_thread"
_DEVICE_EXTENSIONS = 0x1030
_DEVICE_PLATFORM = 0x1031
_KERNEL_FUNCTION_NAME = 0x1190
_PROGRAM_BUILD_LOG = 0x1183
_COMPLETE = 0
#: By type: the number of the property with the supported atomic operations (cl_ext_float_atomics).
_FLOAT_ATOMICS = {"float32": 0x4231, "float64": 0x4232}
#: By operation: its bits in that property, for global and for local memory.
_ATOMIC_BITS = {"add": 1 << 1 | 1 << 17, "min": 1 << 2 | 1 << 18, "max": 1 << 2 | 1 << 18}

#: In the order of ``struct functions`` of ``_submit_opencl.c``; extension functions are looked up for each platform.
#: Three functions of SYCL follow.
_FUNCTIONS = (
    "clEnqueueNDRangeKernel",
    "clEnqueueMemcpyINTEL",
    "clSetKernelArgMemPointerINTEL",
    "clSetKernelArg",
    "clFlush",
    "clGetEventInfo",
    "clWaitForEvents",
    "clReleaseEvent",
    "clGetEventProfilingInfo",
)
_COPY = _FUNCTIONS.index("clEnqueueMemcpyINTEL")  # two functions that set arguments follow it


class OpenCL(Backend):
    """The backend of the CPU device, the FPGA emulator, and of other devices' OpenCL drivers."""

    def native(self) -> NativeAccess | None:
        """Return access to native objects; None if the runtime does not expose them, or it is switched off."""
        return load_native()

    def build(self, code: OpenCLSource | SpirvModule, queue: SyclQueue) -> Any:
        """Return a program built from OpenCL C or SPIR-V."""
        from dpctl.program import SyclProgramCompilationError

        programs = load_programs()
        if programs is None:
            return super().build(code, queue) if isinstance(code, SpirvModule) else _dpctl_program(code, queue)
        built = programs.build(code, _options(code), queue)
        if built is None:
            raise SyclProgramCompilationError("the build failed")
        return built

    def build_log(self, code: OpenCLSource, queue: SyclQueue) -> str:
        """Return the device compiler's log on OpenCL C, which dpctl's error does not contain."""
        native = load_native() or _loaded_functions()
        return "" if native is None else native.build_log(code, queue)

    def binary(self, kernel: Any, queue: SyclQueue) -> bytes | None:
        """Return the driver's binary of a kernel's program."""
        programs = load_programs()
        return None if programs is None else programs.binary(kernel, queue)

    def load_binary(self, binary: bytes, queue: SyclQueue) -> Any | None:
        """Return the program of a driver's binary."""
        programs = load_programs()
        return None if programs is None else programs.load(binary, queue)

    def float_atomics(self, device: SyclDevice) -> frozenset[str]:
        """Return the driver's answer for global and local memory; it is empty for drivers without the extension."""
        return _float_atomics(device)

    def computes_on_host_cores(self, queue: SyclQueue) -> bool:
        """Return whether a queue's device is the CPU device or the FPGA emulator."""
        kind, name = queue.sycl_device.device_type.name, queue.sycl_device.name
        return kind == "cpu" or (kind == "accelerator" and "Emulation" in name)

    def why_not_local(self, queue: SyclQueue) -> str | None:
        """Return why a queue is not one core of the host, executable by one thread; None if it is."""
        if os.environ.get(_WORKERS) != "1":
            return f"its lanes are not one core of the host each: {_WORKERS} is not 1"
        if queue.sycl_device.device_type.name != "cpu":
            return super().why_not_local(queue)
        if queue.sycl_device.parent_device is not None:
            return "a lane is a sub-device, which has fewer cores than its device's threads run on"
        return None if self.native() is not None else "the OpenCL library is not found"

    def hold(self, queue: SyclQueue) -> Callable[[], None] | None:
        """Submit a copy that waits for a user event (OpenCL 1.2, 5.9), which occupies no thread and no core."""
        native = load_native()
        return None if native is None else native.hold(queue)


class NativeOpenCL:
    """Functions of the OpenCL library and of the SYCL runtime that are loaded in this process: a `NativeAccess`."""

    way = "opencl"

    def __init__(self) -> None:
        opencl, sycl = loaded_library(OPENCL), sycl_runtime()
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        self._opencl = opencl
        self._queue_native = function_of(sycl, QUEUE_NATIVE, pointer, pointer, pointer)
        self._kernel_native = function_of(sycl, KERNEL_NATIVE, pointer, pointer)
        self._event_native = function_of(sycl, _EVENT_NATIVE, pointer, pointer)
        self._make_event = function_of(sycl, _MAKE_EVENT, pointer, pointer, ctypes.c_size_t, pointer, number)
        self._new = function_of(loaded_library("libstdc++.so.6"), OPERATOR_NEW, pointer, ctypes.c_size_t)
        self._delete_event = function_of(dpctl_interface(), "DPCTLEvent_Delete", None, pointer)
        info = (number, pointer, ctypes.c_uint32, ctypes.c_size_t, pointer, pointer)
        self._queue_info = function_of(opencl, "clGetCommandQueueInfo", *info)
        self._device_info = function_of(opencl, "clGetDeviceInfo", *info)
        self._kernel_info = function_of(opencl, "clGetKernelInfo", *info)
        self._extension = function_of(
            opencl, "clGetExtensionFunctionAddressForPlatform", pointer, pointer, ctypes.c_char_p
        )
        self._create_program = function_of(
            opencl, "clCreateProgramWithSource", pointer, pointer, ctypes.c_uint32, pointer, pointer, pointer
        )
        self._build_program = function_of(
            opencl, "clBuildProgram", number, pointer, ctypes.c_uint32, pointer, ctypes.c_char_p, pointer, pointer
        )
        self._build_info = function_of(opencl, "clGetProgramBuildInfo", number, pointer, *info[1:])
        self._release_program = function_of(opencl, "clReleaseProgram", number, pointer)
        self._create_kernel = function_of(opencl, "clCreateKernel", pointer, pointer, ctypes.c_char_p, pointer)
        self._create_queue = function_of(
            opencl, "clCreateCommandQueueWithProperties", pointer, pointer, pointer, pointer, pointer
        )
        #: The last functions of each table, which are SYCL's.
        self._of_sycl = (
            *table(dpctl_interface(), ("DPCTLEvent_Create", "DPCTLEvent_Delete")),
            *table(sycl, (_EVENT_NATIVE,)),
        )
        self.release_kernel = function_of(opencl, "clReleaseKernel", number, pointer)
        self.release_queue = function_of(opencl, "clReleaseCommandQueue", number, pointer)
        self.release_event = function_of(opencl, "clReleaseEvent", number, pointer)
        self._set_callback = function_of(opencl, "clSetEventCallback", number, pointer, number, pointer, pointer)
        self._create_user_event = function_of(opencl, "clCreateUserEvent", pointer, pointer, pointer)
        self._set_user_event = function_of(opencl, "clSetUserEventStatus", number, pointer, number)
        self._flush = function_of(opencl, "clFlush", number, pointer)
        self._tables: dict[int, Any] = {}
        self._by_table: dict[int, tuple[Any, Any, Any]] = {}

    def queue(self, queue: SyclQueue) -> tuple[int, int] | None:
        """Return the native queue of a SYCL queue, to be released with `release_queue`, and the function table.

        None for a platform without the extension for unified shared memory.
        """
        native = self._queue_native(queue.addressof_ref(), ctypes.byref(ctypes.c_int32()))
        key = pointer_property(
            self._device_info, pointer_property(self._queue_info, native, QUEUE_DEVICE), _DEVICE_PLATFORM
        )
        if key not in self._tables:
            try:
                self._tables[key] = self._table(key)
            except AttributeError:
                self.release_queue(native)
                return None
        return native, ctypes.addressof(self._tables[key])

    def local_queue(self, queue: SyclQueue) -> int | None:
        """Return a queue whose commands run on the submitting thread, before the submission returns.

        It has the same context and device (cl_intel_exec_by_local_thread), and must be released with `release_queue`.
        None if the device has no such queues.
        """
        native = self._queue_native(queue.addressof_ref(), ctypes.byref(ctypes.c_int32()))
        try:
            device, context = (
                pointer_property(self._queue_info, native, name) for name in (QUEUE_DEVICE, QUEUE_CONTEXT)
            )
            if _LOCAL_THREAD not in text_property(self._device_info, device, _DEVICE_EXTENSIONS).split():
                return None
            properties = (ctypes.c_uint64 * 3)(_QUEUE_PROPERTIES, _QUEUE_LOCAL_THREAD, 0)
            return self._create_queue(context, device, properties, ctypes.byref(ctypes.c_int32())) or None
        finally:
            self.release_queue(native)

    def build_log(self, code: OpenCLSource, queue: SyclQueue) -> str:
        """Build a program for a queue's device, and return the compiler's log."""
        native = self._queue_native(queue.addressof_ref(), ctypes.byref(ctypes.c_int32()))
        try:
            device, context = (
                pointer_property(self._queue_info, native, name) for name in (QUEUE_DEVICE, QUEUE_CONTEXT)
            )
            text = ctypes.c_char_p(code.source.encode())
            program = self._create_program(context, 1, ctypes.byref(text), None, ctypes.byref(ctypes.c_int32()))
            if not program:
                return ""
            try:
                devices = ctypes.byref(ctypes.c_void_p(device))
                self._build_program(program, 1, devices, code.options.encode(), None, None)
                log = text_property(partial(self._build_info, program), device, _PROGRAM_BUILD_LOG)
            finally:
                self._release_program(program)
        finally:
            self.release_queue(native)
        return log.decode(errors="replace")

    def kernel(self, kernel: Any) -> int:
        """Return a new native kernel of the program of a SYCL kernel, to be released with `release_kernel`.

        It is not SYCL's own kernel object; only one thread at a time may set its arguments.
        """
        native = self._kernel_native(kernel.addressof_ref())
        name, error = text_property(self._kernel_info, native, _KERNEL_FUNCTION_NAME), ctypes.c_int32()
        made = self._create_kernel(
            pointer_property(self._kernel_info, native, KERNEL_PROGRAM), name, ctypes.byref(error)
        )
        self.release_kernel(native)
        if not made:
            raise OSError(f"clCreateKernel returns {error.value} for {name.decode(errors='replace')!r}")
        # SYCL allows kernels indirect access (CL_KERNEL_EXEC_INFO_INDIRECT_*_ACCESS_INTEL), for which the runtime
        # visits every allocation at every submission: 6 us with 2,000 of them. Tasks name their arrays and do not need
        # it.
        return int(made)

    def set_arguments(self, kernel: int, functions: int, values: Sequence[tuple[int, int]]) -> bool:
        """Set the arguments of a native kernel, which it keeps; return False if one is refused."""
        _, set_pointer, set_value = self._from_table(functions)
        return not any(
            set_value(kernel, index, size, address) if size else set_pointer(kernel, index, address)
            for index, (address, size) in enumerate(values)
        )

    def event(self, event: SyclEvent) -> int:
        """Return the native event of a SYCL event, to be released with `release_event`."""
        return int(self._event_native(event.addressof_ref()))

    def sycl_event(self, native: int, queue: SyclQueue) -> SyclEvent:
        """Return a SYCL event of a native one, which still belongs to the caller."""
        made = self._new(_SIZEOF_EVENT)
        self._make_event(made, native, queue.sycl_context.addressof_ref(), BACKEND_OPENCL)
        try:
            return sycl_event_at(made)
        finally:
            self._delete_event(made)

    def call_back(self, native: int, function: int, argument: int) -> bool:
        """Register a C function to be called when an event has completed or failed; return whether it worked."""
        return bool(self._set_callback(native, _COMPLETE, function, argument) == 0)

    def hold(self, queue: SyclQueue) -> Callable[[], None] | None:
        """Block a native in-order queue until the result is called; None if it refuses."""
        (to, source), made = scratch_for(queue), self.queue(queue)
        if made is None:
            return None
        native, functions = made
        event = self._create_user_event(pointer_property(self._queue_info, native, QUEUE_CONTEXT), None)
        copy, waits = self._from_table(functions)[0], ctypes.byref(ctypes.c_void_p(event))
        refused = copy(native, 0, to._pointer, source._pointer, 1, 1, waits, None)
        self._flush(native)
        self.release_queue(native)
        return None if refused else partial(self._complete, event)

    def _complete(self, event: int) -> None:
        """Complete a user event and release it."""
        self._set_user_event(event, _COMPLETE)
        self.release_event(event)

    def _from_table(self, functions: int) -> tuple[Any, Any, Any]:
        """Return the functions that copy, and that set pointer and value arguments, from a platform's table."""
        if functions not in self._by_table:
            pointer, number, size = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t
            types = (
                (pointer, number, pointer, pointer, size, number, pointer, pointer),
                (pointer, number, pointer),
                (pointer, number, size, pointer),
            )
            addresses = (size * len(_FUNCTIONS)).from_address(functions)[_COPY : _COPY + len(types)]
            copy, set_pointer, set_value = (
                ctypes.CFUNCTYPE(ctypes.c_int32, *each)(at) for each, at in zip(types, addresses, strict=True)
            )
            self._by_table[functions] = copy, set_pointer, set_value
        return self._by_table[functions]

    def _table(self, platform: int) -> Any:
        addresses = []
        for name in _FUNCTIONS:
            if name.endswith("INTEL"):
                address = self._extension(platform, name.encode())
                if not address:
                    raise AttributeError(f"the OpenCL platform has no {name}")
            else:
                address = table(self._opencl, (name,))[0]
            addresses.append(address)
        addresses += self._of_sycl
        return (ctypes.c_void_p * len(addresses))(*addresses)


@lru_cache(maxsize=1)
def load_native() -> NativeOpenCL | None:
    """Return native access to OpenCL, or None if it is unavailable or switched off."""
    value = os.environ.get(NATIVE_VARIABLE, "1")
    if value == "0":
        warnings.warn(f"{NATIVE_VARIABLE}=0 is deprecated and means {NATIVE_VARIABLE}=sycl", DeprecationWarning, 2)
    return _loaded_functions() if value == "1" else None


# --- inside ---------------------------------------------------------------------------------------


def _options(code: OpenCLSource | SpirvModule) -> str:
    """Return the options to build a program with."""
    # PoCL's compiler writes how many warnings there were to the terminal; an error has them in its log.
    return f"-w {code.options}".rstrip() if isinstance(code, OpenCLSource) else ""


def _dpctl_program(code: OpenCLSource, queue: SyclQueue) -> Any:
    """Return a program that dpctl builds of OpenCL C."""
    from dpctl import program

    return program.create_program_from_source(queue, code.source, _options(code))


@lru_cache(maxsize=64)
def _float_atomics(device: SyclDevice) -> frozenset[str]:
    number, pointer = ctypes.c_int32, ctypes.c_void_p
    try:
        opencl = loaded_library(OPENCL)
        native = function_of(sycl_runtime(), DEVICE_NATIVE, pointer, pointer)(device.addressof_ref())
    except (OSError, AttributeError):
        return frozenset()
    info = function_of(opencl, "clGetDeviceInfo", number, pointer, ctypes.c_uint32, ctypes.c_size_t, pointer, pointer)
    release = function_of(opencl, "clReleaseDevice", number, pointer)
    try:
        said = {dtype: number_property(info, native, name) for dtype, name in _FLOAT_ATOMICS.items()}
    finally:
        release(native)
    return frozenset(
        f"{operation} {dtype}"
        for dtype, has in said.items()
        for operation, bits in _ATOMIC_BITS.items()
        if has & bits == bits
    )


def _loaded_functions() -> NativeOpenCL | None:
    """Return the functions of the loaded libraries, or None if some are missing."""
    try:
        return NativeOpenCL()
    except (OSError, AttributeError):
        return None
