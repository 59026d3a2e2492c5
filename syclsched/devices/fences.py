# SPDX-License-Identifier: Apache-2.0
"""Order without work: an event that completes once others have.

Two things that should do are not to be trusted on the OpenCL CPU runtime and the FPGA emulator of oneAPI 2024.2, where
both let work run before what it waits for (seen in up to two of three tries):

- a kernel with an event list on an *in-order* queue, if the events are of another queue of the same context;
- ``submit_barrier`` with an event list: its event completes at once, and what is submitted after it is not held back.

Kernels and copies with event lists on *out-of-order* queues were right every time. So lanes are chained by events on
out-of-order queues, and a copy of one byte stands for a barrier.
"""

from __future__ import annotations

import threading
from typing import Any

_lock = threading.Lock()
# One scratch allocation per context and device, kept for good: whoever drops a fence need not think of it.
_scratch: dict[tuple[Any, Any], tuple[Any, Any]] = {}


def chained_queue(queue: Any) -> Any:
    """Return a new out-of-order queue with profiling, of the same context and device.

    Parameters
    ----------
    queue : dpctl.SyclQueue
        Any queue.

    Returns
    -------
    dpctl.SyclQueue
        Whoever submits to it must name in the event list everything that comes before.
    """
    import dpctl

    return dpctl.SyclQueue(queue.sycl_context, queue.sycl_device, property=["enable_profiling"])


def submit_fence(queue: Any, depends: list[Any]) -> Any:
    """Submit something that does nothing, after other things.

    Parameters
    ----------
    queue : dpctl.SyclQueue
        Where.
    depends : list of dpctl.SyclEvent
        What must have finished first.

    Returns
    -------
    dpctl.SyclEvent
        Completes once they have.
    """
    source, destination = _scratch_for(queue)
    return queue.memcpy_async(destination, source, 1, depends)


def _scratch_for(queue: Any) -> tuple[Any, Any]:
    from dpctl import memory

    key = (queue.sycl_context, queue.sycl_device)
    with _lock:
        if key not in _scratch:
            _scratch[key] = tuple(memory.MemoryUSMDevice(64, queue=queue) for _ in range(2))
        return _scratch[key]
