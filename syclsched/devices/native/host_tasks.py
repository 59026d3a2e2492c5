# SPDX-License-Identifier: Apache-2.0
"""Waiting for commands that may be queued behind host tasks which need the GIL.

dpctl and dpnp keep kernel arguments alive with a host task that needs the GIL when it ends. Waiting in SYCL (2024.2)
for a command behind such a host task can deadlock: the waiter holds SYCL's graph lock, a second thread that submits
holds the GIL and wants that lock exclusively, and the host task waits for the GIL. Therefore, once a library that only
Python can call has been called, events are polled until they run, and only then waited for in SYCL.

This holds for the rest of the process, as queues and events outlive their makers. Earlier submissions are behind no
such host task.
"""

from __future__ import annotations

import time
from contextlib import suppress

from syclsched.backoff import backoff
from syclsched.devices.native.fences import submit_fence
from syclsched.devices.native.submission_library import load_library
from syclsched.devices.native.sycl_types import SyclQueue, Waitable

#: Shortest and longest time between two polls; it grows with the time waited.
_NAPS_S = 20e-6, 1e-3

_expected = False


def expect_host_tasks() -> None:
    """Enable polling, before the call of a library that may submit host tasks which need the GIL."""
    global _expected
    if _expected:
        return
    load_library().poll_events_first()
    _expected = True


def wait_for(event: Waitable) -> None:
    """Wait for an event of a lane; lets other threads run."""
    if _expected:
        _poll_until_running(event)
    event.wait()


def wait_for_queue(queue: SyclQueue) -> None:
    """Wait for all work of a lane's queue; lets other threads run."""
    if _expected:
        with suppress(Exception):  # a queue that refuses submissions has no work to come
            wait_for(submit_fence(queue, []))
    queue.wait()


def _poll_until_running(event: Waitable) -> None:
    """Poll a SYCL event until its command runs, has completed or failed; return at once for other events."""
    from dpctl import SyclEvent, event_status_type

    if not isinstance(event, SyclEvent):
        return
    begun_s, waiting = time.monotonic(), event_status_type.submitted
    while event.execution_status == waiting:
        time.sleep(backoff(time.monotonic() - begun_s, *_NAPS_S))
