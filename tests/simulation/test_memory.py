# SPDX-License-Identifier: Apache-2.0
"""Allocations that wait for memory on the virtual clock, like those of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from support.plans import launch, memory, plan_on, platform_of
from support.strategies import ScheduledGraph, tight_cases

from syclsched.errors import IncompletePlanError, MemoryLimitError
from syclsched.model.plan import Plan
from syclsched.planning import build_plan
from syclsched.simulation import predict, simulate, time_plan


def spans(plan: Plan) -> dict[int, tuple[float, float]]:
    return {number: (timing.start_s, timing.finish_s) for number, timing in time_plan(plan).items()}


def three_lanes() -> Plan:
    """Return tasks with 8, 8 and 4 bytes on three lanes, where the first frees its 8 before the second allocates."""
    return plan_on(
        platform_of("a"),
        a__0=[memory(0, "alloc", "a", 8), launch(1, 2.0), memory(2, "free", "a", 8)],
        a__1=[memory(3, "alloc", "a", 8), launch(4, 1.0), memory(6, "free", "a", 8)],
        a__2=[memory(5, "alloc", "a", 4), launch(7, 3.0), memory(8, "free", "a", 4)],
    )


def test_allocations_wait_for_frees_and_for_earlier_allocations() -> None:
    plan = three_lanes()
    assert {n: spans(plan)[n] for n in (1, 4, 7)} == {1: (0.0, 2.0), 4: (0.0, 1.0), 7: (0.0, 3.0)}
    # At first 4 bytes are free: enough for 5, but 3 precedes it in the plan's order and needs 8.
    tight = replace(plan, peak_bytes={"a": 12})
    assert {n: spans(tight)[n] for n in (1, 3, 4, 5, 7)} == {
        1: (0.0, 2.0), 3: (2.0, 2.0), 4: (2.0, 3.0), 5: (2.0, 2.0), 7: (2.0, 5.0)
    }  # fmt: skip
    assert predict(tight).makespan_s == simulate(tight).makespan_s == 5.0
    assert predict(replace(plan, peak_bytes={"a": 16})).makespan_s == 4.0  # 5 once the second has freed its 8
    assert predict(replace(plan, peak_bytes={"a": 20})).makespan_s == 3.0


def test_free_waits_without_blocking_its_lane() -> None:
    plan = plan_on(
        platform_of("a"),
        a__0=[memory(0, "alloc", "a", 8), launch(1, 1.0), memory(3, "free", "a", 8, 2), launch(6, 1.0)],
        a__1=[launch(2, 5.0, 1)],
        a__2=[memory(4, "alloc", "a", 8), launch(5, 1.0)],
    )
    found = spans(replace(plan, peak_bytes={"a": 8}))
    assert found == {
        0: (0.0, 0.0), 1: (0.0, 1.0), 2: (1.0, 6.0), 3: (6.0, 6.0), 4: (6.0, 6.0), 5: (6.0, 7.0), 6: (1.0, 2.0)
    }  # fmt: skip


@given(tight_cases())
def test_memory_in_use_never_exceeds_the_capacity(case: ScheduledGraph) -> None:
    try:
        plan = predict(build_plan(case.graph, case.platform, case.schedule, case.durations_s))
    except MemoryLimitError:
        return
    changes: list[tuple[float, int, str]] = []
    for _, instruction in plan.instructions():
        if instruction.kind in ("alloc", "free"):
            sign = 1 if instruction.kind == "alloc" else -1
            changes.append((instruction.start_s, sign * instruction.nbytes, instruction.uses[0].space))
    held: Counter[str] = Counter()
    for _, change, space in sorted(changes):  # memory freed at an instant is available at that instant
        held[space] += change
        assert held[space] <= plan.peak_bytes[space]
    for space in case.platform.spaces:
        assert not space.capacity_bytes or plan.peak_bytes.get(space.name, 0) <= space.capacity_bytes


def test_a_plan_that_can_never_have_its_memory_is_refused() -> None:
    with pytest.raises(IncompletePlanError, match="never starts"):
        predict(replace(three_lanes(), peak_bytes={"a": 7}))
