# SPDX-License-Identifier: Apache-2.0
"""Native OpenCL objects of SYCL queues, kernels and events.

SYCL returns them by ``get_native`` and accepts them by ``make_event`` (SYCL 2020, 4.5.1, and the OpenCL backend's
specification). dpctl has no binding of these, so the functions of the runtime's library are called as its headers do.
If the library lacks these symbols, there is no native access, and everything goes through SYCL.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from syclsched.devices.native.submission_library import NATIVE_VARIABLE, table
from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue

_OPENCL = "libOpenCL.so.1"
_INTERFACE = "libDPCTLSyclInterface.so.0"
#: Major versions whose binary interface has these symbols.
_SYCL = ("libsycl.so.7", "libsycl.so.8")
_QUEUE_NATIVE = "_ZNK4sycl3_V15queue9getNativeERi"
_KERNEL_NATIVE = "_ZNK4sycl3_V16kernel9getNativeEv"
_EVENT_NATIVE = "_ZNK4sycl3_V15event9getNativeEv"
_MAKE_EVENT = "_ZN4sycl3_V16detail10make_eventEmRKNS0_7contextENS0_7backendE"
_OPERATOR_NEW = "_Znwm"
_SIZEOF_EVENT = 16  # a shared pointer
_BACKEND_OPENCL = 1

_QUEUE_CONTEXT, _QUEUE_DEVICE, _QUEUE_PROPERTIES = 0x1090, 0x1091, 0x1093
_QUEUE_LOCAL_THREAD = 1 << 31  # CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL
_LOCAL_THREAD = b"cl_intel_exec_by_local_thread"
_DEVICE_EXTENSIONS = 0x1030
_DEVICE_PLATFORM = 0x1031
_KERNEL_FUNCTION_NAME = 0x1190
_KERNEL_PROGRAM = 0x1194
_COMPLETE = 0

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
_SET_POINTER, _SET_VALUE = _FUNCTIONS.index("clSetKernelArgMemPointerINTEL"), _FUNCTIONS.index("clSetKernelArg")


class NativeOpenCL:
    """Functions of the OpenCL library and of the SYCL runtime that are loaded in this process."""

    def __init__(self) -> None:
        opencl, sycl = _loaded(_OPENCL), _loaded(*_SYCL)
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        self._opencl = opencl
        self._queue_native = _function(sycl, _QUEUE_NATIVE, pointer, pointer, pointer)
        self._kernel_native = _function(sycl, _KERNEL_NATIVE, pointer, pointer)
        self._event_native = _function(sycl, _EVENT_NATIVE, pointer, pointer)
        self._make_event = _function(sycl, _MAKE_EVENT, pointer, pointer, ctypes.c_size_t, pointer, number)
        self._new = _function(_loaded("libstdc++.so.6"), _OPERATOR_NEW, pointer, ctypes.c_size_t)
        self._delete_event = _function(_loaded(_INTERFACE), "DPCTLEvent_Delete", None, pointer)
        info = (number, pointer, ctypes.c_uint32, ctypes.c_size_t, pointer, pointer)
        self._queue_info = _function(opencl, "clGetCommandQueueInfo", *info)
        self._device_info = _function(opencl, "clGetDeviceInfo", *info)
        self._kernel_info = _function(opencl, "clGetKernelInfo", *info)
        self._extension = _function(
            opencl, "clGetExtensionFunctionAddressForPlatform", pointer, pointer, ctypes.c_char_p
        )
        self._create_kernel = _function(opencl, "clCreateKernel", pointer, pointer, ctypes.c_char_p, pointer)
        self._create_queue = _function(
            opencl, "clCreateCommandQueueWithProperties", pointer, pointer, pointer, pointer, pointer
        )
        #: The last functions of each table, which are SYCL's.
        self._of_sycl = (
            *table(_loaded(_INTERFACE), ("DPCTLEvent_Create", "DPCTLEvent_Delete")),
            *table(sycl, (_EVENT_NATIVE,)),
        )
        self._release_kernel = _function(opencl, "clReleaseKernel", number, pointer)
        self._release_queue = _function(opencl, "clReleaseCommandQueue", number, pointer)
        self._release_event = _function(opencl, "clReleaseEvent", number, pointer)
        self._set_callback = _function(opencl, "clSetEventCallback", number, pointer, number, pointer, pointer)
        self._tables: dict[int, Any] = {}
        self._set_by_table: dict[int, tuple[Any, Any]] = {}

    def queue(self, queue: SyclQueue) -> tuple[int, int]:
        """Return the native queue of a SYCL queue, to be released with `release_queue`, and the function table."""
        native = self._queue_native(queue.addressof_ref(), ctypes.byref(ctypes.c_int32()))
        device, platform = ctypes.c_void_p(), ctypes.c_void_p()
        self._queue_info(native, _QUEUE_DEVICE, ctypes.sizeof(device), ctypes.byref(device), None)
        self._device_info(device, _DEVICE_PLATFORM, ctypes.sizeof(platform), ctypes.byref(platform), None)
        key = platform.value or 0
        if key not in self._tables:
            try:
                self._tables[key] = self._table(key)
            except AttributeError:
                self.release_queue(native)
                raise
        return native, ctypes.addressof(self._tables[key])

    def local_queue(self, queue: SyclQueue) -> int | None:
        """Return a queue whose commands run on the submitting thread, before the submission returns.

        It has the same context and device (cl_intel_exec_by_local_thread), and must be released with `release_queue`.
        None if the device has no such queues.
        """
        native = self._queue_native(queue.addressof_ref(), ctypes.byref(ctypes.c_int32()))
        try:
            device, context, length = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
            self._queue_info(native, _QUEUE_DEVICE, ctypes.sizeof(device), ctypes.byref(device), None)
            self._queue_info(native, _QUEUE_CONTEXT, ctypes.sizeof(context), ctypes.byref(context), None)
            self._device_info(device, _DEVICE_EXTENSIONS, 0, None, ctypes.byref(length))
            listed = ctypes.create_string_buffer(length.value + 1)
            self._device_info(device, _DEVICE_EXTENSIONS, length.value, listed, None)
            if _LOCAL_THREAD not in listed.value.split():
                return None
            properties = (ctypes.c_uint64 * 3)(_QUEUE_PROPERTIES, _QUEUE_LOCAL_THREAD, 0)
            return self._create_queue(context, device, properties, ctypes.byref(ctypes.c_int32())) or None
        finally:
            self.release_queue(native)

    def kernel(self, kernel: Any) -> int:
        """Return a new native kernel of the program of a SYCL kernel, to be released with `release_kernel`.

        It is not SYCL's own kernel object; only one thread at a time may set its arguments.
        """
        native = self._kernel_native(kernel.addressof_ref())
        program, length, error = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int32()
        self._kernel_info(native, _KERNEL_PROGRAM, ctypes.sizeof(program), ctypes.byref(program), None)
        self._kernel_info(native, _KERNEL_FUNCTION_NAME, 0, None, ctypes.byref(length))
        name = ctypes.create_string_buffer(length.value + 1)
        self._kernel_info(native, _KERNEL_FUNCTION_NAME, length.value, name, None)
        made = self._create_kernel(program, name.value, ctypes.byref(error))
        self._release_kernel(native)
        if not made:
            raise OSError(f"clCreateKernel returns {error.value} for {name.value.decode(errors='replace')!r}")
        # SYCL allows kernels indirect access (CL_KERNEL_EXEC_INFO_INDIRECT_*_ACCESS_INTEL), for which the runtime
        # visits every allocation at every submission: 6 us with 2,000 of them. Tasks name their arrays and do not need
        # it.
        return int(made)

    def set_arguments(self, kernel: int, functions: int, values: Sequence[tuple[int, int]]) -> bool:
        """Set the arguments of a native kernel, which it keeps; return False if one is refused."""
        set_pointer, set_value = self._setters(functions)
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
        self._make_event(made, native, queue.sycl_context.addressof_ref(), _BACKEND_OPENCL)
        try:
            return sycl_event_at(made)
        finally:
            self._delete_event(made)

    def call_back(self, native: int, function: int, argument: int) -> bool:
        """Register a C function to be called when an event has completed or failed; return whether it worked."""
        return bool(self._set_callback(native, _COMPLETE, function, argument) == 0)

    def release_queue(self, native: int) -> None:
        """Release a native queue."""
        self._release_queue(native)

    def release_kernel(self, native: int) -> None:
        """Release a native kernel."""
        self._release_kernel(native)

    def release_event(self, native: int) -> None:
        """Release a native event."""
        self._release_event(native)

    def _setters(self, functions: int) -> tuple[Any, Any]:
        """Return the functions that set pointer and value arguments, from a platform's table."""
        if functions not in self._set_by_table:
            pointer, number = ctypes.c_void_p, ctypes.c_uint32
            addresses = (ctypes.c_size_t * len(_FUNCTIONS)).from_address(functions)
            self._set_by_table[functions] = (
                ctypes.CFUNCTYPE(ctypes.c_int32, pointer, number, pointer)(addresses[_SET_POINTER]),
                ctypes.CFUNCTYPE(ctypes.c_int32, pointer, number, ctypes.c_size_t, pointer)(addresses[_SET_VALUE]),
            )
        return self._set_by_table[functions]

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
    if os.environ.get(NATIVE_VARIABLE, "1") != "1":
        return None
    try:
        return NativeOpenCL()
    except (OSError, AttributeError):
        return None


def sycl_event_at(address: int) -> SyclEvent:
    """Return a copy of the event that a ``DPCTLSyclEventRef`` points to, as ``dpctl.SyclEvent``."""
    import dpctl

    made: SyclEvent = dpctl.SyclEvent(_capsule(address, b"SyclEventRef", None))
    return made


# --- inside ---------------------------------------------------------------------------------------

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _loaded(*names: str) -> Any:
    """Return the first of these libraries that is already loaded."""
    for name in names:
        try:
            return ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
        except OSError:
            continue
    raise OSError(f"none of {', '.join(names)} is loaded")


def _function(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    found = library[name]  # not an attribute: each use of a name may have its own signature
    found.restype = result
    found.argtypes = list(arguments)
    return found
