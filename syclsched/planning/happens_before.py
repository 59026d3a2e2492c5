# SPDX-License-Identifier: Apache-2.0
"""Happens-before over a finished plan, as vector clocks, independent of how the plan was made."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from syclsched.errors import IncompletePlanError
from syclsched.model.plan import Instruction, Plan

#: Instructions whose waiting does not hold up their lane.
UNHELD = ("alloc", "free")


@dataclass(frozen=True, slots=True)
class Placed:
    """An instruction with its place: lane index and position in the lane."""

    instruction: Instruction
    lane: int
    position: int


class HappensBefore:
    """Which instructions have finished before which start, in every execution the plan allows.

    Parameters
    ----------
    plan : Plan
        The plan.

    Raises
    ------
    IncompletePlanError
        If an instruction number is used twice, a wait names no instruction or one of the same lane that
        comes later, or lanes wait for each other in a circle.
    """

    def __init__(self, plan: Plan) -> None:
        self._placed: dict[int, Placed] = {}
        for lane_index, lane in enumerate(plan.lanes):
            for position, instruction in enumerate(lane.instructions):
                if instruction.id in self._placed:
                    raise IncompletePlanError(
                        f"two instructions have the number {instruction.id}", where=f"lane {lane.name!r}"
                    )
                self._placed[instruction.id] = Placed(instruction, lane_index, position)
        self._lane_count = len(plan.lanes)
        self._lane_names = [lane.name for lane in plan.lanes]
        self._lanes = [lane.instructions for lane in plan.lanes]
        # Per instruction: how many instructions of each lane are done before it starts / once it is done.
        self._start_clock: dict[int, list[int]] = {}
        self._done_clock: dict[int, list[int]] = {}
        self.order: list[Placed] = []
        self._walk()

    def __getitem__(self, number: int) -> Placed:
        return self._placed[number]

    def ordered(self, before: int, after: int) -> bool:
        """Return whether instruction ``before`` has always finished when ``after`` starts.

        Parameters
        ----------
        before, after : int
            Instruction numbers.

        Returns
        -------
        bool
            True if lane order and waits imply it.
        """
        placed = self._placed[before]
        return self._start_clock[after][placed.lane] > placed.position

    def _walk(self) -> None:
        """Go through the lanes as far as waits allow, merging clocks; a plan that stops half-way deadlocks.

        Among instructions that could be next the lowest number goes first. In a plan that lacks a wait, the two
        that race are then met in their intended order, and the error names both.
        """
        pointer = [0] * self._lane_count
        lane_clock = [[0] * self._lane_count for _ in range(self._lane_count)]
        blocked_on: dict[int, list[int]] = {}
        ready: list[tuple[int, int]] = []

        def offer(lane: int) -> None:
            if pointer[lane] >= len(self._lanes[lane]):
                return
            head = self._lanes[lane][pointer[lane]]
            missing = next((w for w in head.waits if w not in self._done_clock), None)
            if missing is None:
                heapq.heappush(ready, (head.id, lane))
            elif missing in self._placed:
                blocked_on.setdefault(missing, []).append(lane)
            else:
                raise IncompletePlanError(
                    f"instruction {head.id} waits for {missing}, which does not exist",
                    where=f"lane {self._lane_names[lane]!r}",
                )

        for lane in range(self._lane_count):
            offer(lane)
        while ready:
            number, lane = heapq.heappop(ready)
            self._advance(lane, pointer[lane], self._placed[number].instruction, lane_clock)
            pointer[lane] += 1
            for waiting in (lane, *blocked_on.pop(number, ())):
                offer(waiting)
        for lane, position in enumerate(pointer):
            if position < len(self._lanes[lane]):
                stuck = self._lanes[lane][position]
                raise IncompletePlanError(
                    f"instruction {stuck.id} ({stuck.kind} for task {stuck.task!r}) waits in a circle",
                    where=f"lane {self._lane_names[lane]!r}",
                    hint="The plan would deadlock; plan again",
                )

    def _advance(self, lane: int, position: int, instruction: Instruction, lane_clock: list[list[int]]) -> None:
        clock = list(lane_clock[lane])
        for wait in instruction.waits:
            clock = [max(a, b) for a, b in zip(clock, self._done_clock[wait], strict=True)]
        self._start_clock[instruction.id] = clock
        if instruction.kind in UNHELD:
            # It may take effect at any time after what it waits for: nothing later relies on that.
            lane_clock[lane][lane] = position + 1
            self._done_clock[instruction.id] = [*clock[:lane], position + 1, *clock[lane + 1 :]]
        else:
            done = [*clock[:lane], position + 1, *clock[lane + 1 :]]
            lane_clock[lane] = done
            self._done_clock[instruction.id] = done
        self.order.append(Placed(instruction, lane, position))
