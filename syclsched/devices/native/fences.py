# SPDX-License-Identifier: Apache-2.0
"""Fences: reliable dependencies between queues, made with copies of one byte.

The OpenCL CPU runtime and the FPGA emulator of oneAPI 2024.2 violate two kinds of dependencies, and start work before
its predecessors have completed (in most of several hundred tries):

- a kernel with an event list on an *in-order* queue, if the events are of another queue of the same context;
- ``submit_barrier`` with an event list: its event completes at once, and later submissions do not wait.

A *copy* with an event list does wait, and later submissions to its in-order queue wait for the copy: correct in every
one of thousands of tries. So a copy of one byte, the *fence*, replaces a barrier, and a kernel that depends on other
queues is submitted behind one. Out-of-order queues chained by events are correct, too; in-order queues are faster, by a
third for a chain of half-millisecond kernels on the CPU device.
"""

from __future__ import annotations

import threading
from typing import Any

from syclsched.devices.native.sycl_types import SyclContext, SyclDevice, SyclEvent, SyclQueue

_lock = threading.Lock()
# One scratch allocation per context and device, never freed: a fence may still use it when its owner is gone.
_scratch: dict[tuple[SyclContext, SyclDevice], tuple[Any, Any]] = {}


def lane_queue(queue: SyclQueue) -> SyclQueue:
    """Return a new in-order queue with profiling, of the same context and device."""
    import dpctl

    made: SyclQueue = dpctl.SyclQueue(queue.sycl_context, queue.sycl_device, property=["in_order", "enable_profiling"])
    return made


def submit_fence(queue: SyclQueue, depends: list[SyclEvent]) -> SyclEvent:
    """Submit an empty operation that waits for events; return its event."""
    destination, source = scratch_for(queue)
    return queue.memcpy_async(destination, source, 1, depends)


def scratch_for(queue: SyclQueue) -> tuple[Any, Any]:
    """Return the memory a fence copies: destination and source, of the queue's context and device."""
    from dpctl import memory

    key = (queue.sycl_context, queue.sycl_device)
    with _lock:
        if key not in _scratch:
            _scratch[key] = tuple(memory.MemoryUSMDevice(64, queue=queue) for _ in range(2))
        return _scratch[key]
