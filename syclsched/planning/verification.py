# SPDX-License-Identifier: Apache-2.0
"""Proof that a plan is free of races and complete, from the accesses alone; or a refusal that names the place.

The verifier knows nothing of how plans are made. It walks the plan in the order of its numbers, which lanes and
waits must follow, and keeps, for every buffer, the last writer and the readers since. Each conflicting pair must be
ordered by happens-before; then every execution computes what this one walk computes, and it suffices to check in the
walk that each task reads the version of each array that the sequential program would have read: also where the array
was evicted in between and brought back.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from syclsched.errors import IncompletePlanError, MemoryLimitError, RaceError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.planning import proof
from syclsched.planning.liveness import check_capacity, peak_bytes
from syclsched.planning.numbers import ReadPlan, read_plan
from syclsched.planning.record import record
from syclsched.planning.steps import paused_collection
from syclsched.planning.structure import check_structure


def verify(plan: Plan, graph: TaskGraph | None = None) -> None:
    """Prove that a plan computes what its graph says, in every execution its lanes and waits allow.

    Parameters
    ----------
    plan : Plan
        From the planner, or read from a file.
    graph : TaskGraph, optional
        The graph it is for; without it the plan's own record of the graph is believed.

    Raises
    ------
    RaceError
        If two conflicting accesses are not ordered; names both tasks and the array.
    IncompletePlanError
        If work is missing, repeated or misplaced, waits for later work, or reads the wrong data.
    MemoryLimitError
        If a space is too small, or the peaks written in the plan are not its real ones.
    """
    if graph is not None:
        _same_graph(plan, graph)
    with paused_collection():
        read = read_plan(plan)
    check_structure(read)
    finding = proof.walk(read.numbers)
    if finding.code != proof.NOTHING:
        _refuse(read, finding)
    _complete(read, finding)
    _memory(read)


def _same_graph(plan: Plan, graph: TaskGraph) -> None:
    known = record(graph)
    if plan.fingerprint != known.fingerprint or plan.arrays != known.arrays or plan.tasks != known.tasks:
        raise IncompletePlanError(
            f"the plan was made for another graph than {graph.name!r}",
            where=f"plan {plan.name!r}",
            hint="Plan again for this graph and these sizes",
        )


def _memory(read: ReadPlan) -> None:
    plan = read.plan
    peak = peak_bytes(read.instructions)
    if peak != plan.peak_bytes:
        raise MemoryLimitError(
            f"the plan claims peaks {dict(plan.peak_bytes)}, its instructions have {peak}", where=f"plan {plan.name!r}"
        )
    check_capacity(peak, plan.platform)


def _complete(read: ReadPlan, finding: proof.Finding) -> None:
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


def _refuse(read: ReadPlan, finding: proof.Finding) -> NoReturn:
    """Say what the walk has found."""
    instruction = read.instructions[finding.instruction]
    where = f"instruction {instruction.id}"
    if finding.code == proof.TWICE:
        raise IncompletePlanError(f"task {instruction.task!r} is run twice", where=where)
    if finding.code == proof.TASK_ORDER:
        before = read.plan.tasks[finding.other].name
        raise RaceError(
            f"task {instruction.task!r} must come after task {before!r}, and nothing orders them", where=where
        )
    use = instruction.uses[finding.use - read.numbers.use_starts[finding.instruction]]
    buffer = f"array {use.array!r} in space {use.space!r}"
    if finding.code == proof.RACE or finding.code == proof.FREE_ORDER:
        first, second = _label(read, finding.other), _label(read, finding.instruction)
        raise RaceError(
            f"{first} and {second} both touch {buffer}, one of them writes, and nothing orders them",
            where=f"instructions {read.instructions[finding.other].id} and {instruction.id}",
            hint="A dependency is missing from the plan; plan again",
        )
    if finding.code == proof.VALUE:
        found = finding.value[read.numbers.use_buffer[finding.use]]
        raise IncompletePlanError(
            f"task {instruction.task!r} would read array {use.array!r} as left by {_author(read, found)}, "
            f"not by {_author(read, finding.other)}, in space {use.space!r}",
            where=where,
        )
    reasons = {
        proof.NO_MEMORY: f"{buffer} has no memory",
        proof.FREED: f"{buffer} is used after it is freed",
        proof.TWO_BLOCKS: f"{buffer} has memory already",
        proof.FOREIGN: f"{buffer} is the user's input and cannot be freed",
    }
    raise IncompletePlanError(reasons[finding.code], where=where)


def _author(read: ReadPlan, value: int) -> str:
    if value == proof.INPUT:
        return "the input"
    return "nobody" if value == proof.NOBODY else read.plan.tasks[value].name


def _label(read: ReadPlan, index: int) -> str:
    instruction = read.instructions[index]
    label = f"task {instruction.task!r}"
    return label if instruction.kind in ("launch", "host") else f"the {instruction.kind} for {label}"
