# SPDX-License-Identifier: Apache-2.0
"""A verified plan with the work of its instructions: all that is refused is refused here, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from syclsched.devices.memory.memory_pool import ALIGNMENT_BYTES
from syclsched.devices.memory.resident_array import InputValue
from syclsched.execution.core.program import Buffer, Program
from syclsched.execution.core.work import InstructionWork, argument_rows, resolve_work
from syclsched.execution.memory.buffers import BufferTable
from syclsched.execution.memory.inputs import gather_inputs, needed_inputs
from syclsched.execution.memory.memory_layout import MemoryLayout, make_layout
from syclsched.execution.memory.readback import covers
from syclsched.execution.memory.red_zones import RedZoneBuffers
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.task import LogicalArray
from syclsched.model.text.bulk_objects import paused_collection
from syclsched.simulation.plan_memo import does_same

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


@dataclass(frozen=True)
class PreparedPlan:
    """A verified plan, with the task behind each of its instructions."""

    plan: Plan
    graph: TaskGraph  # the planned graph, rewritten by the plan's recipe if it has one
    program: Program
    work: dict[int, InstructionWork]  # by instruction number
    layout: MemoryLayout | None = None  # memory layout, if memory is allocated once for many runs

    def with_layout(self) -> PreparedPlan:
        """Return a copy with a memory layout, for plans that are submitted as a whole."""
        program = self.program
        rows = argument_rows(self.graph)
        pinned = [piece.status for piece in self.work.values() if piece.status is not None]
        whole = frozenset((rows[a].array if a in rows else program.whole.get(a, a), space) for a, space in pinned)
        known = _layouts.get(program)
        if known is None or known[0] != whole:
            known = _layouts[program] = whole, make_layout(program, whole, ALIGNMENT_BYTES)
        return replace(self, layout=known[1], program=program.with_extra_waits(known[1].waits))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the arrays that must be in host memory when the run begins."""
        return needed_inputs(self.plan)

    @cached_property
    def deadlines_s(self) -> dict[int, float]:
        """Deadlines in seconds, by instruction number, of the tasks that have one."""
        return {n: piece.task.deadline_s for n, piece in self.work.items() if piece.task.deadline_s is not None}

    @cached_property
    def joined(self) -> dict[str, tuple[str, ...]]:
        """Arrays of the original graph that are held in parts, with the names of their parts in order."""
        declared = self.graph.arrays
        return {name: wholes[0].parts for name, wholes in self.graph.joined.items() if name not in declared}

    @cached_property
    def results(self) -> tuple[str, ...]:
        """Names of the arrays, as in the original graph, that tasks write and whose values are kept.

        An array accessed by row ranges counts only if all its rows are written, or it is an input.
        """
        joined = self.joined
        parts = {part for names in joined.values() for part in names}
        written = {a.array for task in self.plan.tasks for a in task.accesses if a.mode.writes}
        for name, segments in self.program.segments.items():
            written_rows = [s.rows for s in segments if s.rows is not None and s.name in written]
            if written_rows and (segments[0].is_input or covers(written_rows, 0, self.graph.arrays[name].shape[0])):
                written.add(name)
        temporary = {a.name for a in self.plan.arrays if a.temporary}
        kept = [a.name for a in self.plan.arrays if a.rows is None and not a.temporary and a.name in written]
        whole = [name for name, names in joined.items() if not temporary & set(names) and written & set(names)]
        return (*(name for name in kept if name not in parts), *whole)

    def values(self, inputs: Mapping[str, Any] | None) -> dict[str, InputValue]:
        """Return the value of every input; see `gather_inputs`."""
        return gather_inputs(self.plan, self.graph, inputs, self._declared, self.inputs)

    @cached_property
    def _declared(self) -> Mapping[str, LogicalArray]:
        return self.graph.arrays

    def new_buffers(self, devices: OpenDevices, *, guarded: bool = False) -> BufferTable:
        """Return an empty table for the plan's buffers; a guarded one detects undeclared and out-of-bounds writes."""
        arrays = {array.name: array for array in self.plan.arrays}
        setting = self.plan.platform, devices, arrays, argument_rows(self.graph), self.plan.memory
        if not guarded:
            return BufferTable(*setting)
        made = RedZoneBuffers(*setting)
        made.size_zones(self.plan)
        return made


#: The last layout of each program, and the buffers whose memory nothing else reuses: plans are bound again for traces.
_layouts: WeakKeyDictionary[Program, tuple[frozenset[Buffer], MemoryLayout]] = WeakKeyDictionary()
#: The last prepared plan of each graph in its planned form, for repeated runs; it does not refer to the graph.
_known: WeakKeyDictionary[TaskGraph, tuple[Plan, Program, dict[int, InstructionWork]]] = WeakKeyDictionary()


def prepare(plan: Plan, graph: TaskGraph) -> PreparedPlan:
    """Verify a plan, and resolve the task behind each of its instructions."""
    from syclsched.planning import verify
    from syclsched.rewrites import planned_graph

    graph = planned_graph(plan, graph)  # which refuses a graph that has changed since the plan was made
    known = _known.get(graph)
    if known is not None and known[0] is not plan and does_same(known[0], plan):
        known = _known[graph] = plan, known[1].of_plan(plan), known[2]
    if known is None or (known[0] is not plan and known[0] != plan):
        verify(plan, graph)
        with paused_collection():
            program = Program(plan)
            known = _known[graph] = plan, program, resolve_work(program, graph)
    return PreparedPlan(known[0], graph, *known[1:])
