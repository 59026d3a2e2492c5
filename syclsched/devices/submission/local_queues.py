# SPDX-License-Identifier: Apache-2.0
"""Queues that execute commands on the submitting thread, before the submission returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from syclsched.devices.backends.registry import backend_of
from syclsched.devices.native.sycl_types import SyclQueue


class LocalQueues:
    """Queues of lanes that execute commands on the submitting thread."""

    def __init__(self) -> None:
        self.handles: dict[int, int] = {}
        self.release: dict[int, Callable[[int], object]] = {}

    def close(self) -> None:
        """Release the queues."""
        for lane, handle in self.handles.items():
            self.release[lane](handle)
        self.handles = {}


def open_local_queues(queues: Mapping[int, SyclQueue]) -> LocalQueues | None:
    """Return local queues for lanes, or None if a device has none."""
    found = LocalQueues()
    for lane, queue in queues.items():
        native = backend_of(queue).native()
        handle = None if native is None else native.local_queue(queue)
        if native is None or handle is None:
            found.close()
            return None
        found.handles[lane], found.release[lane] = handle, native.release_queue
    return found
