# SPDX-License-Identifier: Apache-2.0
"""Rematerialisation of values under memory limits: places, benefit, and an otherwise unchanged plan."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import symbolic
from support.examples import examples
from support.strategies import ScheduledGraph, tight_cases, touching

from syclsched.errors import IncompletePlanError, MemoryLimitError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Instruction, Lane, Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build as building
from syclsched.planning import build_plan, verify
from syclsched.simulation import predict

READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE


def gpu(capacity_bytes: int, *, link_s: float = 5.0, host_bytes: int = 0, copy_lane: bool = True) -> Platform:
    """Return a device with a small memory and a link on which every copy takes the same time."""
    devices = (
        Device("gpu", "gpu", "gpu", "level_zero", "", "gpu", ("gpu",), copy_lane=copy_lane, dtypes=("float64",)),
        Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,)),
    )
    spaces = (MemorySpace("gpu", capacity_bytes), MemorySpace(HOST, host_bytes, True))
    return Platform("one gpu", devices, spaces, (Link("gpu", HOST, link_s, 1e15), Link(HOST, "gpu", link_s, 1e15)))


def reversed_chain(length: int, seconds: float = 1.0) -> tuple[TaskGraph, Schedule, dict[str, float]]:
    """Return a chain of values that are needed again in reverse order, like activations in training."""
    graph = TaskGraph("reversed chain")
    values = [graph.array(f"x{n}", (1,), temporary=True) for n in range(length)]
    total = graph.array("total", (1,))
    graph.kernel(touching((WRITE,)), name="f0", p0=values[0])
    for n in range(1, length):
        graph.kernel(touching((READ, WRITE)), name=f"f{n}", p0=values[n - 1], p1=values[n])
    graph.kernel(touching((READ, WRITE)), name=f"b{length - 1}", p0=values[-1], p1=total)
    for n in range(length - 2, -1, -1):
        graph.kernel(touching((READ, UPDATE)), name=f"b{n}", p0=values[n], p1=total)
    names = [t.name for t in graph.tasks]
    assigned = tuple(Assignment(n, "gpu", 0, "kernel", float(k), k + 1.0) for k, n in enumerate(names))
    return graph, Schedule("by hand", assigned), dict.fromkeys(names, seconds)


def again(plan: Plan) -> list[str]:
    return [i.task or "" for _, i in plan.instructions() if i.again]


def only_evicting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "recomputing_may_pay", lambda *_: False)


def test_values_are_recomputed_if_faster_than_copying(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, schedule, durations = reversed_chain(5)
    plan = predict(build_plan(graph, gpu(32), schedule, durations))
    verify(plan, graph)
    symbolic.check(plan, graph, random.Random(1))
    assert again(plan) and plan.counters.recomputed == len(again(plan))
    assert plan.counters.copies == 0
    assert plan.peak_bytes["gpu"] <= 32
    only_evicting(monkeypatch)
    evicted = predict(build_plan(graph, gpu(32), schedule, durations))
    verify(evicted, graph)
    assert not again(evicted)
    assert evicted.counters.copies > 0
    assert plan.makespan_s < evicted.makespan_s


def test_a_value_is_copied_out_and_back_where_that_is_faster() -> None:
    graph, schedule, durations = reversed_chain(5)
    plan = build_plan(graph, gpu(32, link_s=0.1), schedule, durations)
    assert not again(plan)
    assert plan.counters.copies > 0


def test_a_long_chain_saves_some_values_and_recomputes_others() -> None:
    graph, schedule, durations = reversed_chain(24)
    plan = predict(build_plan(graph, gpu(64), schedule, durations))
    verify(plan, graph)
    symbolic.check(plan, graph, random.Random(1))
    # With copies of 5 s and tasks of 1 s, recomputing more than about ten tasks for one value does not pay.
    assert again(plan) and plan.counters.copies > 0


def test_almost_all_values_are_recomputed_if_copies_are_very_slow() -> None:
    """The reads of the tasks that run again need more space than the pass reserves at first."""
    graph, schedule, durations = reversed_chain(60)
    plan = build_plan(graph, gpu(32, link_s=1e6), schedule, durations)
    verify(plan, graph)
    symbolic.check(plan, graph, random.Random(1))
    assert plan.counters.recomputed > 50


def test_recomputations_are_marked_and_restored_from_json() -> None:
    graph, schedule, durations = reversed_chain(5)
    plan = predict(build_plan(graph, gpu(32), schedule, durations))
    read = Plan.from_json(plan.to_json())
    assert read == plan
    verify(read, graph)
    assert "done again" in str(plan)
    assert "done again" in plan.explain(again(plan)[0])


def test_recomputation_avoids_a_full_host_memory() -> None:
    graph, schedule, durations = reversed_chain(6)
    tight = gpu(32, host_bytes=8, link_s=1e-3)  # copies would be cheap, but there is no memory for them
    plan = build_plan(graph, tight, schedule, durations)
    verify(plan, graph)
    symbolic.check(plan, graph, random.Random(1))
    assert again(plan)
    once = TaskGraph("once only")
    values = [once.array(f"x{n}", (1,), temporary=True) for n in range(6)]
    for n, value in enumerate(values):
        once.host(lambda x: None, name=f"f{n}", x=value.write())
    once.host(lambda **_: None, name="all", **{f"x{n}": v.read() for n, v in enumerate(values)})
    assigned = [Assignment(f"f{n}", HOST, 0, "host", float(n), n + 1.0) for n in range(6)]
    assigned.append(Assignment("all", HOST, 0, "host", 6.0, 7.0))
    with pytest.raises(MemoryLimitError):
        build_plan(once, tight, Schedule("by hand", tuple(assigned)), dict.fromkeys((a.task for a in assigned), 1.0))


def test_host_values_are_recomputed_if_memory_is_short() -> None:
    graph, schedule, durations = reversed_chain(6)
    assigned = tuple(replace(a, device=HOST, implementation="host") for a in schedule.assignments)
    plan = build_plan(graph, gpu(32, host_bytes=32), replace(schedule, assignments=assigned), durations)
    verify(plan, graph)
    symbolic.check(plan, graph, random.Random(1))
    assert again(plan)
    assert plan.peak_bytes[HOST] <= 32


def impure(graph: TaskGraph, names: tuple[str, ...]) -> None:
    for first, second in combinations(names, 2):
        graph.edge(first, second)


def test_impure_tasks_are_not_recomputed() -> None:
    graph, schedule, durations = reversed_chain(5)
    impure(graph, tuple(f"f{n}" for n in range(5)))
    plan = build_plan(graph, gpu(32), schedule, durations)
    verify(plan, graph)
    assert not again(plan)
    assert plan.counters.copies > 0


def test_a_value_with_changed_inputs_is_saved() -> None:
    graph = TaskGraph("changed")
    source, value, other = (graph.array(n, (1,), temporary=True) for n in ("source", "value", "other"))
    out = graph.array("out", (1,))
    graph.kernel(touching((WRITE,)), name="source", p0=source)
    graph.kernel(touching((READ, WRITE)), name="value", p0=source, p1=value)
    graph.kernel(touching((UPDATE,)), name="change", p0=source)
    graph.kernel(touching((READ, WRITE)), name="other", p0=source, p1=other)
    graph.kernel(touching((READ, READ, WRITE)), name="out", p0=other, p1=source, p2=out)
    graph.kernel(touching((READ, UPDATE)), name="last", p0=value, p1=out)
    names = [t.name for t in graph.tasks]
    assigned = tuple(Assignment(n, "gpu", 0, "kernel", float(k), k + 1.0) for k, n in enumerate(names))
    plan = build_plan(graph, gpu(24), Schedule("by hand", assigned), dict.fromkeys(names, 1.0))
    verify(plan, graph)
    symbolic.check(plan, graph, random.Random(1))
    assert not again(plan)
    assert {i.uses[0].array for _, i in plan.instructions() if i.kind == "copy"} == {"value"}


def changed(plan: Plan, **fields: object) -> Plan:
    """Return the plan with the first recomputing instruction changed."""
    (first, *_) = [i for _, i in plan.instructions() if i.again]

    def edited(i: Instruction) -> Instruction:
        return replace(i, **fields) if i.id == first.id else i  # type: ignore[arg-type]

    lanes = [replace(lane, instructions=tuple(map(edited, lane.instructions))) for lane in plan.lanes]
    return replace(plan, lanes=tuple(lanes))


def test_the_verifier_refuses_wrong_recomputations() -> None:
    graph, schedule, durations = reversed_chain(5)
    plan = build_plan(graph, gpu(32), schedule, durations)
    verify(plan)
    once = replace(plan, tasks=tuple(replace(t, repeatable=False) for t in plan.tasks))
    with pytest.raises(IncompletePlanError, match="is run again, but may do more"):
        verify(once)
    with pytest.raises(IncompletePlanError, match="made for another graph"):
        verify(once, graph)
    with pytest.raises(IncompletePlanError, match="is run twice"):
        verify(changed(plan, again=0))
    with pytest.raises(IncompletePlanError, match="not after 5 others"):
        verify(changed(plan, again=5))
    with pytest.raises(IncompletePlanError, match="might not write the same"):
        verify(changed(plan, implementation="other"))
    with pytest.raises(IncompletePlanError, match=r"on 'gpu\.1', and was run by 'kernel' on 'gpu'"):
        verify(on_another_device(plan))


def on_another_device(plan: Plan) -> Plan:
    """Return the plan in which another device with the same memory executes all from the first recomputation on."""
    gpu, host = plan.platform.devices
    platform = replace(plan.platform, devices=(gpu, replace(gpu, name="gpu.1"), host))
    (lane,) = [lane for lane in plan.lanes if lane.kind == "compute"]
    cut = next(n for n, i in enumerate(lane.instructions) if i.again)
    before, behind = lane.instructions[:cut], lane.instructions[cut:]
    numbers = [i.id for i in lane.instructions]
    behind = tuple(replace(i, waits=tuple(sorted({*i.waits, *(n for n in numbers if n < i.id)}))) for i in behind)
    lanes = [replace(lane, instructions=before), Lane("gpu.1:0", "gpu.1", "compute", behind)]
    return replace(plan, platform=platform, lanes=(*lanes, *(each for each in plan.lanes if each is not lane)))


@settings(max_examples=examples(50), deadline=None)
@given(tight_cases(), st.randoms(use_true_random=False))
def test_plans_with_little_memory_have_the_sequential_results(case: ScheduledGraph, rng: random.Random) -> None:
    try:
        plan = build_plan(case.graph, case.platform, case.schedule, case.durations_s)
    except MemoryLimitError:
        return
    verify(plan, case.graph)
    symbolic.check(plan, case.graph, rng)
    for space in case.platform.spaces:
        assert not space.capacity_bytes or plan.peak_bytes.get(space.name, 0) <= space.capacity_bytes


@settings(max_examples=examples(50), deadline=None)
@given(tight_cases())
def test_recomputation_never_slows_a_plan_or_refuses_more(
    case: ScheduledGraph,
) -> None:
    given_ = building.plan_inputs(case.graph, case.platform, case.schedule, case.durations_s)
    try:
        evicting = building.finish_plan(given_, building.make_draft(given_, limited=True))
    except MemoryLimitError:
        return
    plan = predict(build_plan(case.graph, case.platform, case.schedule, case.durations_s))
    if not building.make_draft(given_).footprint.fits():
        assert plan.makespan_s <= evicting.makespan_s * (1.0 + 1e-12)
