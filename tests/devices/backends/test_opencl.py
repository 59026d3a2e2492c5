# SPDX-License-Identifier: Apache-2.0
"""Native OpenCL objects of SYCL objects: queues, kernels, and events in both directions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from syclsched.devices.backends import opencl
from syclsched.devices.backends.opencl import NativeOpenCL, load_native
from syclsched.devices.memory import usm_memory
from syclsched.devices.native.fences import submit_fence
from syclsched.devices.native.submission_library import NATIVE_VARIABLE, load_library
from syclsched.devices.submission.submission_loop import SubmissionLoop

pytestmark = pytest.mark.sycl

_QUEUE_CONTEXT = 0x1090
_OUT_OF_RESOURCES = -5


@pytest.fixture
def native() -> NativeOpenCL:
    found = load_native()
    assert found is not None, "the runtime's library does not have what native access needs"
    return found


@pytest.fixture
def user_event(queues: list[Any], native: NativeOpenCL) -> Iterator[tuple[int, Callable[[int], None]]]:
    """An event, and a function that sets its status: complete, or an error."""
    library = ctypes.CDLL("libOpenCL.so.1")
    library.clCreateUserEvent.restype = ctypes.c_void_p
    library.clCreateUserEvent.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.clSetUserEventStatus.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    info = library["clGetCommandQueueInfo"]
    info.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    made = native.queue(queues[0])
    assert made is not None
    queue, _ = made
    context = ctypes.c_void_p()
    assert info(queue, _QUEUE_CONTEXT, 8, ctypes.byref(context), None) == 0
    event = library.clCreateUserEvent(context, None)
    yield event, lambda status: library.clSetUserEventStatus(event, status)
    native.release_event(event)
    native.release_queue(queue)


def test_events_are_converted_in_both_directions(queues: list[Any], native: NativeOpenCL) -> None:
    event = submit_fence(queues[0], [])
    handle = native.event(event)
    again = native.sycl_event(handle, queues[0])
    again.wait()
    assert event.execution_status.name == again.execution_status.name == "complete"
    native.release_event(handle)


def test_a_python_submission_waits_for_a_native_event(
    queues: list[Any], native: NativeOpenCL, user_event: tuple[int, Callable[[int], None]]
) -> None:
    handle, set_status = user_event
    storage = usm_memory.allocate(queues[0], 8, "shared")
    view = usm_memory.as_numpy(storage, (1,), "int64")
    view[...] = 1
    source = np.array([2])
    copied = queues[0].memcpy_async(storage, usm_memory.as_bytes(source), 8, [native.sycl_event(handle, queues[0])])
    assert copied.execution_status.name != "complete"
    assert view[0] == 1
    set_status(0)
    copied.wait()
    assert view[0] == 2


def test_the_loop_reports_the_failed_status(
    queues: list[Any], native: NativeOpenCL, user_event: tuple[int, Callable[[int], None]]
) -> None:
    handle, set_status = user_event
    library = load_library()
    loop = SubmissionLoop(library, dict(enumerate(queues)), 10)
    loop.use_native_queues()
    loop.adopt(0, 0, native.sycl_event(handle, queues[0]))
    assert not loop.is_complete(0)
    batch = loop.submit([loop.fence(1, 0, []), loop.fence(2, 1, [0])])
    assert not loop.is_complete(2)
    set_status(_OUT_OF_RESOURCES)
    loop.wait(batch)
    assert loop.is_complete(2)
    # On these devices the waiting command runs all the same: callers must check the awaited event, too.
    assert loop.failed()[0] == _OUT_OF_RESOURCES
    loop.close()


def test_native_kernels_are_separate_clones(queues: list[Any], native: NativeOpenCL) -> None:
    from dpctl.program import create_program_from_source

    kernel = create_program_from_source(queues[0], "__kernel void nothing(__global int *a) {}").get_sycl_kernel(
        "nothing"
    )
    first, second = native.kernel(kernel), native.kernel(kernel)
    assert first != second
    for made in (first, second):
        native.release_kernel(made)


def test_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    load_native.cache_clear()
    try:
        monkeypatch.setenv(NATIVE_VARIABLE, "sycl")
        assert load_native() is None
        load_native.cache_clear()
        monkeypatch.setenv(NATIVE_VARIABLE, "0")  # value of earlier releases
        with pytest.warns(DeprecationWarning, match="means SYCLSCHED_NATIVE=sycl"):
            assert load_native() is None
    finally:
        load_native.cache_clear()


def test_runtimes_without_native_handles_use_sycl(monkeypatch: pytest.MonkeyPatch, queues: list[Any]) -> None:
    load_native.cache_clear()
    monkeypatch.setattr(opencl, "QUEUE_NATIVE", "no_such_function")
    library = load_library()
    try:
        assert load_native() is None
        loop = SubmissionLoop(library, {0: queues[0]}, 10)
        loop.use_native_queues()
        loop.wait(loop.submit([loop.fence(0, 0, [])]))
        assert loop.is_complete(0)
        loop.close()
    finally:
        load_native.cache_clear()
