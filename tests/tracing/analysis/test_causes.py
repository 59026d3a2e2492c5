# SPDX-License-Identifier: Apache-2.0
"""Idle reasons and critical paths of handmade traces, with known answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic import READ, WRITE, random_trace, span

from syclsched.model.plan import BufferUse, Instruction, Lane, Plan, PlannedAccess, PlannedTask
from syclsched.model.platform import HOST, Device, MemorySpace, Platform
from syclsched.model.schedule import Schedule
from syclsched.model.trace import Span, Trace
from syclsched.tracing.analysis.causes import find_start_causes
from syclsched.tracing.analysis.critical_path import critical_path, makespan_with_twice_the_lanes_s, retimed_makespan_s
from syclsched.tracing.analysis.idle import lane_idle, overlap_share


def at(number: int, lane: str, submit: float, start: float, finish: float, **more: object) -> Span:
    return replace(span(number, lane, start, finish, **more), submit_s=submit)  # type: ignore[arg-type]


def trace_of(*spans: Span) -> Trace:
    end = max(s.finish_s for s in spans)
    return Trace("by hand", "", spans, end, end)


#: A copy, a task that waits for it, one on the other lane that waits for that, and one that the host submits late.
BY_HAND = trace_of(
    at(0, "gpu:copy", 0.0, 1.0, 3.0, kind="copy", family="copy", nbytes=8),
    at(1, "gpu:0", 0.0, 3.5, 6.0, waits=(0,), task="first"),
    at(2, "gpu:1", 0.0, 6.0, 8.0, waits=(1,), task="second"),
    at(3, "gpu:0", 9.0, 9.5, 12.0, family="trsm", task="late"),
)


def test_idle_reasons_copy_and_host() -> None:
    idle = lane_idle(find_start_causes(BY_HAND), "gpu:0", 12.0)
    assert (idle.copy_s, idle.submission_s, idle.no_task_s, idle.lanes_s, idle.memory_s) == (2.0, 3.0, 0.0, 0.0, 0.0)
    assert idle.starting_s == pytest.approx(1.0 + 0.5 + 0.5)  # the copy was late, too
    assert idle.total_s == pytest.approx(12.0 - 2.5 - 2.5)


def test_the_reasons_of_a_lane_that_waits_for_another() -> None:
    idle = lane_idle(find_start_causes(BY_HAND), "gpu:1", 12.0)
    assert idle.lanes_s == pytest.approx(2.5)  # while first ran
    assert idle.copy_s == pytest.approx(2.0)  # while first itself waited for the copy
    assert idle.no_task_s == pytest.approx(4.0)
    assert idle.starting_s == pytest.approx(1.5)
    assert idle.total_s == pytest.approx(10.0)


def test_a_lane_without_work_and_one_that_copies_itself() -> None:
    causes = find_start_causes(BY_HAND)
    assert lane_idle(causes, "gpu:7", 12.0).no_task_s == 12.0
    own = trace_of(at(0, "cpu:0", 0.0, 0.0, 1.0, kind="copy", family="copy"), at(1, "cpu:0", 0.0, 1.0, 2.0))
    idle = lane_idle(find_start_causes(own), "cpu:0", 2.0)
    assert (idle.copy_s, idle.total_s) == (1.0, 1.0)


def test_critical_path_with_copies_submission_and_lane_order() -> None:
    path = critical_path(find_start_causes(BY_HAND))
    assert [(s.span.task, s.via) for s in path.steps if s.span.kind != "copy"] == [("first", "wait"), ("late", "lane")]
    first, late = path.steps[1:]
    assert (first.submission_s, first.starting_s, first.running_s) == (0.0, 0.5, 2.5)
    assert (late.submission_s, late.starting_s, late.running_s) == (3.0, 0.5, 2.5)
    assert (path.computing_s, path.copying_s, path.submission_s, path.starting_s) == (5.0, 2.0, 3.0, 2.0)
    assert path.families == (("gemm", 1, 2.5), ("trsm", 1, 2.5), ("copy", 1, 2.0))
    assert path.waits == (
        "first waited 2.000 s for a copy, 1.500 s to be started",
        "late waited 3.000 s for the host to submit it, 500.0 ms to be started",
    )


def test_changes_that_shorten_the_makespan() -> None:
    causes = find_start_causes(BY_HAND)
    assert retimed_makespan_s(causes) == 12.0
    assert retimed_makespan_s(causes, submitted=False) == 9.0
    assert retimed_makespan_s(causes, copies=0.0) == 12.0  # the host is late anyway
    assert retimed_makespan_s(causes, copies=0.0, submitted=False) == 7.0
    assert retimed_makespan_s(causes, started=False) == 11.5
    assert retimed_makespan_s(causes, factors={"trsm": 0.5}) == 10.75
    changes = {c.what: c.saved_s for c in critical_path(causes).changes}
    assert changes == {
        "submissions that take no time": 3.0,
        "a runtime that starts at once what is ready": 0.5,
    }


def gpu_plan(*tasks: PlannedTask, lanes: tuple[Lane, ...] = ()) -> Plan:
    devices = (
        Device("gpu", "g", "gpu", "level_zero", "", "gpu", ("gpu",), lanes=1),
        Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,)),
    )
    platform = Platform("desk", devices, (MemorySpace("gpu", 0), MemorySpace(HOST, 0)))
    return Plan("by hand", "0", "heft", platform, (), tasks, Schedule("heft", ()), lanes)


def test_twice_the_lanes_help_independent_tasks_only() -> None:
    def task(name: str, reads: str, writes: str) -> PlannedTask:
        return PlannedTask(name, "kernel", "gemm", (PlannedAccess(reads, READ), PlannedAccess(writes, WRITE)))

    trace = trace_of(*(at(i, "gpu:0", 0.0, float(i), i + 1.0, task=f"t{i}") for i in range(4)))
    causes = find_start_causes(trace)
    apart = gpu_plan(*(task(f"t{i}", "x", f"y{i}") for i in range(4)))
    chain = gpu_plan(*(task(f"t{i}", f"y{i}", f"y{i + 1}") for i in range(4)))
    assert makespan_with_twice_the_lanes_s(causes, apart) == 2.0
    assert makespan_with_twice_the_lanes_s(causes, chain) == 4.0
    assert [(c.what, c.saved_s) for c in critical_path(causes, apart).changes] == [
        ("gemm in half the time", 2.0),
        ("twice the lanes", 2.0),
    ]


def test_lanes_with_overlapping_times_suggest_no_changes() -> None:
    overlapping = trace_of(*(at(i, "gpu:0", 0.0, 0.0, 4.0, task=f"t{i}") for i in range(3)))
    assert retimed_makespan_s(find_start_causes(overlapping)) == 12.0
    assert critical_path(find_start_causes(overlapping)).changes == ()


def test_waits_for_memory_and_for_data_are_distinguished() -> None:
    # t1 may have its memory only after t0, on the other lane, has finished with it.
    x, y = (BufferUse(name, "gpu", WRITE) for name in "xy")
    plan = gpu_plan(
        PlannedTask("t0", "kernel", "gemm"),
        PlannedTask("t1", "kernel", "gemm"),
        lanes=(
            Lane(
                "gpu:0",
                "gpu",
                "compute",
                (Instruction(0, "launch", "t0", uses=(x,)), Instruction(1, "free", uses=(x,))),
            ),
            Lane(
                "gpu:1",
                "gpu",
                "compute",
                (Instruction(2, "alloc", uses=(y,), waits=(1,)), Instruction(3, "launch", "t1", uses=(y,))),
            ),
        ),
    )
    trace = trace_of(at(0, "gpu:0", 0.0, 0.0, 2.0, task="t0"), at(3, "gpu:1", 0.0, 2.0, 3.0, task="t1"))
    idle = lane_idle(find_start_causes(trace, plan), "gpu:1", 3.0)
    assert (idle.memory_s, idle.total_s) == (2.0, 2.0)
    path = critical_path(find_start_causes(trace, plan), plan)
    assert [s.via for s in path.steps] == [None, "memory"]
    assert ("memory enough", 1.0) in [(c.what, c.saved_s) for c in path.changes]
    # Without the plan this is unknown.
    assert lane_idle(find_start_causes(trace), "gpu:1", 3.0).memory_s == 0.0
    # With a static memory layout, t1 waits for t0 itself, which the plan does not contain.
    bare = replace(
        plan, lanes=(plan.lanes[0], replace(plan.lanes[1], instructions=(Instruction(3, "launch", "t1", uses=(y,)),)))
    )
    laid_out = replace(trace, spans=(trace.spans[0], replace(trace.spans[1], waits=(0,))))
    assert lane_idle(find_start_causes(laid_out, bare), "gpu:1", 3.0).memory_s == 2.0
    renamed = replace(bare, lanes=(plan.lanes[0], replace(bare.lanes[1], instructions=())))
    assert lane_idle(find_start_causes(laid_out, renamed), "gpu:1", 3.0).lanes_s == 2.0


def test_how_much_copying_is_hidden() -> None:
    copies = [span(0, "gpu:copy", 0.0, 2.0, kind="copy"), span(1, "gpu:copy", 1.0, 4.0, kind="copy")]
    kernels = [span(2, "gpu:0", 1.0, 2.0), span(3, "gpu:1", 1.5, 2.5), span(4, "gpu:0", 3.5, 9.0)]
    assert overlap_share(copies, kernels) == pytest.approx((1.5 + 0.5) / 4.0)
    assert overlap_share([], kernels) is None
    assert overlap_share(copies, []) == 0.0


@given(count=st.integers(1, 60), seed=st.integers(0, 1000))
def test_reasons_and_paths_of_any_trace_add_up(count: int, seed: int) -> None:
    trace = random_trace(count, seed)
    causes = find_start_causes(trace)
    for lane in {s.lane for s in trace.spans if s.lane_kind != "copy"}:
        busy = sum(s.duration_s for s in trace.spans if s.lane == lane and s.kind != "copy")
        idle = lane_idle(causes, lane, trace.makespan_s)
        assert idle.total_s + busy == pytest.approx(trace.makespan_s)
    path = critical_path(causes)
    total = path.computing_s + path.copying_s + path.submission_s + path.starting_s
    assert total == pytest.approx(trace.makespan_s)
    assert all(min(s.submission_s, s.starting_s, s.running_s) >= 0.0 for s in path.steps)
    assert retimed_makespan_s(causes) == pytest.approx(trace.makespan_s)
    assert retimed_makespan_s(causes, submitted=False, started=False, copies=0.0) <= trace.makespan_s + 1e-12
