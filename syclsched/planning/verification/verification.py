# SPDX-License-Identifier: Apache-2.0
"""Verification of a plan: a proof, from its accesses alone, that it is race-free and complete.

The verifier does not depend on how plans are made. It walks the plan in the order of its numbers, which lanes and waits
must follow, and keeps the last writer of each buffer and the readers since. Each conflicting pair must be ordered by
happens-before; then every execution computes the same as this walk. So it suffices to check in the walk that each
task reads the version of each array that the sequential program reads, also after an eviction.
"""

from __future__ import annotations

import weakref
from typing import Final, NoReturn

import numpy as np

from syclsched.errors import IncompletePlanError, MemoryLimitError, RaceError
from syclsched.model.access import row_range_name
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.segments import Segment, joined_rows
from syclsched.model.operation import Operation
from syclsched.model.plan import Plan, PlannedArray
from syclsched.model.text.bulk_objects import paused_collection
from syclsched.model.text.units import plural
from syclsched.planning.graph_record import GraphRecord, record
from syclsched.planning.memory.constant_memory import constant_bytes, launched, reserve_memory
from syclsched.planning.memory.liveness import check_capacity, peak_bytes
from syclsched.planning.plan_indices import HOST_CALL, LAUNCH, WRITING, IndexedPlan, index_plan
from syclsched.planning.verification import proof
from syclsched.planning.verification.array_sizes import describe_sizes
from syclsched.planning.verification.plan_segments import expand_segments, segment_table, shared_buffers
from syclsched.planning.verification.structure import check_structure
from syclsched.rewrites import planned_graph
from syclsched.simulation.plan_memo import WorkMemo

#: The graph, as it was recorded, that a plan was last proved for; not kept alive, as it holds the graph's constants.
_PROVED: Final[WorkMemo[weakref.ref[GraphRecord]]] = WorkMemo()


def verify(plan: Plan, graph: TaskGraph | None = None) -> None:
    """Prove that a plan computes the results of its graph, in every execution its lanes and waits allow.

    Plans are frozen and a graph's record is made anew when it changes, so a proof is not repeated for the same two.
    """
    planned = None if graph is None else planned_graph(plan, graph) if plan.recipe else graph
    known = None if planned is None else record(planned)
    proved = _PROVED.get(plan)
    if proved is not None and (known is None or known is proved()):
        return
    if graph is not None and known is not None:
        _check_same(plan, graph, known)
    with paused_collection():
        read = index_plan(plan)
    check_structure(read)
    if planned is not None:
        _implementations(read, planned)
    table = segment_table(plan)
    read = expand_segments(read, table)
    finding = proof.walk(read.numbers, shared_buffers(read.numbers, table))
    if finding.code != proof.CORRECT:
        _refuse(read, finding)
    _repeated(read, finding)
    _complete(read, finding)
    _memory(read, planned)
    if known is not None:
        _PROVED.keep(plan, weakref.ref(known))


def _check_same(plan: Plan, graph: TaskGraph, known: GraphRecord) -> None:
    """Refuse a plan of another graph than the recorded one."""
    if plan.fingerprint != known.fingerprint or plan.arrays != known.arrays or plan.tasks != known.tasks:
        made, asked = (f"{plural(len(t), 'task')} on {describe_sizes(a)}" for t, a in
                       ((plan.tasks, plan.arrays), (known.tasks, known.arrays)))  # fmt: skip
        differ = f"the plan has {made}; the graph {asked}" if made != asked else "tasks or dependencies differ"
        raise IncompletePlanError(
            f"the plan was made for another graph than {graph.name!r}: {differ}",
            where=f"plan {plan.name!r}",
            hint="Plan again for this graph and these sizes",
        )


def _implementations(read: IndexedPlan, graph: TaskGraph) -> None:
    """Refuse implementations that a task's operation does not have, or that cannot run on the lane."""
    operations, numbers = [task.operation for task in graph.tasks], read.numbers
    runs = np.flatnonzero((numbers.kind == LAUNCH) | (numbers.kind == HOST_CALL))
    number = {id(operation): n for n, operation in enumerate(operations)}
    operation = np.array([number[id(each)] for each in operations], np.int64)[numbers.task[runs]]
    names, implementation = read.implementations()
    # Most instructions run one of few implementations of few operations.
    kinds = (operation * len(names) + implementation[runs]) * 2 + (numbers.kind[runs] == HOST_CALL)
    _, first = np.unique(kinds, return_index=True)
    for index in np.sort(runs[first]).tolist():
        _check_implementation(read, index, operations[numbers.task[index]], names[implementation[index]])


def _check_implementation(
    read: IndexedPlan, index: int, operation: Operation | None, implementation: str | None
) -> None:
    """Refuse an implementation that an instruction's operation does not have, or that cannot run on its lane."""
    task, on_host = read.plan.tasks[read.numbers.task[index]].name, read.numbers.kind[index] == HOST_CALL
    if operation is None:
        raise IncompletePlanError(f"task {task!r} runs nothing", where=read.where(index))
    known = {i.name: i.kind for i in operation.implementations}
    kind = None if implementation is None else known.get(implementation)
    if kind is None:
        raise IncompletePlanError(
            f"operation {operation.name!r} of task {task!r} has no implementation {implementation!r}",
            where=read.where(index),
            hint=f"It has {', '.join(map(str, known))}; plan again for this version of it",
        )
    if kind != "cost-only" and (kind == "host") != on_host:
        raise IncompletePlanError(
            f"implementation {implementation!r} ({kind}) of task {task!r} cannot be run "
            f"by a {'host' if on_host else 'launch'}",
            where=read.where(index),
            hint="Plan again",
        )


def _memory(read: IndexedPlan, graph: TaskGraph | None) -> None:
    plan = read.plan
    peak = peak_bytes(read.numbers, [space.name for space in plan.platform.spaces])
    if peak != plan.peak_bytes:
        raise MemoryLimitError(
            f"the plan claims peaks {dict(plan.peak_bytes)}, its instructions have {peak}", where=f"plan {plan.name!r}"
        )
    constants = plan.constant_bytes
    if graph is not None:
        known = record(graph).constants
        constants = constant_bytes(known, launched(plan) if known else (), plan.platform)
        if constants != plan.constant_bytes:
            raise MemoryLimitError(
                f"the plan claims {dict(plan.constant_bytes)} for constants, its instructions need {constants}",
                where=f"plan {plan.name!r}",
            )
    resident = plan.resident_bytes
    taken = {space: constants.get(space, 0) + resident.get(space, 0) for space in {**constants, **resident}}
    check_capacity(peak, reserve_memory(plan.platform, taken))


def _repeated(read: IndexedPlan, finding: proof.ProofResult) -> None:
    """Refuse a repetition by another implementation or device, which might not write the same bits."""
    for index in np.flatnonzero(read.numbers.again).tolist():
        first = int(finding.done[read.numbers.task[index]])
        once, again = read.instructions[first], read.instructions[index]
        devices = [read.plan.lanes[read.numbers.lane[n]].device for n in (first, index)]
        if once.implementation != again.implementation or devices[0] != devices[1]:
            raise IncompletePlanError(
                f"task {again.task!r} is run again by {again.implementation!r} on {devices[1]!r}, and was run by "
                f"{once.implementation!r} on {devices[0]!r}: it might not write the same",
                where=f"instruction {again.id}",
            )


def _complete(read: IndexedPlan, finding: proof.ProofResult) -> None:
    plan = read.plan
    missing = [plan.tasks[n].name for n in np.flatnonzero(finding.done < 0)]
    if missing:
        raise IncompletePlanError(
            f"{len(missing)} tasks are never run: {', '.join(missing[:5])}", where=f"plan {plan.name!r}"
        )
    array = read.numbers.buffer_array
    kept = np.zeros(len(plan.arrays), np.bool_)
    kept[array[finding.live & (finding.value == finding.last[array])]] = True
    wanted = np.array([not a.temporary for a in plan.arrays], np.bool_) & (finding.last >= 0)
    for lost in np.flatnonzero(wanted & ~kept)[:1]:
        raise IncompletePlanError(
            f"the last value of array {plan.arrays[lost].name!r} is not kept", where=f"plan {plan.name!r}"
        )


def _refuse(read: IndexedPlan, finding: proof.ProofResult) -> NoReturn:
    """Raise the error for a defect the walk found."""
    instruction = read.instructions[finding.instruction]
    where = f"instruction {instruction.id}"
    if finding.code == proof.TWICE:
        times = f"for the {instruction.again + 1}. time, but not after {instruction.again} others"
        what = times if instruction.again else "twice"
        raise IncompletePlanError(f"task {instruction.task!r} is run {what}", where=where)
    if finding.code == proof.ONCE_ONLY:
        raise IncompletePlanError(
            f"task {instruction.task!r} is run again, but may do more than compute its outputs from its inputs",
            where=where,
        )
    if finding.code == proof.TASK_ORDER:
        before = read.plan.tasks[finding.other].name
        raise RaceError(
            f"task {instruction.task!r} must come after task {before!r}, and nothing orders them", where=where
        )
    touched = read.plan.arrays[read.numbers.use_array[finding.use]]
    space = read.plan.platform.spaces[read.numbers.use_space[finding.use]].name
    buffer = f"array {touched.name!r} in space {space!r}"
    if finding.code == proof.RACE or finding.code == proof.FREE_ORDER:
        first, second = _label(read, finding.other), _label(read, finding.instruction)
        both = f"array {_conflicting_array(read, finding, touched)!r} in space {space!r}"
        raise RaceError(
            f"{first} and {second} both touch {both}, one of them writes, and nothing orders them",
            where=f"instructions {read.instructions[finding.other].id} and {instruction.id}",
            hint="A dependency is missing from the plan; plan again",
        )
    if finding.code == proof.VALUE:
        found = finding.value[read.numbers.use_buffer[finding.use]]
        raise IncompletePlanError(
            f"task {instruction.task!r} would read array {touched.name!r} as left by {_writer_name(read, found)}, "
            f"not by {_writer_name(read, finding.other)}, in space {space!r}",
            where=where,
        )
    reasons = {
        proof.NO_MEMORY: f"{buffer} has no memory",
        proof.FREED: f"{buffer} is used after it is freed",
        proof.TWO_BLOCKS: f"{buffer} has memory already",
        proof.FOREIGN: f"{buffer} is the user's input and cannot be freed",
    }
    raise IncompletePlanError(reasons[finding.code], where=where)


def _conflicting_array(read: IndexedPlan, finding: proof.ProofResult, touched: PlannedArray) -> str:
    """Return the array in conflict, or the union of its rows in conflict if it is divided."""
    if touched.rows is None:
        return touched.name
    numbers = read.numbers
    mine, others = (
        {
            int(numbers.use_buffer[k]): bool(WRITING[numbers.use_mode[k]])
            for k in range(numbers.use_starts[index], numbers.use_starts[index + 1])
        }
        for index in (finding.instruction, finding.other)
    )
    meeting = [
        Segment(array.name, array.rows.array, (array.rows.start, array.rows.stop))
        for buffer in mine.keys() & others.keys()
        if (mine[buffer] or others[buffer])
        and (array := read.plan.arrays[numbers.buffer_array[buffer]]).rows is not None
        and array.rows.array == touched.rows.array
    ]
    start = touched.rows.start
    return next(row_range_name(whole, rows) for whole, rows in joined_rows(meeting) if rows[0] <= start < rows[1])


def _writer_name(read: IndexedPlan, value: int) -> str:
    if value == proof.INPUT:
        return "the input"
    return "no task" if value == proof.NO_TASK else read.plan.tasks[value].name


def _label(read: IndexedPlan, index: int) -> str:
    instruction = read.instructions[index]
    label = f"task {instruction.task!r}"
    return label if instruction.kind in ("launch", "host") else f"the {instruction.kind} for {label}"
