# SPDX-License-Identifier: Apache-2.0
"""Program and buffers of a dynamic run as its caller sees them; the plan exists only after the run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from syclsched.execution.core.program import Buffer, Program
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.submission.task_outcomes import ANY_SPACE
from syclsched.execution.memory.buffers import AllocatedBuffer, BufferLookup, BufferTable
from syclsched.model.plan import Plan
from syclsched.model.schedule import Schedule
from syclsched.scheduling.tables import NOTHING


class DynamicProgram(Program):
    """The program of a dynamic run: its plan is the executed one, once the run is over.

    Values are identified by their last writer: `final_buffers` gives the task's index in the scheduling problem as
    the instruction number.
    """

    def __init__(self, layout: IndexedGraph, policy: str, where: Callable[[int], int | None]) -> None:
        #: Returns the executed plan, once the run is over.
        self.get_executed_plan: Callable[[], Plan] | None = None
        super().__init__(empty_plan(layout, policy))
        self._finals = _Finals(layout, where)

    @property
    def plan(self) -> Plan:
        """The executed plan, once the run is over; before, an empty plan."""
        return self._empty if self.get_executed_plan is None else self.get_executed_plan()

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._empty = plan

    @property
    def final_buffers(self) -> Mapping[str, tuple[Buffer, int | None]]:  # type: ignore[override]
        """Per kept array or segment: its current buffer, and the index of its last writer."""
        return self._finals


class _Finals(Mapping[str, tuple[Buffer, "int | None"]]):
    def __init__(self, layout: IndexedGraph, where: Callable[[int], int | None]) -> None:
        self._layout = layout
        self._where = where
        self._writer: dict[str, int | None] = {}
        for number, piece in enumerate(layout.pieces):
            writer = layout.last_writer[number]
            if not piece.temporary and (writer != NOTHING or piece.is_input):
                self._writer[piece.name] = None if writer == NOTHING else writer

    def __getitem__(self, name: str) -> tuple[Buffer, int | None]:
        writer = self._writer[name]
        space = self._where(self._layout.piece[name])
        return (name, ANY_SPACE if space is None else self._layout.spaces[space]), writer

    def __iter__(self) -> Iterator[str]:
        return iter(self._writer)

    def __len__(self) -> int:
        return len(self._writer)


def empty_plan(layout: IndexedGraph, policy: str) -> Plan:
    """Return a plan of a graph without any instruction."""
    known = layout.record
    return Plan(
        name=layout.graph.name,
        fingerprint=known.fingerprint,
        policy=policy,
        platform=layout.platform.without_profiles(),
        arrays=known.arrays,
        tasks=known.tasks,
        schedule=Schedule(policy, ()),
        lanes=(),
        memory=layout.memory,
    )


class DynamicBuffers(BufferLookup):
    """The buffers of a run by value: a lookup finds the space that holds it now."""

    def __init__(
        self,
        table: BufferTable,
        layout: IndexedGraph,
        where: Callable[[int], int | None],
        pin: Callable[[tuple[int, int]], None],
        lock: threading.RLock,
    ) -> None:
        self._table = table
        self._layout = layout
        self._where = where
        self._pin = pin
        self._lock = lock

    def get(self, buffer: Buffer) -> AllocatedBuffer | None:
        """Return a buffer, in the current space of a moved piece, and pin it if it belongs to a piece."""
        name, space = buffer
        layout = self._layout
        with self._lock:
            piece = layout.piece.get(name)
            found = layout.space.get(space) if piece is None else self._where(piece)
            if found is None:
                return None
            live = self._table.get((name, layout.spaces[found]))
            if live is not None and piece is not None:
                self._pin((layout.array_of[piece], found))
            return live

    def clear(self) -> None:
        """Free all buffers."""
        with self._lock:
            self._table.clear()
