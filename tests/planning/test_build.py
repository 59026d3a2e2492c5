# SPDX-License-Identifier: Apache-2.0
"""Plans from arbitrary schedules: verified, minimal in waits, and right in every execution order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Case, cases

from syclsched.errors import IncompletePlanError, MemoryLimitError, RaceError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, MemorySpace
from syclsched.model.schedule import Schedule
from syclsched.planning import build_plan, verify


def build(case: Case) -> Plan:
    return build_plan(case.graph, case.platform, case.schedule, case.durations_s)


def sequential(graph: TaskGraph) -> tuple[dict[str, object], dict[str, object]]:
    """What each task reads, and each array's last value, if values are the history that made them."""
    values: dict[str, object] = {name: ("input", name) for name in graph.arrays}
    seen = {}
    for name in graph.order():
        task = graph.task(name)
        seen[name] = tuple(values[a.array] for a in task.accesses if a.mode.reads)
        for access in task.accesses:
            if access.mode.writes:
                values[access.array] = (name, access.array, seen[name])
    return seen, values


def execute(
    plan: Plan, graph: TaskGraph, rng: random.Random
) -> tuple[dict[str, object], dict[tuple[str, str], object]]:
    """Run a plan in a random order its lanes and waits allow, without using any of the planner's own code."""
    buffers = {(a.name, HOST): ("input", a.name) for a in plan.arrays if a.is_input}
    seen, done, pointer = {}, set(), [0] * len(plan.lanes)
    while True:
        ready = [
            n
            for n, lane in enumerate(plan.lanes)
            if pointer[n] < len(lane.instructions)
            and (lane.instructions[pointer[n]].kind == "free" or done >= set(lane.instructions[pointer[n]].waits))
        ]
        if not ready:
            break
        lane_number = rng.choice(ready)
        instruction = plan.lanes[lane_number].instructions[pointer[lane_number]]
        pointer[lane_number] += 1
        done.add(instruction.id)
        uses = [(u.array, u.space) for u in instruction.uses]
        if instruction.kind == "alloc":
            assert uses[0] not in buffers
            buffers[uses[0]] = "rubbish"
        elif instruction.kind == "copy":
            buffers[uses[1]] = buffers[uses[0]]
        elif instruction.kind in ("launch", "host"):
            read = tuple(buffers[u.array, u.space] for u in instruction.uses if u.mode.reads)
            seen[instruction.task] = read
            for use in instruction.uses:
                if use.mode.writes:
                    buffers[use.array, use.space] = (instruction.task, use.array, read)
    assert all(p == len(lane.instructions) for p, lane in zip(pointer, plan.lanes, strict=True)), "deadlock"
    return seen, buffers


@given(cases(), st.randoms(use_true_random=False))
def test_every_execution_order_computes_what_the_sequential_program_computes(case: Case, rng: random.Random) -> None:
    plan = build(case)
    verify(plan, case.graph)
    expected, last = sequential(case.graph)
    for _ in range(3):
        seen, buffers = execute(plan, case.graph, rng)
        assert {t: v for t, v in expected.items() if case.graph.task(t).kind != "barrier"} == seen
        for array in plan.arrays:
            written = any(a.array == array.name and a.mode.writes for t in plan.tasks for a in t.accesses)
            if written and not array.temporary:
                assert last[array.name] in [v for (name, _), v in buffers.items() if name == array.name]


@given(cases(), st.data())
def test_no_wait_can_be_left_out(case: Case, data: st.DataObject) -> None:
    plan = build(case)
    waits = [(n, k, w) for n, lane in enumerate(plan.lanes) for k, i in enumerate(lane.instructions) for w in i.waits]
    if not waits:
        return
    lane_number, position, dropped = data.draw(st.sampled_from(waits))
    lane = plan.lanes[lane_number]
    changed = list(lane.instructions)
    changed[position] = replace(changed[position], waits=tuple(w for w in changed[position].waits if w != dropped))
    lanes = list(plan.lanes)
    lanes[lane_number] = replace(lane, instructions=tuple(changed))
    with pytest.raises(RaceError) as caught:
        verify(replace(plan, lanes=tuple(lanes)), case.graph)
    assert "nothing orders them" in str(caught.value)


@given(cases())
def test_no_instruction_can_be_left_out(case: Case) -> None:
    plan = build(case)
    verify(plan)
    for n, lane in enumerate(plan.lanes):
        for k, instruction in enumerate(lane.instructions):
            if instruction.kind in ("free", "barrier"):
                continue
            lanes = list(plan.lanes)
            lanes[n] = replace(lane, instructions=lane.instructions[:k] + lane.instructions[k + 1 :])
            with pytest.raises((IncompletePlanError, RaceError, MemoryLimitError)):
                verify(replace(plan, lanes=tuple(lanes)))


@given(cases())
def test_no_copies_between_devices_that_share_memory(case: Case) -> None:
    plan = build(case)
    for lane in plan.lanes:
        for instruction in lane.instructions:
            if instruction.kind == "copy":
                source, destination = instruction.uses
                assert source.space != destination.space
                assert plan.platform.link(source.space, destination.space) is not None


@given(cases())
def test_plans_survive_json(case: Case) -> None:
    plan = build(case)
    assert Plan.from_json(plan.to_json()) == plan


@given(cases())
def test_a_space_too_small_is_refused_with_the_sizes(case: Case) -> None:
    plan = build(case)
    if not plan.peak_bytes:
        return
    space, peak = max(plan.peak_bytes.items(), key=lambda item: item[1])
    small = tuple(
        MemorySpace(s.name, peak - 1, s.host_accessible) if s.name == space else s for s in case.platform.spaces
    )
    if peak == 1:
        return
    with pytest.raises(MemoryLimitError, match=f"{peak} bytes.*{peak - 1}"):
        build_plan(case.graph, replace(case.platform, spaces=small), case.schedule, case.durations_s)


@given(cases())
def test_a_plan_for_another_graph_is_refused(case: Case) -> None:
    plan = build(case)
    case.graph.barrier(name="one more")
    with pytest.raises(IncompletePlanError, match="another graph"):
        verify(plan, case.graph)


@given(cases())
def test_a_schedule_that_misses_a_task_is_refused(case: Case) -> None:
    short = Schedule("short", case.schedule.assignments[:-1])
    with pytest.raises(IncompletePlanError, match="every task exactly once"):
        build_plan(case.graph, case.platform, short, case.durations_s)
