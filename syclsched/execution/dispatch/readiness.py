# SPDX-License-Identifier: Apache-2.0
"""Readiness tracking: a state machine that selects the next instruction to submit. Pure.

It uses no threads and no queues, so that every order of events can be tested; the dispatcher acts on its decisions.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

from syclsched.execution.core.program import ProgramNode

#: Instructions queued ahead on a host lane: its thread continues with the next one without a wake-up.
HOST_AHEAD = 8


class Readiness:
    """Advances through all lanes concurrently.

    A device instruction is ready once its predecessors have been submitted: events enforce the rest. Predecessors on
    the host or in another SYCL context must have completed. A host lane has up to ``host_ahead`` instructions
    queued, which its thread executes in order.
    """

    def __init__(
        self, lanes: Sequence[Sequence[ProgramNode]], done: Collection[int] = (), host_ahead: int = HOST_AHEAD
    ) -> None:
        self._host_ahead = host_ahead
        #: Without the instructions that were done before the run, such as allocations.
        self._lanes = [[node for node in lane if node.id not in done] for lane in lanes] if done else lanes
        lanes = self._lanes
        self._next = [0] * len(lanes)
        self._left = sum(len(lane) for lane in lanes)
        self._submitted: set[int] = set(done)
        self._completed: set[int] = set()
        self._blocked: dict[int, list[int]] = {}
        self._ready: list[tuple[int, int]] = []
        self._parked: list[tuple[int, int]] = []
        self._running: set[int] = set()
        self._ahead = [0] * len(lanes)
        for lane in range(len(lanes)):
            self._offer(lane)

    @property
    def finished(self) -> bool:
        """Whether every instruction has been submitted and every host instruction has completed."""
        return self._left == 0 and not self._running

    @property
    def running(self) -> int:
        """Number of host instructions in flight."""
        return len(self._running)

    @property
    def parked(self) -> int:
        """Number of parked instructions."""
        return len(self._parked)

    def take(self) -> ProgramNode | None:
        """Return the ready instruction with the lowest number; None if none is ready."""
        if not self._ready:
            return None
        _, lane = heapq.heappop(self._ready)
        return self._lanes[lane][self._next[lane]]

    def park(self, node: ProgramNode) -> None:
        """Defer a taken instruction until `unpark`; its lane waits."""
        heapq.heappush(self._parked, (node.id, node.lane))

    def unpark(self) -> None:
        """Make all parked instructions ready again."""
        for entry in self._parked:
            heapq.heappush(self._ready, entry)
        self._parked.clear()

    def take_parked(self) -> ProgramNode | None:
        """Remove and return the parked instruction with the lowest number; None if there is none."""
        if not self._parked:
            return None
        _, lane = heapq.heappop(self._parked)
        return self._lanes[lane][self._next[lane]]

    def submitted(self, node: ProgramNode) -> None:
        """Note that a taken instruction has been submitted."""
        if node.on_host:
            self._running.add(node.id)
            self._ahead[node.lane] += 1
            self._advance(node)
            return
        number = node.id
        self._submitted.add(number)
        self._advance(node)
        if number in self._blocked:
            self._wake(number)

    def completed(self, node: ProgramNode) -> None:
        """Note that an instruction has completed, failed, or been cancelled before it started."""
        self._completed.add(node.id)
        if node.on_host:
            self._running.discard(node.id)
            full = self._ahead[node.lane] == self._host_ahead
            self._ahead[node.lane] -= 1
            if full:
                self._offer(node.lane)
        self._wake(node.id)

    def _advance(self, node: ProgramNode) -> None:
        self._next[node.lane] += 1
        self._left -= 1
        self._offer(node.lane)

    def _wake(self, number: int) -> None:
        for lane in self._blocked.pop(number, ()):
            self._offer(lane)

    def _offer(self, lane: int) -> None:
        """Make a lane's next instruction ready, or register it with its first missing predecessor."""
        if self._next[lane] == len(self._lanes[lane]) or self._ahead[lane] == self._host_ahead:
            return
        node = self._lanes[lane][self._next[lane]]
        for number in node.submitted_first:
            if number not in self._submitted:
                self._blocked.setdefault(number, []).append(lane)
                return
        for number in node.completed_first:
            if number not in self._completed:
                self._blocked.setdefault(number, []).append(lane)
                return
        heapq.heappush(self._ready, (node.id, lane))
