# SPDX-License-Identifier: Apache-2.0
"""Waits for commands that may stand behind a host task which needs the GIL.

What dpctl's and dpnp's extension modules are given they keep by a host task that needs the GIL to let go of it. SYCL
(2024.2) waits for a command behind one with the lock of its graph held; a thread that submits something with the GIL
held wants that lock for itself alone, and while it waits, the host task cannot end: the three wait for ever. So where
a library has been called that only Python can call, nobody waits in SYCL for what does not run yet: it is looked at.

Once such a library has been called it holds for the whole process, as queues and events outlive those who made them.
Whatever was submitted before stands behind no such host task.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from syclsched.devices.fences import submit_fence
from syclsched.devices.submission_library import load_library
from syclsched.naps import nap_s

#: Between two looks, at least and at most: what takes long is looked at less often.
_NAPS_S = 20e-6, 1e-3

_expected = False


def expect_host_tasks() -> None:
    """Say, before it is called, that a library may submit host tasks that need the GIL."""
    global _expected
    if _expected:
        return
    library = load_library()
    if library is not None:
        library.look_at_events()
    _expected = True


def wait_for(event: Any) -> None:
    """Wait for an event of a lane's; lets other threads run."""
    if _expected:
        _look_at(event)
    event.wait()


def wait_for_queue(queue: Any) -> None:
    """Wait for all that was submitted to a lane's queue; lets other threads run."""
    if _expected:
        with suppress(Exception):  # a queue that takes nothing more has nothing more to come
            wait_for(submit_fence(queue, []))
    queue.wait()


def _look_at(event: Any) -> None:
    """Return once what a SYCL event is of runs, has completed or failed; at once for others."""
    from dpctl import SyclEvent, event_status_type

    if not isinstance(event, SyclEvent):
        return
    begun_s, waiting = time.monotonic(), event_status_type.submitted
    while event.execution_status == waiting:
        time.sleep(nap_s(time.monotonic() - begun_s, *_NAPS_S))
