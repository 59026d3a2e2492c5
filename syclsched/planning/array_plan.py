# SPDX-License-Identifier: Apache-2.0
"""An executable plan as arrays, which can be simulated before its instruction objects exist."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from syclsched.model.access import MODES, AccessMode
from syclsched.model.plan import Counters, Lane, Option, Plan
from syclsched.model.platform import Platform
from syclsched.model.schedule import Schedule
from syclsched.model.tables.instruction_table import INSTRUCTION_KINDS, InstructionTable, Texts, texts_of
from syclsched.model.tables.lazy_objects import lazy_lane
from syclsched.planning.draft import COPY as COPIES
from syclsched.planning.draft import KINDS, Ints, LaneKey, PlanDraft, gather_places, gather_ragged
from syclsched.planning.graph_record import GraphRecord
from syclsched.planning.instruction_rows import FREE as FREES
from syclsched.planning.instruction_rows import WORK, InstructionRows
from syclsched.planning.memory.memory_kinds import choose_kinds
from syclsched.planning.memory.zero_copy import ZeroCopyArrays
from syclsched.simulation.event_engine import run_machine
from syclsched.simulation.instruction_columns import InstructionColumns
from syclsched.simulation.machine import ALLOC, COPY, FREE, Machine
from syclsched.simulation.machine import WORK as COMPUTES
from syclsched.simulation.machine_builder import flatten, machine_of

_WRITE = MODES.index(AccessMode.WRITE)

#: Codes of instruction kinds: by the kinds of steps, then those of allocations and frees.
_CODES = np.array([INSTRUCTION_KINDS.index(kind) for kind in (*KINDS, "alloc", "free")], np.int64)
_ALLOC, _FREE = len(KINDS), len(KINDS) + 1


@dataclass(frozen=True)
class ArrayPlan:
    """An executable plan as arrays."""

    known: GraphRecord
    name: str  # of the graph
    platform: Platform
    schedule: Schedule
    draft: PlanDraft
    rows: InstructionRows  # one per instruction; its index is the instruction's number
    lanes: tuple[LaneKey, ...]  # in use, in the plan's order
    lane: Ints  # of each row: index into ``lanes``
    #: Ragged: the rows each row waits for.
    wait_starts: Ints
    waits: Ints
    peak_bytes: dict[str, int]  # per space
    counters: Counters
    constant_bytes: dict[str, int]  # size of the constants, per space
    in_place: ZeroCopyArrays  # arrays used without a copy

    @cached_property
    def _by_lane(self) -> Ints:
        """The rows sorted by lane, each lane in its own order."""
        return np.argsort(self.lane, kind="stable")

    @cached_property
    def _lane_starts(self) -> Ints:
        return np.searchsorted(self.lane[self._by_lane], np.arange(len(self.lanes) + 1))

    # --- simulation -------------------------------------------------------------------------------

    @cached_property
    def machine(self) -> Machine:
        """The plan in the form the simulation engine runs."""
        return machine_of(self.platform, self.lanes, self._machine_columns(), self.peak_bytes)

    @property
    def makespan_s(self) -> float:
        """The makespan predicted by simulation."""
        return float(run_machine(self.machine)["finish_s"].max(initial=0.0))

    def _machine_columns(self) -> InstructionColumns:
        rows, steps, order = self.rows, self.draft.steps, self._by_lane
        works = rows.phase == WORK
        copies = works & steps.copies[rows.step]
        kind = np.where(works, np.where(copies, COPY, COMPUTES), np.where(rows.phase == FREES, FREE, ALLOC))
        held = rows.memory[order][~works[order]]
        nbytes = np.where(copies, steps.nbytes[rows.step], 0)[order]
        nbytes[~works[order]] = self.draft.memory_nbytes[held]
        spaces = [s.name for s in self.platform.spaces]
        ways, way = np.unique(steps.way[rows.step[order][copies[order]]], return_inverse=True)
        return InstructionColumns(
            order,
            self._lane_starts,
            kind[order],
            np.where(works, steps.duration_s[rows.step], 0.0)[order],
            nbytes,
            *gather_ragged(self.wait_starts, self.waits, order),
            tuple((spaces[n // len(spaces)], spaces[n % len(spaces)]) for n in ways.tolist()),
            way.astype(np.int64),
            tuple(spaces),
            self.draft.memory.space[held],
        )

    # --- objects ----------------------------------------------------------------------------------

    def plan(self, options: tuple[Option, ...] = ()) -> Plan:
        """Return the plan; a lane's instruction objects are made when they are first read."""
        made = Plan(
            name=self.name,
            fingerprint=self.known.fingerprint,
            policy=self.schedule.policy,
            platform=self.platform.without_profiles(),
            arrays=self.known.arrays,
            tasks=self.known.tasks,
            schedule=self.schedule,
            constant_bytes=self.constant_bytes,
            lanes=tuple(
                lazy_lane(Lane(key.name, key.device, key.kind), partial(self._table, n))
                for n, key in enumerate(self.lanes)
            ),
            peak_bytes=self.peak_bytes,
            counters=self.counters,
            options=options,
            memory=choose_kinds(self.known, self.platform, self.draft, self.rows, self.in_place),
        )
        flatten.keep(made, self.machine)
        return made

    @cached_property
    def _names(self) -> tuple[list[str], list[str], list[str]]:
        """The names of tasks, arrays and spaces."""
        known = self.known
        return (
            [task.name for task in known.tasks], [a.name for a in known.arrays], [s.name for s in self.platform.spaces]
        )  # fmt: skip

    @cached_property
    def _implementations(self) -> Texts:
        """The implementation of each task, and None at the end."""
        return texts_of((*self.draft.implementations, None))

    def _table(self, lane: int) -> InstructionTable:
        start, end = self._lane_starts[lane : lane + 2].tolist()
        number = self._by_lane[start:end]
        draft, steps, count = self.draft, self.draft.steps, len(self.draft.steps)
        step, memory = self.rows.step[number], self.rows.memory[number]
        works, frees = self.rows.phase[number] == WORK, self.rows.phase[number] == FREES
        runs, task = works & (steps.kind[step] != COPIES), steps.task[step]
        held = draft.memory_nbytes[memory] if len(draft.memory_nbytes) else 0
        # The uses of steps, then one of each memory, which is written by its allocation and its free.
        use_starts = np.concatenate((steps.starts, steps.starts[-1] + 1 + np.arange(len(draft.memory_nbytes))))
        starts, use = gather_places(use_starts, np.where(works, step, count + memory))
        wait_starts, waits = gather_ragged(self.wait_starts, self.waits, number)
        blocks, memories = draft.blocks, draft.memory
        tasks, arrays, spaces = self._names
        implementations, none = self._implementations, np.zeros(len(number))
        return InstructionTable(
            id=number,
            kind=Texts(INSTRUCTION_KINDS, _CODES[np.where(works, steps.kind[step], np.where(frees, _FREE, _ALLOC))]),
            task=Texts(tasks, task),
            implementation=Texts(implementations.values, implementations.index[np.where(runs, task, -1)]),
            use_starts=starts,
            use_array=Texts(arrays, np.concatenate((blocks.array[steps.blocks], memories.array))[use]),
            use_space=Texts(spaces, np.concatenate((blocks.space[steps.blocks], memories.space))[use]),
            use_mode=np.concatenate((steps.modes.astype(np.int64), np.full(len(memories.array), _WRITE)))[use],
            wait_starts=wait_starts,
            waits=waits,
            duration_s=np.where(works, steps.duration_s[step], 0.0),
            start_s=none,
            finish_s=none,
            nbytes=np.where(works, steps.nbytes[step], held),
            again=np.where(works, steps.again[step], 0),
        )
