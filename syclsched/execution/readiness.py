# SPDX-License-Identifier: Apache-2.0
"""Which instruction may be handed on next: a pure state machine, told what was submitted and what completed.

It starts no thread and knows no queue, so that every order of events can be tested; the dispatcher does what
it says.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from syclsched.execution.program import Node

#: So many instructions a host lane is given ahead: its thread goes from one to the next without being told to.
HOST_AHEAD = 8


class Readiness:
    """Walks all lanes at once; each goes on as soon as its next instruction may be handed on.

    A device instruction may go when what it waits for has been submitted: the event list does the rest. What
    waits for a host instruction, or for one of another context, may go when that has completed. A host lane has a few
    instructions on their way, which its thread does in order.
    """

    def __init__(self, lanes: Sequence[Sequence[Node]]) -> None:
        self._lanes = lanes
        self._next = [0] * len(lanes)
        self._left = sum(len(lane) for lane in lanes)
        self._submitted: set[int] = set()
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
        """Whether every instruction has been handed on and every host instruction has completed."""
        return self._left == 0 and not self._running

    @property
    def running(self) -> int:
        """How many host instructions are on their way."""
        return len(self._running)

    @property
    def parked(self) -> int:
        """How many instructions were put aside."""
        return len(self._parked)

    def take(self) -> Node | None:
        """Return the instruction to hand on, the lowest number first; None if there is none at present."""
        if not self._ready:
            return None
        _, lane = heapq.heappop(self._ready)
        return self._lanes[lane][self._next[lane]]

    def park(self, node: Node) -> None:
        """Put an instruction that was taken aside until `unpark`; its lane waits."""
        heapq.heappush(self._parked, (node.id, node.lane))

    def unpark(self) -> None:
        """Offer what was put aside again."""
        for entry in self._parked:
            heapq.heappush(self._ready, entry)
        self._parked.clear()

    def take_parked(self) -> Node | None:
        """Return the lowest instruction that was put aside, no longer so; None if there is none."""
        if not self._parked:
            return None
        _, lane = heapq.heappop(self._parked)
        return self._lanes[lane][self._next[lane]]

    def submitted(self, node: Node) -> None:
        """Note that an instruction that was taken has been handed on."""
        if node.on_host:
            self._running.add(node.id)
            self._ahead[node.lane] += 1
            self._advance(node)
            return
        self._submitted.add(node.id)
        self._advance(node)
        self._wake(node)

    def completed(self, node: Node) -> None:
        """Note that an instruction has completed, failed, or been cancelled before it started."""
        self._completed.add(node.id)
        if node.on_host:
            self._running.discard(node.id)
            full = self._ahead[node.lane] == HOST_AHEAD
            self._ahead[node.lane] -= 1
            if full:
                self._offer(node.lane)
        self._wake(node)

    def _advance(self, node: Node) -> None:
        self._next[node.lane] += 1
        self._left -= 1
        self._offer(node.lane)

    def _wake(self, node: Node) -> None:
        for lane in self._blocked.pop(node.id, ()):
            self._offer(lane)

    def _offer(self, lane: int) -> None:
        """Make a lane's next instruction ready, or wait for the first thing it lacks."""
        if self._next[lane] == len(self._lanes[lane]) or self._ahead[lane] == HOST_AHEAD:
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
