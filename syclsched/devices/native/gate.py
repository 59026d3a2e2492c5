# SPDX-License-Identifier: Apache-2.0
"""A gate in an OpenCL queue: later submissions do not start before the gate is opened.

It is a copy of one byte that waits for a user event (OpenCL 1.2, 5.9), in the native in-order queue of the SYCL queue.
It occupies no thread and no core.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import lru_cache
from typing import Any

from syclsched.devices.native.fences import scratch_for
from syclsched.devices.native.native_opencl import NativeOpenCL, load_native
from syclsched.devices.native.submission_library import table
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.errors import ExecutionError

_QUEUE_CONTEXT = 0x1090
_COMPLETE = 0
_MEMCPY = 1  # position of clEnqueueMemcpyINTEL in the table of functions


class Gate:
    """A gate at the end of a queue, closed until `open`."""

    def __init__(self, queue: SyclQueue) -> None:
        functions = _functions()
        if functions is None or queue.backend.name != "opencl":
            raise ExecutionError("its queues cannot be held back", where=f"device {queue.sycl_device.name.strip()!r}")
        self._functions = functions
        self._lock = threading.Lock()
        self._event: int | None = functions.close(queue)

    def open(self) -> None:
        """Let the work behind the gate start; opening twice does nothing."""
        with self._lock:
            event, self._event = self._event, None
        if event is not None:
            self._functions.open(event)


class _Functions:
    """The OpenCL functions that `Gate` calls."""

    def __init__(self, native: NativeOpenCL) -> None:
        opencl, pointer, number = ctypes.CDLL("libOpenCL.so.1", mode=os.RTLD_NOLOAD), ctypes.c_void_p, ctypes.c_int32
        self._native = native
        self._create = ctypes.CFUNCTYPE(pointer, pointer, pointer)(_address(opencl, "clCreateUserEvent"))
        self._set = ctypes.CFUNCTYPE(number, pointer, number)(_address(opencl, "clSetUserEventStatus"))
        self._flush = ctypes.CFUNCTYPE(number, pointer)(_address(opencl, "clFlush"))
        self._info = ctypes.CFUNCTYPE(number, pointer, ctypes.c_uint32, ctypes.c_size_t, pointer, pointer)(
            _address(opencl, "clGetCommandQueueInfo")
        )
        self._memcpy = ctypes.CFUNCTYPE(
            number, pointer, ctypes.c_uint32, pointer, pointer, ctypes.c_size_t, ctypes.c_uint32, pointer, pointer
        )

    def close(self, queue: SyclQueue) -> int:
        """Block a queue, and return the user event it waits for."""
        native, functions = self._native.queue(queue)
        try:
            context, error = ctypes.c_void_p(), ctypes.c_int32()
            self._info(native, _QUEUE_CONTEXT, ctypes.sizeof(context), ctypes.byref(context), None)
            event = ctypes.c_void_p(self._create(context, ctypes.byref(error)))
            to, source = scratch_for(queue)
            copy = self._memcpy((ctypes.c_size_t * (_MEMCPY + 1)).from_address(functions)[_MEMCPY])
            status = copy(native, 0, to._pointer, source._pointer, 1, 1, ctypes.byref(event), None)
            if status != 0 or not event.value:
                raise ExecutionError(f"a queue could not be held back: status {status or error.value}")
            self._flush(native)
            return event.value
        finally:
            self._native.release_queue(native)

    def open(self, event: int) -> None:
        """Complete a user event and release it."""
        self._set(event, _COMPLETE)
        self._native.release_event(event)


@lru_cache(maxsize=1)
def _functions() -> _Functions | None:
    native = load_native()
    return None if native is None else _Functions(native)


def _address(library: Any, name: str) -> int:
    return int(table(library, (name,))[0])
