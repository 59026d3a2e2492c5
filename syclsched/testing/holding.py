# SPDX-License-Identifier: Apache-2.0
"""Queues that are held back: for a time, one submission after another, or until somebody lets go of them."""

from __future__ import annotations

import heapq
import threading
import time
from itertools import count
from typing import Any

from syclsched.devices.gate import Gate
from syclsched.errors import ExecutionError


class Holding:
    """Gates in queues, and a thread that opens them when their time has come."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._timed: list[tuple[float, int, Gate]] = []
        self._untimed: list[Gate] = []
        self._last: dict[str, float] = {}
        self._order = count()
        self._thread: threading.Thread | None = None
        self._released = threading.Event()
        self._closed = False

    def hold(self, device: str, queue: Any, for_s: float | None) -> None:
        """Let nothing that is submitted to a queue from now on begin before some time has passed.

        Parameters
        ----------
        device : str
            Whose queue it is: the time begins when all that is held back on the device is free.
        queue : dpctl.SyclQueue
            In order. Where it cannot be held back, the submitting thread is.
        for_s : float or None
            Seconds; None for until `release`.
        """
        with self._changed:
            if self._closed or (for_s is None and self._released.is_set()):
                return
            try:
                gate = Gate(queue)
            except ExecutionError:
                gate = None
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
        """Let go of all that hangs."""
        self._released.set()
        with self._changed:
            gates, self._untimed = self._untimed, []
            gates += [gate for _, _, gate in self._timed]
            self._timed.clear()
        for gate in gates:
            gate.open()

    def close(self) -> None:
        """Let go of everything, and hold nothing back any more."""
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
            gate.open()
