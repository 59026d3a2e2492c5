# SPDX-License-Identifier: Apache-2.0
"""Plans from arbitrary schedules: verified, with minimal waits, and right in every execution order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import symbolic
from support.plans import without_one_wait
from support.strategies import ScheduledGraph, cases

from syclsched.errors import IncompletePlanError, MemoryLimitError, RaceError
from syclsched.model.plan import Plan
from syclsched.model.schedule import Schedule
from syclsched.planning import build_plan, verify


def build(case: ScheduledGraph) -> Plan:
    return build_plan(case.graph, case.platform, case.schedule, case.durations_s)


@given(cases(), st.randoms(use_true_random=False))
def test_every_execution_order_has_the_sequential_results(case: ScheduledGraph, rng: random.Random) -> None:
    plan = build(case)
    verify(plan, case.graph)
    symbolic.check(plan, case.graph, rng)


@given(cases(), st.data())
def test_no_wait_can_be_left_out(case: ScheduledGraph, data: st.DataObject) -> None:
    plan = build(case)
    changed = without_one_wait(data, plan)
    with pytest.raises(RaceError) as caught:
        verify(changed, case.graph)
    assert "nothing orders them" in str(caught.value)


@given(cases())
def test_no_instruction_can_be_left_out(case: ScheduledGraph) -> None:
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
def test_no_copies_between_devices_that_share_memory(case: ScheduledGraph) -> None:
    plan = build(case)
    for lane in plan.lanes:
        for instruction in lane.instructions:
            if instruction.kind == "copy":
                source, destination = instruction.uses
                assert source.space != destination.space
                assert plan.platform.link(source.space, destination.space) is not None


@given(cases())
def test_plans_survive_json(case: ScheduledGraph) -> None:
    plan = build(case)
    assert Plan.from_json(plan.to_json()) == plan


@given(cases())
def test_a_plan_for_another_graph_is_refused(case: ScheduledGraph) -> None:
    plan = build(case)
    case.graph.barrier(name="one more")
    with pytest.raises(IncompletePlanError, match="another graph"):
        verify(plan, case.graph)


@given(cases())
def test_a_schedule_that_misses_a_task_is_refused(case: ScheduledGraph) -> None:
    short = Schedule("short", case.schedule.assignments[:-1])
    with pytest.raises(IncompletePlanError, match="every task exactly once"):
        build_plan(case.graph, case.platform, short, case.durations_s)
