# SPDX-License-Identifier: Apache-2.0
"""State of a part: the progress of a run; of one that has ended, its executed tasks and the values in its memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from syclsched.errors import ExecutionError
from syclsched.execution.core.program import MEMORY_KINDS
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.execution.recovery.engine_state import engine_state
from syclsched.execution.recovery.surviving_values import UnreachableValueError, read_version
from syclsched.model.access import RowRange
from syclsched.model.plan import Plan

if TYPE_CHECKING:
    from syclsched.execution import Run


@dataclass(frozen=True, slots=True)
class HeldValue:
    """A value in the memory of a part: of an array or some of its rows, as a task of the part has left it."""

    array: str
    rows: RowRange | None
    writer: str | None  # None: the value with which the run began


@dataclass(frozen=True, slots=True)
class PartReport:
    """Measured times of one run of a part."""

    seconds: float
    replayed: bool


@dataclass(frozen=True, slots=True)
class PartState:
    """Executed tasks of a part whose run has ended, and the values that it holds."""

    done: tuple[str, ...]  # those that send and receive included
    held: tuple[HeldValue, ...]
    report: PartReport


@dataclass(frozen=True, slots=True)
class LaneWork:
    """Work of a lane of a part in progress."""

    done_s: float  # predicted seconds of its completed instructions
    current_s: float  # of the one that it is at; 0 if it is at none, or sends or receives
    runs: bool  # whether that one is being executed


@dataclass(frozen=True, slots=True)
class PartProgress:
    """Progress of a part in a run: its lanes, and if asked for the tasks that it has completed."""

    lanes: tuple[LaneWork, ...]
    done: tuple[str, ...] = ()


class PartLanes:
    """The lanes of a part's plan, whose instructions complete in order."""

    def __init__(self, plan: Plan) -> None:
        work = {lane.name: [i for i in lane.instructions if i.kind not in MEMORY_KINDS] for lane in plan.lanes}
        self._tasks = {lane: [i.task for i in found] for lane, found in work.items()}
        self._ends_s = {lane: [*accumulate((i.duration_s for i in found), initial=0.0)] for lane, found in work.items()}

    def progress(self, run: Run, *, tasks: bool) -> PartProgress:
        """Return the progress of a run of the plan."""
        at = {each.lane: each for each in run.engine.positions()}
        lanes, done = [], dict[str, None]()
        for lane, ends_s in self._ends_s.items():
            current = at.get(lane)
            place = len(ends_s) - 1 if current is None else current.place - 1
            is_work = current is not None and current.predicted_s > 0.0
            current_s = current.predicted_s if current is not None and is_work else 0.0
            lanes.append(LaneWork(ends_s[place], current_s, is_work and current is not None and current.runs))
            if tasks:
                done.update((task, None) for task in self._tasks[lane][:place] if task is not None)
        return PartProgress(tuple(lanes), tuple(done))


@dataclass(frozen=True, slots=True)
class KeptValue:
    """A value of an earlier attempt in the memory of the same machine, with which a part begins."""

    array: str  # of the part that begins
    key: str  # of the part that has it
    run: str
    held: HeldValue


class EndedPart:
    """The memory of a part after a run of it."""

    def __init__(self, run: Run) -> None:
        engine = run.engine
        if not engine.finished.is_set():  # it was given up, and its memory may still change
            raise ExecutionError("the run has not ended", where=f"plan {engine.program.plan.name!r}")
        self._buffers, self._plan = engine.buffers, engine.program.plan
        state = engine_state(engine, self._plan)
        self._versions, self.done = state.versions, state.done
        self._contents = {buffer: v for buffer, v in state.contents.items() if self._buffers.get(buffer) is not None}
        self._rows = {a.name: (a.rows.start, a.rows.stop) for a in self._plan.arrays if a.rows is not None}
        cut = {a.rows.array: None for a in self._plan.arrays if a.rows is not None}
        self._pieces: dict[str, list[str]] = {a.name: [] for a in self._plan.arrays if a.rows is None}
        for array in self._plan.arrays:
            if array.name not in cut:
                self._pieces[array.name if array.rows is None else array.rows.array].append(array.name)

    def held(self) -> tuple[HeldValue, ...]:
        """Return the values that the memory holds completely."""
        found: dict[HeldValue, None] = {}
        whole = {piece: array for array, pieces in self._pieces.items() for piece in pieces}
        for (name, _), version in self._contents.items():
            if name in whole:
                writer = self._versions.writer(name, version) if name in self._versions.writers else None
                found[HeldValue(whole[name], self._rows.get(name), writer)] = None
        return tuple(found)

    def last(self, array: str, rows: RowRange | None) -> NumpyArray:
        """Return the last value of an array, or of some of its rows, that the memory holds."""
        piece = self._piece(array, rows)
        versions = [version for (name, _), version in self._contents.items() if name == piece]
        if not versions:
            raise ExecutionError("the part does not have its value", where=f"array {array!r}")
        return self._read(piece, max(versions), rows)

    def value(self, held: HeldValue) -> NumpyArray:
        """Return a value that the memory holds."""
        piece = self._piece(held.array, held.rows)
        writers = self._versions.writers.get(piece, (None,))
        return self._read(piece, writers.index(held.writer), held.rows)

    def _piece(self, array: str, rows: RowRange | None) -> str:
        """Return the array, or the segment of it, that contains some rows."""
        for piece in self._pieces[array]:
            start, stop = self._rows.get(piece, (0, 0))
            if piece == array or (rows is not None and start <= rows[0] and rows[1] <= stop):
                return piece
        raise ExecutionError(f"the part does not have rows {rows} of it", where=f"array {array!r}")

    def _read(self, piece: str, version: int, rows: RowRange | None) -> NumpyArray:
        try:
            found = read_version(piece, version, self._contents, self._buffers)
        except UnreachableValueError as error:
            raise ExecutionError("its memory cannot be read any more", where=f"array {piece!r}") from error
        first = self._rows.get(piece, (0, 0))[0]
        return found if rows is None else found[rows[0] - first : rows[1] - first]
