# SPDX-License-Identifier: Apache-2.0
"""Queues for copies beside a run: one for each context and device, apart from those of the lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from syclsched.devices.native.fences import lane_queue
from syclsched.devices.submission import faultpoints

if TYPE_CHECKING:
    from syclsched.devices.native.sycl_types import SyclQueue

#: Memory that a device which hangs may still read or write: it is never freed.
given_up: Final[list[Any]] = []


class CopyQueues:
    """The queues of one maker of copies, made when they are first used."""

    def __init__(self) -> None:
        self._queues: dict[Any, SyclQueue] = {}

    def queue_for(self, queue: SyclQueue) -> SyclQueue:
        """Return the queue of the same context and device as another one."""
        key = queue.sycl_context, queue.sycl_device
        if key not in self._queues:
            self._queues[key] = lane_queue(queue)
        if faultpoints.active is not None:
            faultpoints.active.uses(self._queues[key])
        return self._queues[key]
