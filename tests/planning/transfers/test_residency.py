# SPDX-License-Identifier: Apache-2.0
"""Plans under memory limits: within them, verified, and right in every order; or refused with the sizes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import symbolic
from support.examples import examples
from support.plans import without_one_wait
from support.strategies import ScheduledGraph, cases, touching

from syclsched.errors import MemoryLimitError, RaceError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan, verify

READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE


def build(case: ScheduledGraph, platform: Platform | None = None) -> Plan:
    return build_plan(case.graph, platform or case.platform, case.schedule, case.durations_s)


def with_capacity(platform: Platform, space: str, capacity_bytes: int) -> Platform:
    spaces = tuple(replace(s, capacity_bytes=capacity_bytes) if s.name == space else s for s in platform.spaces)
    return replace(platform, spaces=spaces)


def task_bytes(case: ScheduledGraph, task: str) -> int:
    return sum(case.graph.arrays[a.array].nbytes for a in case.graph.find_task(task).accesses)


def least_bytes(case: ScheduledGraph, space: str) -> int:
    """Return the bytes of the largest task that can use a space: with that much memory, every plan fits."""
    reach = {d.name for d in case.platform.devices if space in d.reaches}
    return max((task_bytes(case, a.task) for a in case.schedule.assignments if a.device in reach), default=0)


@settings(max_examples=examples(100))  # about every third needs an eviction
@given(cases(), st.data(), st.randoms(use_true_random=False))
def test_a_plan_that_does_not_fit_is_rewritten_until_it_does(
    case: ScheduledGraph, data: st.DataObject, rng: random.Random
) -> None:
    free = build(case)
    platform = case.platform
    for space in (s.name for s in platform.spaces if s.name != HOST):
        least, peak = least_bytes(case, space), free.peak_bytes.get(space, 0)
        if 0 < least < peak:
            platform = with_capacity(platform, space, data.draw(st.integers(least, peak - 1), label=space))
    if platform == case.platform:
        return
    plan = build(case, platform)
    verify(plan, case.graph)
    for limited in platform.spaces:
        assert not limited.capacity_bytes or plan.peak_bytes.get(limited.name, 0) <= limited.capacity_bytes
    symbolic.check(plan, case.graph, rng)


@given(cases())
def test_limit_below_the_largest_task_is_refused(case: ScheduledGraph) -> None:
    homes = {d.name: d.space for d in case.platform.devices if len(d.reaches) == 1 and not d.is_host}
    needs = [(task_bytes(case, a.task), homes[a.device]) for a in case.schedule.assignments if a.device in homes]
    needed, space = max(needs, default=(0, ""))
    if needed < 2:
        return
    with pytest.raises(MemoryLimitError, match=rf"at least {needed} bytes.*there are {needed - 1} ") as caught:
        build(case, with_capacity(case.platform, space, needed - 1))
    assert repr(space) in str(caught.value)


@settings(max_examples=examples(80))
@given(cases(), st.data())
def test_no_wait_of_a_rewritten_plan_can_be_left_out(case: ScheduledGraph, data: st.DataObject) -> None:
    free = build(case)
    tight = [
        (s.name, least_bytes(case, s.name))
        for s in case.platform.spaces
        if s.name != HOST and 0 < least_bytes(case, s.name) < free.peak_bytes.get(s.name, 0)
    ]
    if not tight:
        return
    plan = build(case, with_capacity(case.platform, *tight[0]))
    changed = without_one_wait(data, plan)
    with pytest.raises(RaceError):
        verify(changed, case.graph)


# --- by hand --------------------------------------------------------------------------------------


def one_gpu(capacity_bytes: int) -> Platform:
    gpu = Device("gpu", "k", "gpu", "level_zero", "", "gpu", ("gpu",), dtypes=("float64",), max_work_group_size=64)
    host = Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,))
    links = (Link(HOST, "gpu", 1e-6, 1e9), Link("gpu", HOST, 1e-6, 1e9))
    return Platform("one", (gpu, host), (MemorySpace("gpu", capacity_bytes), MemorySpace(HOST, 0, True)), links)


def chain(*steps: tuple[str, str]) -> tuple[TaskGraph, Schedule, dict[str, float]]:
    """Return tasks in sequence with their accesses to one array of 8 bytes each, such as ``("w", "x")``."""
    graph = TaskGraph("chain")
    arrays = {name: graph.array(name, (1,), temporary=name.islower()) for name in dict.fromkeys(a for _, a in steps)}
    modes = {"r": READ, "w": WRITE, "u": UPDATE}
    for number, (mode, array) in enumerate(steps):
        graph.kernel(touching((modes[mode],)), name=f"t{number}", p0=arrays[array])
    assigned = tuple(Assignment(f"t{n}", "gpu", 0, "kernel", float(n), n + 1.0) for n in range(len(steps)))
    return graph, Schedule("chain", assigned), {a.task: 1e-3 for a in assigned}


def copies(plan: Plan) -> list[tuple[str, str]]:
    return [(i.uses[0].array, i.uses[1].space) for _, i in plan.instructions() if i.kind == "copy"]


def test_the_array_needed_last_is_evicted() -> None:
    graph, schedule, durations = chain(("w", "a"), ("w", "b"), ("w", "c"), ("r", "a"), ("r", "c"), ("r", "b"))
    plan = build_plan(graph, one_gpu(16), schedule, durations)
    verify(plan, graph)
    assert copies(plan) == [("b", HOST), ("b", "gpu")]
    assert plan.peak_bytes["gpu"] == 16


def test_dead_values_are_evicted_without_a_copy() -> None:
    graph, schedule, durations = chain(("w", "a"), ("r", "a"), ("w", "b"), ("w", "a"), ("r", "a"), ("r", "b"))
    plan = build_plan(graph, one_gpu(8), schedule, durations)
    verify(plan, graph)
    assert copies(plan) == [("b", HOST), ("b", "gpu")]


def test_values_with_another_copy_are_evicted_without_a_copy() -> None:
    graph, schedule, durations = chain(("r", "a"), ("r", "b"), ("r", "a"))
    plan = build_plan(graph, one_gpu(8), schedule, durations)
    verify(plan, graph)
    assert copies(plan) == [("a", "gpu"), ("b", "gpu"), ("a", "gpu")]


def test_an_evicted_result_is_saved_to_the_host() -> None:
    graph, schedule, durations = chain(("w", "A"), ("w", "b"))
    plan = build_plan(graph, one_gpu(8), schedule, durations)
    verify(plan, graph)
    assert copies(plan) == [("A", HOST)]


def test_an_allocation_waits_for_the_free_of_the_same_array() -> None:
    graph, schedule, durations = chain(("r", "a"), ("w", "b"), ("r", "b"), ("r", "a"))
    plan = build_plan(graph, one_gpu(8), schedule, durations)
    again = [i for _, i in plan.instructions() if i.kind == "alloc" and i.uses[0].array == "a"]
    assert len(again) == 2
    (free,) = [i for _, i in plan.instructions() if i.kind == "free" and i.id in again[1].waits]
    assert free.uses == again[1].uses
    lanes = tuple(
        replace(lane, instructions=tuple(replace(i, waits=()) if i is again[1] else i for i in lane.instructions))
        for lane in plan.lanes
    )
    with pytest.raises(RaceError, match=r"the free for task .* and the alloc for task"):
        verify(replace(plan, lanes=lanes))


def test_a_status_is_never_evicted() -> None:
    graph, schedule, durations = chain(("w", "s"), ("w", "a"), ("w", "b"), ("r", "a"), ("r", "b"))
    judging = replace(touching((WRITE,)), status="p0", explain_status=str)
    judged = TaskGraph("judged")
    for name, array in graph.arrays.items():
        judged.array(name, array.shape, array.dtype, temporary=True)
    for task in graph.tasks:
        judged.insert(replace(task, operation=judging) if task.name == "t0" else task)
    plan = build_plan(judged, one_gpu(16), schedule, durations)
    verify(plan, judged)
    assert copies(plan)
    assert not [i for _, i in plan.instructions() if i.kind in ("copy", "free") and i.uses[0].array == "s"]


def test_values_overwritten_next_are_dropped_on_the_host() -> None:
    graph, schedule, durations = chain(("w", "a"), ("r", "a"), ("w", "b"), ("r", "b"), ("w", "a"), ("r", "a"))
    on_host = tuple(replace(a, device=HOST, implementation="host") for a in schedule.assignments)
    platform = with_capacity(one_gpu(8), HOST, 8)
    plan = build_plan(graph, platform, replace(schedule, assignments=on_host), durations)
    verify(plan, graph)
    assert plan.peak_bytes == {HOST: 8}
    assert not copies(plan)


def test_too_little_host_memory_for_evictions_is_refused() -> None:
    graph, schedule, durations = chain(("w", "A"), ("w", "B"), ("w", "C"))
    platform = with_capacity(one_gpu(8), HOST, 8)
    with pytest.raises(MemoryLimitError, match=r"at least 16 bytes.*there are 8"):
        build_plan(graph, platform, schedule, durations)
