# SPDX-License-Identifier: Apache-2.0
"""Structural checks of a plan: lanes, reachability, memory kinds, copies and declared accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from syclsched.errors import IncompletePlanError
from syclsched.model.plan import Instruction, Plan
from syclsched.model.platform import HOST
from syclsched.model.platform_parts.routes import find_routes
from syclsched.planning.draft import Flags
from syclsched.planning.plan_indices import ALLOC, BARRIER, COPY, FREE, HOST_CALL, LAUNCH, READING, WRITING, IndexedPlan
from syclsched.planning.verification.plan_segments import (
    SegmentTable,
    check_segment_uses,
    follow_each_other,
    segment_table,
)


def check_structure(read: IndexedPlan) -> None:
    """Refuse instructions on wrong lanes, unreachable buffers, and uses that differ from the tasks' accesses."""
    _lanes(read)
    _uses(read)
    if read.plan.memory:
        _kinds(read.plan)
    table = segment_table(read.plan)
    if table is not None:
        check_segment_uses(read, table)
    _memory_instructions(read)
    _copies(read, table)
    _tasks(read)


def _refuse(wrong: Flags, read: IndexedPlan, what: Callable[[Instruction], str]) -> None:
    """Raise for the first wrong instruction."""
    if wrong.any():
        first = int(np.argmax(wrong))
        raise IncompletePlanError(what(read.instructions[first]), where=read.where(first))


def _lanes(read: IndexedPlan) -> None:
    plan, numbers = read.plan, read.numbers
    names = [lane.name for lane in plan.lanes]
    if len(set(names)) < len(names):
        raise IncompletePlanError("two lanes have the same name", where=f"plan {plan.name!r}")
    for lane in plan.lanes:
        device = plan.platform.device(lane.device)
        # Of several machines, hosts copy to each other.
        allowed = ("host", "copy") if device.is_host and device.copy_lane else ("host",)
        if lane.kind not in allowed if device.is_host else lane.kind == "host":
            raise IncompletePlanError(
                f"a {lane.kind} lane cannot be on device {device.name!r}", where=f"lane {lane.name!r}"
            )
    for code, kind, word in ((LAUNCH, "compute", "a launch"), (HOST_CALL, "host", "a host function")):
        other = np.array([lane.kind != kind for lane in plan.lanes], np.bool_)
        _refuse(
            (numbers.kind == code) & _of(other, numbers.lane),
            read,
            lambda _, word=word, kind=kind: f"{word} can only be on a {kind} lane",  # type: ignore[misc]
        )


def _of(table: Flags, index: np.ndarray) -> Flags:  # type: ignore[type-arg]
    """Return ``table[index]``, also for an empty table."""
    return table[index] if len(table) else np.zeros(len(index), np.bool_)


def _uses(read: IndexedPlan) -> None:
    """Refuse unknown arrays, and buffers a task's device cannot reach."""
    plan, numbers = read.plan, read.numbers
    instruction = np.repeat(np.arange(len(numbers.kind)), np.diff(numbers.use_starts))
    reach = np.array(
        [[s.name in plan.platform.device(lane.device).reaches for s in plan.platform.spaces] for lane in plan.lanes],
        np.bool_,
    ).reshape(len(plan.lanes), len(plan.platform.spaces))
    runs = (numbers.kind[instruction] == LAUNCH) | (numbers.kind[instruction] == HOST_CALL)
    beyond = runs & ~reach[numbers.lane[instruction], numbers.use_space]
    if plan.memory and beyond.any():
        beyond &= ~_reached_in_place(plan)[numbers.lane[instruction], numbers.use_array, numbers.use_space]
    for use in np.flatnonzero((numbers.use_array < 0) | beyond)[:1]:
        index = int(instruction[use])
        touched = read.instructions[index].uses[use - numbers.use_starts[index]]
        if numbers.use_array[use] < 0:
            raise IncompletePlanError(f"array {touched.array!r} is not in the plan", where=read.where(index))
        device = plan.lanes[numbers.lane[index]].device
        raise IncompletePlanError(
            f"device {device!r} cannot reach array {touched.array!r} in space {touched.space!r}",
            where=read.where(index),
        )


def _reached_in_place(plan: Plan) -> Flags:
    """Return, by lane, array and space, the host memory that kernels reach through their device's context."""
    arrays = {array.name: n for n, array in enumerate(plan.arrays)}
    spaces = {space.name: n for n, space in enumerate(plan.platform.spaces)}
    found = np.zeros((len(plan.lanes), len(arrays) + 1, len(spaces)), np.bool_)
    homes = [plan.platform.device(lane.device).space for lane in plan.lanes]
    for chosen in plan.memory:
        if chosen.kind == "host" and chosen.context is not None:
            lanes = [n for n, home in enumerate(homes) if home == chosen.context]
            found[lanes, arrays[chosen.array], spaces[chosen.space]] = True
    return found


def _kinds(plan: Plan) -> None:
    """Refuse memory kinds that the lanes which touch the memory cannot address."""
    host = {(u.array, u.space) for lane in plan.lanes if lane.kind == "host" for i in lane.instructions for u in i.uses}
    copied = [i.uses for lane in plan.lanes for i in lane.instructions if i.kind == "copy"]
    host |= {(u.array, u.space) for uses in copied if all(u.space != HOST for u in uses) for u in uses}
    written = {a.array for task in plan.tasks for a in task.accesses if a.mode.writes}
    donated = {array.name for array in plan.arrays if array.donated}
    work = [i for lane in plan.lanes for i in lane.instructions if i.kind not in ("alloc", "copy", "free")]
    changed = [(u.array, u.space) for i in work for u in i.uses if u.mode.writes]
    inputs = {array.name for array in plan.arrays if array.is_input}
    whole = {array.name: array.rows.array for array in plan.arrays if array.rows is not None}
    seen: set[tuple[str, str]] = set()
    for chosen in plan.memory:
        place, where = (chosen.array, chosen.space), f"memory of array {chosen.array!r} in space {chosen.space!r}"
        accessible = plan.platform.space(chosen.space).host_accessible or chosen.space == HOST
        owners = [d for d in plan.platform.compute_devices if d.space == (chosen.context or chosen.space)]
        why = None
        if place in seen or chosen.array in whole:
            why = "an array has one memory in a space"
        elif (chosen.kind == "plain") != (chosen.space == HOST) and chosen.kind != "host":
            why = f"memory of kind {chosen.kind!r} cannot be there"
        elif chosen.kind == "host" and not accessible:
            why = "memory of kind 'host' is not in a device's memory"
        elif chosen.context is not None and (chosen.space != HOST or not owners):
            why = f"it cannot be of the context of {chosen.context!r}"
        elif any(d.aspects and f"usm_{chosen.kind}_allocations" not in d.aspects for d in owners):
            why = f"a device there has no memory of kind {chosen.kind!r}"
        elif accessible and chosen.kind == "device" and any((whole.get(a, a), s) == place for a, s in host):
            why = "neither the host nor another context can address memory of kind 'device'"
        elif chosen.resident and chosen.array not in donated and (not accessible or chosen.kind == "device"):
            why = "an input can only be given where the host can write"
        elif chosen.resident and chosen.array not in inputs:
            why = "only inputs are used in place"
        elif chosen.resident and chosen.array in donated:
            if any(whole.get(a, a) == chosen.array and space != chosen.space for a, space in changed):
                why = "a donated input is written in another space, and must end where it began"
        elif chosen.resident and chosen.array in _wholes(written, whole):
            why = "only inputs that no task writes are used in place, or donated ones"
        if why is not None:
            raise IncompletePlanError(why, where=where, hint="Plan again")
        seen.add(place)


def _wholes(names: set[str], whole: Mapping[str, str]) -> set[str]:
    return {whole.get(name, name) for name in names}


def _memory_instructions(read: IndexedPlan) -> None:
    """Check the buffers and sizes of allocations, frees and copies."""
    plan, numbers = read.plan, read.numbers
    count = np.diff(numbers.use_starts)
    moves = (numbers.kind == ALLOC) | (numbers.kind == FREE) | (numbers.kind == COPY)
    # A copy of adjacent segments touches two buffers for each of them.
    fits = np.where(numbers.kind == COPY, (count > 0) & (count % 2 == 0), count == 1)
    _refuse(moves & ~fits, read, lambda i: f"a {i.kind} does not touch {len(i.uses)} buffers")
    nbytes = np.array([a.nbytes for a in plan.arrays], np.int64)
    sizes = np.concatenate(([0], np.cumsum(nbytes[numbers.use_array]) if len(nbytes) else []))
    touched = (sizes[numbers.use_starts[1:]] - sizes[numbers.use_starts[:-1]]) // np.where(numbers.kind == COPY, 2, 1)
    wrong = moves & (numbers.nbytes != touched)
    _refuse(wrong, read, lambda i: f"the size of array {i.uses[0].array!r} is wrong")


def _copies(read: IndexedPlan, table: SegmentTable | None) -> None:
    """Check that copies have matching ends and a link."""
    plan, numbers = read.plan, read.numbers
    instruction = np.repeat(np.arange(len(numbers.kind)), np.diff(numbers.use_starts))
    place = np.arange(len(instruction)) - numbers.use_starts[:-1][instruction]
    source = np.flatnonzero((numbers.kind[instruction] == COPY) & (place % 2 == 0))
    target = source + 1
    stop = find_routes(plan.platform.links, [space.name for space in plan.platform.spaces]).stop
    linked = (stop == np.arange(len(stop))) & ~np.eye(len(stop), dtype=np.bool_)
    good = (
        (numbers.use_array[source] == numbers.use_array[target])
        & ~WRITING[numbers.use_mode[source]]
        & ~READING[numbers.use_mode[target]]
        & linked[numbers.use_space[source], numbers.use_space[target]]
    )
    further = np.flatnonzero(place[source] > 0)
    before = source[further] - 2
    good[further] &= (
        follow_each_other(numbers, table, before, source[further])
        & (numbers.use_space[before] == numbers.use_space[source[further]])
        & (numbers.use_space[before + 1] == numbers.use_space[target[further]])
    )
    wrong = np.zeros(len(numbers.kind), np.bool_)
    wrong[instruction[source[~good]]] = True
    _refuse(
        wrong,
        read,
        lambda i: f"no copy of {i.uses[0].array!r} from {i.uses[0].space!r} to {i.uses[1].space!r} is possible",
    )


def _tasks(read: IndexedPlan) -> None:
    """Check that each task is known, runs on a suitable lane, and touches its declared arrays."""
    plan, numbers = read.plan, read.numbers
    runs = numbers.kind >= LAUNCH
    _refuse(
        (numbers.again > 0) & (~runs | (numbers.kind == BARRIER)),
        read,
        lambda i: f"a {i.kind} cannot be done again",
    )
    _refuse(runs & (numbers.task < 0), read, lambda i: f"task {i.task!r} is not in the plan's graph")
    kinds = {t.name: t.kind for t in plan.tasks}
    barrier = np.array([t.kind == "barrier" for t in plan.tasks], np.bool_)
    _refuse(
        runs & (_of(barrier, numbers.task) != (numbers.kind == BARRIER)),
        read,
        lambda i: f"a {i.kind} cannot run task {i.task!r} ({kinds[i.task or '']})",
    )
    running = np.flatnonzero(runs)
    task = numbers.task[running]
    length = numbers.access_starts[task + 1] - numbers.access_starts[task]
    other = np.zeros(len(runs), np.bool_)
    other[running] = length != np.diff(numbers.use_starts)[running]
    if not other.any():
        # All rows have equal lengths, so the flat arrays can be compared.
        offset = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        use = np.repeat(numbers.use_starts[running], length) + offset
        access = np.repeat(numbers.access_starts[task], length) + offset
        differ = (numbers.use_array[use] != numbers.access_array[access]) | (
            numbers.use_mode[use] != numbers.access_mode[access]
        )
        other[np.repeat(running, length)[differ]] = True
    _refuse(other, read, lambda i: f"the buffers do not match what task {i.task!r} declares")
