# SPDX-License-Identifier: Apache-2.0
"""Blocked queues: submissions held for a time or until they are released, for hang and slow-down faults."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count

from syclsched.devices.backends.registry import backend_of
from syclsched.devices.native.sycl_types import SyclQueue


class QueueGates:
    """Gates that block queues, each the function that opens it, and a thread that opens them when they are due."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._timed: list[tuple[float, int, Callable[[], None]]] = []
        self._untimed: list[Callable[[], None]] = []
        self._last: dict[str, float] = {}
        self._order = count()
        self._thread: threading.Thread | None = None
        self._released = threading.Event()
        self._closed = False

    def block(self, device: str, queue: SyclQueue, for_s: float | None) -> None:
        """Keep later submissions to an in-order queue from starting for some seconds, or until `release` if None.

        The time starts when earlier timed gates of the device have opened. If the queue cannot be gated, the calling
        thread sleeps instead.
        """
        with self._changed:
            if self._closed or (for_s is None and self._released.is_set()):
                return
            gate = backend_of(queue).hold(queue)
            if gate is not None and for_s is None:
                self._untimed.append(gate)
                return
            if gate is not None and for_s is not None:
                due_s = max(time.monotonic(), self._last.get(device, 0.0)) + for_s
                self._last[device] = due_s
                heapq.heappush(self._timed, (due_s, next(self._order), gate))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="syclsched faults", daemon=True)
                    self._thread.start()
                self._changed.notify()
                return
        self._released.wait(for_s)

    def release(self) -> None:
        """Open all gates."""
        self._released.set()
        with self._changed:
            gates, self._untimed = self._untimed, []
            gates += [gate for _, _, gate in self._timed]
            self._timed.clear()
        for gate in gates:
            gate()

    def close(self) -> None:
        """Open all gates, hold nothing any more, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self.release()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                if not self._timed or (left_s := self._timed[0][0] - time.monotonic()) > 0:
                    self._changed.wait(left_s if self._timed else None)
                    continue
                gate = heapq.heappop(self._timed)[2]
            gate()
