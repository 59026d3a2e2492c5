# SPDX-License-Identifier: Apache-2.0
"""Where the lanes of a run are, and what they wait for: for timeouts, the watchdog, and deadlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from syclsched.execution.program import MEMORY_KINDS, Program
from syclsched.model.plan import Instruction

_MOST_LANES = 4


@dataclass(frozen=True, slots=True)
class Position:
    """What a lane is at."""

    #: Which lane.
    lane: str
    device: str
    number: int  # the engine's number of what it is at
    name: str  # ``task 'gemm'``
    task: str | None  # the task's name
    #: The how-many-th of the lane's it is, and how many there are.
    place: int
    of: int
    waits_for: str | None  # ``task 'load' on host:0``; None if nothing that is known holds it up
    begun: bool  # whether it was handed on: to the device's queue or the host's thread
    predicted_s: float  # how long it was to take

    @property
    def runs(self) -> bool:
        """Whether it is running, as far as can be told."""
        return self.begun and self.waits_for is None

    def __str__(self) -> str:
        text = f"lane {self.lane} is at {self.name} ({self.place} of {self.of})"
        return text if self.waits_for is None else f"{text}, which waits for {self.waits_for}"


class Positions:
    """Follows the lanes of a program, which complete in order, with few looks at each."""

    def __init__(self, program: Program, is_complete: Callable[[int], bool], passed: Callable[[int], bool]) -> None:
        self._program = program
        self._is_complete = is_complete
        self._passed = passed
        self._work: list[list[Instruction]] = [
            [i for i in lane.instructions if i.kind not in MEMORY_KINDS] for lane in program.plan.lanes
        ]
        self._lane_of = {i.id: lane.name for lane in program.plan.lanes for i in lane.instructions}
        self._at = [0] * len(self._work)

    def now(self) -> list[Position]:
        """Return the positions of the lanes that are not done."""
        found = []
        for index, (lane, work) in enumerate(zip(self._program.plan.lanes, self._work, strict=True)):
            at = self._at[index] = self._first_incomplete(work, self._at[index])
            if at == len(work):
                continue
            instruction = work[at]
            node = self._program.nodes[instruction.id]
            behind = [n for n in sorted({*node.events, *node.completed_first}) if not self._is_complete(n)]
            waits_for = None
            if behind:
                waits_for = f"{_name(self._program.nodes[behind[0]].instruction)} on {self._lane_of[behind[0]]}"
            found.append(
                Position(
                    lane.name,
                    lane.device,
                    instruction.id,
                    _name(instruction),
                    instruction.task,
                    at + 1,
                    len(work),
                    waits_for,
                    node.on_host or self._passed(instruction.id),
                    instruction.duration_s,
                )
            )
        return found

    def _first_incomplete(self, work: Sequence[Instruction], at: int) -> int:
        """Return the first position that is not complete, by steps that double and are then halved."""
        if at == len(work) or not self._is_complete(work[at].id):
            return at
        done, step = at, 1
        while done + step < len(work) and self._is_complete(work[done + step].id):
            done += step
            step *= 2
        above = min(done + step, len(work))
        while above - done > 1:
            middle = (done + above) // 2
            if self._is_complete(work[middle].id):
                done = middle
            else:
                above = middle
        return above


def what_is_left(positions: Iterable[Position]) -> str:
    """Return for every lane what is done on it, or is to be done next, and what that waits for."""
    found = [str(position) for position in positions]
    more = [f"{len(found) - _MOST_LANES} more lanes are not done"] if len(found) > _MOST_LANES else []
    return "; ".join(found[:_MOST_LANES] + more) or "everything is done but the end"


def _name(instruction: Instruction) -> str:
    if instruction.kind == "copy":
        return f"a copy of {instruction.uses[0].array!r}"
    return f"task {instruction.task!r}" if instruction.task is not None else instruction.kind


class Followed(ABC):
    """An engine of a program that says where its lanes are."""

    program: Program

    @abstractmethod
    def passed(self, number: int) -> bool:
        """Return whether an instruction has been handed on or was cancelled."""

    @abstractmethod
    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed, was cancelled, or had nothing to do; on any thread."""

    def what_is_left(self) -> str:
        """Return what lanes are at, and what that waits for, in words."""
        return what_is_left(self.positions())

    def positions(self) -> list[Position]:
        """Return what the lanes that are not done are at; on any thread."""
        return self._positions.now()

    @cached_property
    def _positions(self) -> Positions:
        return Positions(self.program, self.is_complete, self.passed)
