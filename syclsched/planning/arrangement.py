# SPDX-License-Identifier: Apache-2.0
"""All that a plan says, as arrays: it can be simulated before the many objects of a plan are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Counters, Instruction, Lane, Option, Plan
from syclsched.model.platform import Platform
from syclsched.model.schedule import Schedule
from syclsched.planning.columns import StepColumns
from syclsched.planning.record import GraphRecord
from syclsched.planning.rows import FREE, WORK, Rows, mode_codes
from syclsched.planning.steps import MODES, Draft, Ints, LaneKey, gather_ragged, paused_collection, ragged
from syclsched.simulation.columns import Columns
from syclsched.simulation.engine import run_machine
from syclsched.simulation.machine import COPY, IMMEDIATE, Machine
from syclsched.simulation.machine import WORK as COMPUTES
from syclsched.simulation.pending import lane_later, objects
from syclsched.simulation.program import flatten, machine_of

_WRITE = MODES.index(AccessMode.WRITE)


@dataclass(frozen=True)
class Arrangement:
    """A schedule made executable.

    Parameters
    ----------
    known : GraphRecord
        The graph.
    name : str
        Its name.
    platform : Platform
        Where.
    schedule : Schedule
        Which task on which lane with which implementation.
    draft : Draft
        The steps.
    columns : StepColumns
        The same as columns.
    rows : Rows
        One per instruction, in global order, which gives their numbers.
    lanes : tuple of LaneKey
        The lanes in use, in the plan's order.
    lane : ndarray of int64
        Lane of each row, by place in ``lanes``.
    wait_starts, waits : ndarray of int64
        Ragged: what each row waits for.
    peak_bytes : dict of str to int
        Per space.
    counters : Counters
        What synchronisation it needs.
    """

    known: GraphRecord
    name: str
    platform: Platform
    schedule: Schedule
    draft: Draft
    columns: StepColumns
    rows: Rows
    lanes: tuple[LaneKey, ...]
    lane: Ints
    wait_starts: Ints
    waits: Ints
    peak_bytes: dict[str, int]
    counters: Counters

    @cached_property
    def _by_lane(self) -> Ints:
        """The rows, lane after lane in the order of each."""
        return np.argsort(self.lane, kind="stable")

    @cached_property
    def _lane_starts(self) -> Ints:
        return np.searchsorted(self.lane[self._by_lane], np.arange(len(self.lanes) + 1))

    # --- simulation -------------------------------------------------------------------------------

    @cached_property
    def machine(self) -> Machine:
        """As the simulation's engine runs it."""
        return machine_of(self.platform, self.lanes, self._machine_columns())

    @property
    def makespan_s(self) -> float:
        """Predicted by simulation."""
        return float(run_machine(self.machine)["finish_s"].max(initial=0.0))

    def _machine_columns(self) -> Columns:
        rows, columns, order = self.rows, self.columns, self._by_lane
        works = rows.phase == WORK
        copies = works & columns.copies[rows.step]
        kind = np.where(works, np.where(copies, COPY, COMPUTES), IMMEDIATE)
        spaces = [s.name for s in self.platform.spaces]
        ways, way = np.unique(columns.way[rows.step[order][copies[order]]], return_inverse=True)
        return Columns(
            order,
            self._lane_starts,
            kind[order],
            np.where(works, columns.duration_s[rows.step], 0.0)[order],
            np.where(copies, columns.nbytes[rows.step], 0)[order],
            *gather_ragged(self.wait_starts, self.waits, order),
            tuple((spaces[n // len(spaces)], spaces[n % len(spaces)]) for n in ways.tolist()),
            way.astype(np.int64),
        )

    # --- objects ----------------------------------------------------------------------------------

    def plan(self, options: tuple[Option, ...] = ()) -> Plan:
        """Return the plan; its instructions are made when they are first looked at.

        Parameters
        ----------
        options : tuple of Option, optional
            What tasks would cost elsewhere, for `Plan.explain`.

        Returns
        -------
        Plan
            Without predicted times; `syclsched.simulation.predict` knows it already.
        """
        made = Plan(
            name=self.name,
            fingerprint=self.known.fingerprint,
            policy=self.schedule.policy,
            platform=self.platform.without_profiles(),
            arrays=self.known.arrays,
            tasks=self.known.tasks,
            schedule=self.schedule,
            lanes=tuple(
                lane_later(Lane(key.name, key.device, key.kind), partial(self._instructions, n))
                for n, key in enumerate(self.lanes)
            ),
            peak_bytes=self.peak_bytes,
            counters=self.counters,
            options=options,
        )
        flatten.keep(made, self.machine)
        return made

    @cached_property
    def _tables(self) -> dict[str, list[Any]]:
        """What instructions are made of: of the steps first, then of memory, or of an allocation and a free."""
        steps, memory = self.draft.steps, self.draft.memory
        return {
            "kind": [*(s.kind for s in steps), "alloc", "free"],
            "task": [s.task for s in steps],
            "again": [*(s.again for s in steps), *([0] * len(memory))],
            "implementation": [*(s.implementation for s in steps), *([None] * len(memory))],
            "uses": self._uses(),
        }

    def _uses(self) -> list[tuple[BufferUse, ...]]:
        """Return what each step touches and how, and then memory as allocations and frees do."""
        draft, count = self.draft, len(MODES)
        starts, blocks = ragged([s.blocks for s in draft.steps])
        # Memory comes after the blocks, but for that which is one block's: then both are the same buffer.
        memory = np.arange(len(draft.memory))
        if draft.memory != draft.blocks:
            memory += len(draft.blocks)
        codes = np.concatenate((blocks * count + mode_codes(draft.steps), memory * count + _WRITE))
        codes, which = np.unique(codes, return_inverse=True)
        touched = list(map([*draft.blocks, *draft.memory].__getitem__, (codes // count).tolist()))
        columns: dict[str, list[Any]] = {
            "array": [array for array, _ in touched],
            "space": [space for _, space in touched],
            "mode": list(map(MODES.__getitem__, (codes % count).tolist())),
        }
        made = objects(BufferUse, len(touched), columns)
        uses = list(map(made.__getitem__, which.tolist()))
        bounds = starts.tolist()
        return [*(tuple(uses[a:b]) for a, b in pairwise(bounds)), *zip(uses[bounds[-1] :], strict=True)]

    def _instructions(self, lane: int) -> tuple[Instruction, ...]:
        """Return the instructions of a lane."""
        with paused_collection():
            return tuple(self._made(lane))

    def _made(self, lane: int) -> list[Instruction]:
        start, end = self._lane_starts[lane : lane + 2].tolist()
        number = self._by_lane[start:end]
        step, memory = self.rows.step[number], self.rows.memory[number]
        works, count = self.rows.phase[number] == WORK, len(self.draft.steps)
        held = self.columns.memory_nbytes[memory] if len(self.columns.memory_nbytes) else 0
        starts, ends = self.wait_starts[number].tolist(), self.wait_starts[number + 1].tolist()
        waits, none = self.waits.tolist(), [0.0] * len(number)
        which = {
            "kind": np.where(works, step, count + (self.rows.phase[number] == FREE)),
            "task": step,
            "implementation": np.where(works, step, count + memory),
            "uses": np.where(works, step, count + memory),
            "again": np.where(works, step, count + memory),
        }
        found = {name: map(self._tables[name].__getitem__, places.tolist()) for name, places in which.items()}
        return objects(
            Instruction,
            len(number),
            {
                **found,
                "id": number.tolist(),
                "waits": [tuple(waits[a:b]) if a < b else () for a, b in zip(starts, ends, strict=True)],
                "duration_s": np.where(works, self.columns.duration_s[step], 0.0).tolist(),
                "start_s": none,
                "finish_s": none,
                "nbytes": np.where(works, self.columns.nbytes[step], held).tolist(),
            },
        )
