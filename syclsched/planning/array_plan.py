# SPDX-License-Identifier: Apache-2.0
"""An executable plan as arrays, which can be simulated before its instruction objects exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Counters, Instruction, Lane, Option, Plan
from syclsched.model.platform import Platform
from syclsched.model.schedule import Schedule
from syclsched.model.text.bulk_objects import make_objects, paused_collection
from syclsched.planning.draft import COPY as COPIES
from syclsched.planning.draft import KINDS, MODES, Ints, LaneKey, PlanDraft, gather_ragged
from syclsched.planning.graph_record import GraphRecord
from syclsched.planning.instruction_rows import FREE as FREES
from syclsched.planning.instruction_rows import WORK, InstructionRows
from syclsched.planning.memory.memory_kinds import choose_kinds
from syclsched.planning.memory.zero_copy import ZeroCopyArrays
from syclsched.simulation.event_engine import run_machine
from syclsched.simulation.instruction_columns import InstructionColumns
from syclsched.simulation.lazy_objects import Times, lazy_lane
from syclsched.simulation.machine import ALLOC, COPY, FREE, Machine
from syclsched.simulation.machine import WORK as COMPUTES
from syclsched.simulation.machine_builder import flatten, machine_of

_WRITE = MODES.index(AccessMode.WRITE)

#: Instruction kinds by code: the kinds of steps, then allocations and frees.
_KINDS = (*KINDS, "alloc", "free")
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
                lazy_lane(Lane(key.name, key.device, key.kind), partial(self._instructions, n))
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
    def _uses(self) -> list[tuple[BufferUse, ...]]:
        """The buffer uses of each step, then those of the allocations and frees of each memory."""
        draft, count, spaces = self.draft, len(MODES), self.platform.spaces
        steps, arrays = draft.steps, self.known.arrays
        buffers = [each.array * len(spaces) + each.space for each in (draft.blocks, draft.memory)]
        codes = np.concatenate((buffers[0][steps.blocks] * count + steps.modes, buffers[1] * count + _WRITE))
        codes, which = np.unique(codes, return_inverse=True)
        array, space = np.divmod(codes // count, len(spaces))
        columns: dict[str, list[Any]] = {
            "array": [arrays[n].name for n in array.tolist()],
            "space": [spaces[n].name for n in space.tolist()],
            "mode": list(map(MODES.__getitem__, (codes % count).tolist())),
        }
        made = make_objects(BufferUse, len(codes), columns)
        uses = list(map(made.__getitem__, which.tolist()))
        bounds = steps.starts.tolist()
        return [*(tuple(uses[a:b]) for a, b in pairwise(bounds)), *zip(uses[bounds[-1] :], strict=True)]

    @cached_property
    def _task_names(self) -> list[str]:
        return [task.name for task in self.known.tasks]

    def _instructions(self, lane: int, times: Times | None = None) -> tuple[Instruction, ...]:
        """Return the instructions of a lane, with predicted times if given."""
        with paused_collection():
            return tuple(self._made(lane, times))

    def _made(self, lane: int, times: Times | None) -> list[Instruction]:
        start, end = self._lane_starts[lane : lane + 2].tolist()
        number = self._by_lane[start:end]
        step, memory = self.rows.step[number], self.rows.memory[number]
        steps, count = self.draft.steps, len(self.draft.steps)
        works, frees = self.rows.phase[number] == WORK, self.rows.phase[number] == FREES
        runs, task = works & (steps.kind[step] != COPIES), steps.task[step]
        held = self.draft.memory_nbytes[memory] if len(self.draft.memory_nbytes) else 0
        starts, ends = self.wait_starts[number].tolist(), self.wait_starts[number + 1].tolist()
        waits, none = self.waits.tolist(), [0.0] * len(number)
        start_s, finish_s = times or (none, none)
        kinds = np.where(works, steps.kind[step], np.where(frees, _FREE, _ALLOC))
        tables: dict[str, tuple[Sequence[object], Ints]] = {
            "kind": (_KINDS, kinds),
            "task": (self._task_names, task),
            "implementation": ((*self.draft.implementations, None), np.where(runs, task, -1)),
            "uses": (self._uses, np.where(works, step, count + memory)),
        }
        found = {name: map(table.__getitem__, places.tolist()) for name, (table, places) in tables.items()}
        return make_objects(
            Instruction,
            len(number),
            {
                **found,
                "id": number.tolist(),
                "again": np.where(works, steps.again[step], 0).tolist(),
                "waits": [tuple(waits[a:b]) if a < b else () for a, b in zip(starts, ends, strict=True)],
                "duration_s": np.where(works, steps.duration_s[step], 0.0).tolist(),
                "start_s": start_s,
                "finish_s": finish_s,
                "nbytes": np.where(works, steps.nbytes[step], held).tolist(),
            },
        )
