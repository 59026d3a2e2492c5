# SPDX-License-Identifier: Apache-2.0
"""The shared library of the compiled submission loop (``_submit*.c``): search and function prototypes."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Any

from syclsched.errors import RuntimeMissingError
from syclsched.oneapi.built_libraries import find_submission_loop

#: Variable. ``sycl``: submit through SYCL even for OpenCL devices. Results are the same.
NATIVE_VARIABLE = "SYCLSCHED_NATIVE"

#: Version of structures and functions, as in the C sources.
VERSION = 16

#: dpctl's C interface, as its own modules load it.
_INTERFACE = "libDPCTLSyclInterface.so.0"
#: In the order of ``struct functions`` of ``_submit_dpctl.c``.
_FUNCTIONS = (
    "DPCTLQueue_SubmitRange",
    "DPCTLQueue_SubmitNDRange",
    "DPCTLQueue_MemcpyWithEvents",
    "DPCTLEvent_GetCommandExecutionStatus",
    "DPCTLEvent_Wait",
    "DPCTLEvent_Delete",
    "DPCTLEvent_GetProfilingInfoStart",
    "DPCTLEvent_GetProfilingInfoEnd",
    "DPCTLEvent_Create",
    "DPCTLQueue_Wait",
)


class SubmissionLibrary:
    """The functions of the shared library, and the function tables passed to them."""

    def __init__(self, path: str, interface: Any) -> None:
        loaded = ctypes.CDLL(path)
        if ctypes.c_int64.in_dll(loaded, "syclsched_submit_version").value != VERSION:
            raise ValueError(f"{path} is of another version")
        self._loaded = loaded
        self._dpctl = table(interface, _FUNCTIONS)
        self.dpctl_backend = _address_in(loaded, "syclsched_way_dpctl")
        self.split_backend = _address_in(loaded, "syclsched_way_apart")
        self.threads_backend = _address_in(loaded, "syclsched_way_threads")
        #: OpenCL event callback that increments an eventfd.
        self.wake = _address_in(loaded, "syclsched_wake")
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        self.submit = loaded.syclsched_submit
        self.submit.restype = count
        self.submit.argtypes = [pointer, count, pointer, count, *[pointer] * 5]
        self.wait = loaded.syclsched_wait
        self.wait.restype = None
        self.wait.argtypes = [pointer, count]
        self.perform = loaded.syclsched_perform
        self.perform.restype = ctypes.c_int32
        self.perform.argtypes = [pointer, count, pointer, ctypes.c_int32, pointer]
        self.thread_begin = loaded.syclsched_thread_begin
        self.thread_begin.restype = pointer
        self.thread_begin.argtypes = [pointer, count, count, pointer]
        self.thread_end = loaded.syclsched_thread_end
        self.thread_end.restype = None
        self.thread_end.argtypes = [pointer]
        self.thread_wake_at = loaded.syclsched_thread_wake_at
        self.thread_wake_at.restype = ctypes.c_int32
        self.thread_wake_at.argtypes = [pointer, count]
        self.bell_new = loaded.syclsched_bell_new
        self.bell_new.restype = pointer
        self.bell_new.argtypes = []
        self.bell_ring = ctypes.PYFUNCTYPE(None, pointer)(_address_in(loaded, "syclsched_bell_ring"))
        self.bell_wait = loaded.syclsched_bell_wait
        self.bell_wait.restype = count
        self.bell_wait.argtypes = [pointer, count, count]
        self.bell_delete = loaded.syclsched_bell_delete
        self.bell_delete.restype = None
        self.bell_delete.argtypes = [pointer]
        self.times = loaded.syclsched_times
        self.times.restype = None
        self.times.argtypes = [pointer, count, pointer, pointer]
        self.delete = loaded.syclsched_delete
        self.delete.restype = None
        self.delete.argtypes = [pointer, count]
        self.next_failed = loaded.syclsched_next_failed
        self.next_failed.restype = count
        self.next_failed.argtypes = [pointer, count, count]
        self.flight_new = loaded.syclsched_flight_new
        self.flight_new.restype, self.flight_new.argtypes = pointer, [pointer]
        self.fly = loaded.syclsched_flight_fly
        self.fly.restype, self.fly.argtypes = ctypes.c_int32, [pointer, ctypes.c_double]
        self.flight_follow = loaded.syclsched_flight_follow
        self.flight_follow.restype, self.flight_follow.argtypes = ctypes.c_int32, [pointer]
        self.flight_land, self.flight_settle = loaded.syclsched_flight_land, loaded.syclsched_flight_settle
        self.flight_begin, self.flight_delete = loaded.syclsched_flight_begin, loaded.syclsched_flight_delete
        for function in (self.flight_begin, self.flight_land, self.flight_settle, self.flight_delete):
            function.restype, function.argtypes = None, [pointer]
        self.flight_begin_with = loaded.syclsched_flight_begin_with
        self.flight_begin_with.restype = ctypes.c_int32
        self.flight_begin_with.argtypes = [pointer, ctypes.py_object]
        self.look = loaded.syclsched_look
        self.look.restype, self.look.argtypes = ctypes.c_int32, [pointer, count, ctypes.py_object]
        #: Addresses of functions for compiled callers.
        self.now_address = _address_in(loaded, "syclsched_now_ns")
        self.submit_address = _address_in(loaded, "syclsched_submit")
        self.completed_address = _address_in(loaded, "syclsched_completed")
        self.bell_wait_address = _address_in(loaded, "syclsched_bell_wait")
        self.wait_address = _address_in(loaded, "syclsched_wait")
        self._look_first = ctypes.c_int32.in_dll(loaded, "syclsched_look_first")
        # Called too often to release the GIL for it.
        self.status = ctypes.PYFUNCTYPE(ctypes.c_int32, pointer)(_address_in(loaded, "syclsched_status"))

    def native_backend(self, way: str) -> int:
        """Return the address of the functions (``struct way``) that submit to a backend's native queues."""
        return _address_in(self._loaded, f"syclsched_way_{way}")

    def poll_events_first(self) -> None:
        """Make waits poll SYCL events until their commands run, from now on; see `host_tasks`."""
        self._look_first.value = 1

    @property
    def dpctl_functions(self) -> int:
        """Address of the table of dpctl's functions."""
        return ctypes.addressof(self._dpctl)


def table(library: Any, names: tuple[str, ...]) -> Any:
    """Return the addresses of a library's functions as a C array."""
    return (ctypes.c_void_p * len(names))(*[_address_in(library, name) for name in names])


@lru_cache(maxsize=1)
def load_library() -> SubmissionLibrary:
    """Return the loop's library; raise if it is missing or made for another version."""
    path = find_submission_loop()
    if path is None:
        raise _missing("syclsched/devices/native/_submit*.so was not built: there was no C compiler")
    import dpctl  # noqa: F401  (loads its C interface)

    try:
        return SubmissionLibrary(path, ctypes.CDLL(_INTERFACE, mode=os.RTLD_NOLOAD))
    except (OSError, AttributeError, ValueError) as error:
        raise _missing(f"{path} cannot be loaded: {error}") from error


def _missing(what: str) -> RuntimeMissingError:
    return RuntimeMissingError(
        what,
        where="submission loop",
        hint="Install a C compiler and syclsched again; `python -m syclsched doctor` shows the commands",
    )


def _address_in(library: Any, name: str) -> int:
    return ctypes.addressof(ctypes.c_char.in_dll(library, name))
