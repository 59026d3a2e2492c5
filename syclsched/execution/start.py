# SPDX-License-Identifier: Apache-2.0
"""Preparation and start of a plan: verification and all checks, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from syclsched.devices.executables import Executable
from syclsched.devices.pool import ALIGNMENT_BYTES
from syclsched.execution.buffers import BufferTable, NumpyArray
from syclsched.execution.dispatcher import Dispatcher
from syclsched.execution.engine import Engine
from syclsched.execution.guarded import GuardedBufferTable
from syclsched.execution.inputs import gather_inputs, needed_inputs
from syclsched.execution.inspection import inspections_for
from syclsched.execution.lanes import queues_of
from syclsched.execution.layout import Layout, lay_out
from syclsched.execution.program import Program
from syclsched.execution.reading import covers
from syclsched.execution.run import Run
from syclsched.execution.safeguards import USUAL, Safeguards
from syclsched.execution.stepper import Stepper
from syclsched.execution.work import Work, argument_rows, resolve_work
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.task import LogicalArray

if TYPE_CHECKING:
    from syclsched.execution.recovery.health import Health


def execute(
    plan: Plan,
    graph: TaskGraph,
    live: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    trace: bool = True,
    owns_devices: bool = False,
    safeguards: Safeguards = USUAL,
    recover: bool = False,
) -> Run:
    """Verify and start a plan; return at once."""
    prepared = prepare(plan, graph)
    return start(
        prepared,
        live,
        prepared.values(inputs),
        trace=trace,
        owns_devices=owns_devices,
        safeguards=safeguards,
        recover=recover,
    )


@dataclass(frozen=True)
class Prepared:
    """A verified plan, with the task behind each of its instructions."""

    plan: Plan
    graph: TaskGraph  # the planned graph, rewritten by the plan's recipe if it has one
    program: Program
    work: dict[int, Work]  # by instruction number
    layout: Layout | None = None  # memory layout, if memory is allocated once for many runs

    def laid_out(self) -> Prepared:
        """Return a copy with a memory layout, for plans that are submitted as a whole."""
        program = self.program
        rows = argument_rows(self.graph)
        pinned = [piece.status for piece in self.work.values() if piece.status is not None]
        whole = [(rows[a].array if a in rows else program.whole.get(a, a), space) for a, space in pinned]
        layout = lay_out(program, whole, ALIGNMENT_BYTES)
        return replace(self, layout=layout, program=program.waiting_also(layout.waits))

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

    @property
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

    def values(self, inputs: Mapping[str, Any] | None) -> dict[str, NumpyArray]:
        """Return the value of every input; see `gather_inputs`."""
        return gather_inputs(self.plan, self.graph, inputs, self._declared, self.inputs)

    @cached_property
    def _declared(self) -> Mapping[str, LogicalArray]:
        return self.graph.arrays

    def new_buffers(self, live: Any, *, guarded: bool = False) -> BufferTable:
        """Return an empty table for the plan's buffers; a guarded one detects undeclared and out-of-bounds writes."""
        arrays = {array.name: array for array in self.plan.arrays}
        kind = GuardedBufferTable if guarded else BufferTable
        return kind(self.plan.platform, live, arrays, argument_rows(self.graph), self.plan.memory)


def prepare(plan: Plan, graph: TaskGraph) -> Prepared:
    """Verify a plan, and resolve the task behind each of its instructions."""
    from syclsched.planning import verify
    from syclsched.rewrites import planned_graph

    graph = planned_graph(plan, graph)
    verify(plan, graph)
    program = Program(plan)
    return Prepared(plan, graph, program, resolve_work(program, graph))


def start(
    prepared: Prepared,
    live: Any,
    values: dict[str, NumpyArray],
    *,
    trace: bool = True,
    owns_devices: bool = False,
    safeguards: Safeguards = USUAL,
    recover: bool = False,
    health: Health | None = None,
    executables: Mapping[int, Executable] | None = None,
) -> Run:
    """Start a prepared plan and return at once."""
    engine = engine_for(prepared, live, values, record=trace, safeguards=safeguards, executables=executables)
    recovering = None
    if recover and not safeguards.stepped:
        from syclsched.execution.recovery.recovering import Recovering

        recovering = Recovering(engine, prepared, live, values, health)
    return Run(
        engine if recovering is None else recovering,
        live,
        values,
        owns_devices=owns_devices,
        joined=prepared.joined,
        safeguards=safeguards,
        deadlines_s=prepared.deadlines_s if recovering is None else recovering.deadlines_s,
        recovering=recovering,
    )


def engine_for(
    prepared: Prepared,
    live: Any,
    values: Mapping[str, NumpyArray],
    *,
    record: bool,
    safeguards: Safeguards = USUAL,
    executables: Mapping[int, Executable] | None = None,
) -> Engine:
    """Return an engine for a prepared plan, not yet started."""
    plan, program = prepared.plan, prepared.program
    queues = queues_of(plan, live)
    buffers = prepared.new_buffers(live, guarded=safeguards.debug)
    for name in prepared.inputs:
        buffers.add_input(name, values[name], private=name in program.written_inputs)
    if safeguards.stepped:
        inspections = inspections_for(safeguards, buffers)
        return Stepper(program, prepared.work, buffers, queues, inspections, record=record)
    return Dispatcher(program, prepared.work, buffers, queues, record=record, executables=executables)
