# SPDX-License-Identifier: Apache-2.0
"""Progress of a run's lanes and their pending waits, for time-outs, the watchdog and deadlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from syclsched.execution.core.program import MEMORY_KINDS, Program
from syclsched.model.plan import Instruction, LaneKind

_MOST_LANES = 4
#: Kinds of the instructions that execute a task.
TASK_KINDS = ("launch", "host")


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """Progress of one lane: its current instruction."""

    lane: str
    device: str
    number: int  # instruction number in the engine
    name: str  # of the instruction, as in ``task 'gemm'``
    task: str | None  # name of its task
    #: Position of the instruction on its lane, from 1, and the lane's number of instructions.
    place: int
    of: int
    waits_for: str | None  # ``task 'load' on host:0``; None if no incomplete predecessor is known
    begun: bool  # whether it was submitted to the device's queue or the host's thread
    predicted_s: float  # predicted duration

    @property
    def runs(self) -> bool:
        """Whether the instruction is running: submitted, and with no known incomplete predecessor."""
        return self.begun and self.waits_for is None

    def __str__(self) -> str:
        text = f"lane {self.lane} is at {self.name} ({self.place} of {self.of})"
        return text if self.waits_for is None else f"{text}, which waits for {self.waits_for}"


@dataclass(frozen=True, slots=True)
class LaneCount:
    """Number of tasks that one lane has completed."""

    lane: str
    device: str
    kind: LaneKind
    done: int
    tasks: int | None  # number of all its tasks; None if that is not known beforehand


class ProgressTracker:
    """Tracks the lanes of a program, which complete in order, with few completion queries."""

    def __init__(self, program: Program, is_complete: Callable[[int], bool], passed: Callable[[int], bool]) -> None:
        self._program = program
        self._is_complete = is_complete
        self._passed = passed
        self._work: list[list[Instruction]] = [
            [i for i in lane.instructions if i.kind not in MEMORY_KINDS] for lane in program.plan.lanes
        ]
        self._lane_of = {i.id: lane.name for lane in program.plan.lanes for i in lane.instructions}
        self._at = [0] * len(self._work)
        #: By lane and position, the number of tasks before it; made on first use.
        self._tasks_before: list[list[int]] | None = None

    def now(self) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes."""
        found = []
        for index, (lane, work) in enumerate(zip(self._program.plan.lanes, self._work, strict=True)):
            at = self._at[index] = self._first_incomplete(work, self._at[index])
            if at == len(work):
                continue
            instruction = work[at]
            node = self._program.nodes[instruction.id]
            pending = [n for n in sorted({*node.events, *node.completed_first}) if not self._is_complete(n)]
            waits_for = None
            if pending:
                waits_for = f"{_name(self._program.nodes[pending[0]].instruction)} on {self._lane_of[pending[0]]}"
            found.append(
                LaneProgress(
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

    def counts(self) -> list[LaneCount]:
        """Return the number of completed tasks of each lane."""
        if self._tasks_before is None:
            self._tasks_before = [
                list(accumulate((i.kind in TASK_KINDS for i in work), initial=0)) for work in self._work
            ]
        found = []
        for index, (lane, before) in enumerate(zip(self._program.plan.lanes, self._tasks_before, strict=True)):
            at = self._at[index] = self._first_incomplete(self._work[index], self._at[index])
            if self._work[index]:
                found.append(LaneCount(lane.name, lane.device, lane.kind, before[at], before[-1]))
        return found

    def _first_incomplete(self, work: Sequence[Instruction], at: int) -> int:
        """Return the index of the first incomplete instruction, by exponential and then binary search."""
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


def _describe_progress(positions: Iterable[LaneProgress]) -> str:
    """Describe in words the current instruction of each unfinished lane and the instruction it waits for."""
    found = [str(position) for position in positions]
    more = [f"{len(found) - _MOST_LANES} more lanes are not done"] if len(found) > _MOST_LANES else []
    return "; ".join(found[:_MOST_LANES] + more) or "everything is done but the end"


def _name(instruction: Instruction) -> str:
    if instruction.kind == "copy":
        return f"a copy of {instruction.uses[0].array!r}"
    return f"task {instruction.task!r}" if instruction.task is not None else instruction.kind


class ProgressReporting(ABC):
    """Base class of engines that report the progress of their lanes."""

    program: Program

    @abstractmethod
    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted or was cancelled."""

    @abstractmethod
    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed, was cancelled, or was empty; callable on any thread."""

    def what_is_left(self) -> str:
        """Describe in words the current instruction of each unfinished lane."""
        return _describe_progress(self.positions())

    def positions(self) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes; callable on any thread."""
        return self._positions.now()

    def lane_counts(self) -> list[LaneCount]:
        """Return the number of completed tasks of each lane; callable on any thread."""
        return self._positions.counts()

    @cached_property
    def _positions(self) -> ProgressTracker:
        return ProgressTracker(self.program, self.is_complete, self.passed)
