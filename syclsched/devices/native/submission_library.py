# SPDX-License-Identifier: Apache-2.0
"""The shared library of the compiled submission loop (``_submit*.c``): search and function prototypes."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Any

from syclsched.errors import RuntimeMissingError
from syclsched.oneapi import stack_generation
from syclsched.oneapi.built_libraries import find_submission_loop

#: Variable. ``sycl``: submit through SYCL even for OpenCL devices. Results are the same.
NATIVE_VARIABLE = "SYCLSCHED_NATIVE"

#: Version of structures and functions, as in the C sources.
VERSION = 31

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
        pointer, count, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        self.submit = self._function("submit", count, pointer, count, pointer, count, *[pointer] * 5)
        self.finish_lane = self._function("finish_lane", flag, pointer)
        self.wait = self._function("wait", None, pointer, count)
        self.perform = self._function("perform", flag, pointer, count, pointer, flag, pointer)
        self.thread_begin = self._function("thread_begin", pointer, pointer, count, count, pointer)
        self.thread_end = self._function("thread_end", None, pointer)
        self.thread_wake_at = self._function("thread_wake_at", flag, pointer, count)
        self.wakeup_new = self._function("wakeup_new", pointer)
        self.wakeup_wait = self._function("wakeup_wait", count, pointer, count, count)
        self.wakeup_delete = self._function("wakeup_delete", None, pointer)
        self.times = self._function("times", None, pointer, count, pointer, pointer)
        self.delete = self._function("delete", None, pointer, count)
        self.next_failed = self._function("next_failed", count, pointer, count, count)
        self.flight_new = self._function("flight_new", pointer, pointer)
        self.fly = self._function("flight_fly", flag, pointer, ctypes.c_double)
        self.fly_into = self._function("flight_fly_into", flag, pointer, ctypes.c_double, ctypes.py_object)
        self.flight_await = self._function("flight_await", flag, pointer, ctypes.c_double)
        self.flight_follow = self._function("flight_follow", flag, pointer)
        self.flight_land = self._function("flight_land", None, pointer)
        self.flight_settle = self._function("flight_settle", None, pointer)
        self.flight_begin = self._function("flight_begin", None, pointer)
        self.flight_delete = self._function("flight_delete", None, pointer)
        self.flight_begin_with = self._function("flight_begin_with", flag, pointer, ctypes.py_object)
        self.look = self._function("look", flag, pointer, count, ctypes.py_object)
        # Called too often to release the GIL for them.
        self.wakeup_signal = ctypes.PYFUNCTYPE(None, pointer)(_address_in(loaded, "syclsched_wakeup_signal"))
        self.status = ctypes.PYFUNCTYPE(flag, pointer)(_address_in(loaded, "syclsched_status"))
        self.hop = ctypes.PYFUNCTYPE(flag, pointer, ctypes.py_object, ctypes.py_object)(
            _address_in(loaded, "syclsched_flight_hop")
        )
        #: Addresses of functions for compiled callers.
        self.now_address = _address_in(loaded, "syclsched_now_ns")
        self.submit_address = _address_in(loaded, "syclsched_submit")
        self.completed_address = _address_in(loaded, "syclsched_completed")
        self.wakeup_wait_address = _address_in(loaded, "syclsched_wakeup_wait")
        self.wait_address = _address_in(loaded, "syclsched_wait")
        self._look_first = ctypes.c_int32.in_dll(loaded, "syclsched_look_first")
        # CPython 3.14 keeps a tuple's hash before its items.
        ctypes.c_int64.in_dll(loaded, "syclsched_tuple_bytes").value = tuple.__basicsize__

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        found = self._loaded[f"syclsched_{name}"]
        found.restype, found.argtypes = result, arguments
        return found

    def native_backend(self, way: str) -> int:
        """Return the address of the functions (``struct way``) that submit to a backend's native queues."""
        return _address_in(self._loaded, f"syclsched_way_{way}")

    @property
    def move_argument(self) -> int:
        """Address of the function that sets the pointer of a kernel's argument (``struct moved_argument``)."""
        return _address_in(self._loaded, "syclsched_move_argument")

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
        return SubmissionLibrary(path, ctypes.CDLL(stack_generation.installed().dpctl_interface, mode=os.RTLD_NOLOAD))
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
