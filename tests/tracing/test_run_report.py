# SPDX-License-Identifier: Apache-2.0
"""Metrics of traces, compared with sums by hand, and properties of every simulated plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import ScheduledGraph, cases
from support.synthetic import span

from syclsched.model.plan import PlanTrial
from syclsched.model.trace import Trace
from syclsched.planning import build_plan
from syclsched.simulation import predict, simulate
from syclsched.tracing import make_report
from syclsched.tracing.analysis.lanes import busy_seconds

TRACE = Trace(
    "small",
    "heft",
    (
        span(1, "cpu:0", 0.0, 1.0, family="gemm", predicted=(0.0, 0.5)),
        span(2, "cpu:1", 0.0, 2.0, family="gemm", predicted=(0.0, 2.0), waits=(1,)),
        span(3, "gpu:copy", 1.0, 1.5, family="copy", kind="copy", nbytes=1000, waits=(1, 2)),
        span(4, "gpu:0", 1.5, 3.0, family="trsm", predicted=(1.5, 2.5), waits=(3,)),
        span(5, "gpu:0", 3.0, 3.0, family="barrier", kind="barrier"),
        span(6, "host:0", 3.0, 4.0, family="check", kind="host", outcome="failed"),
        span(7, "host:0", 4.0, 4.0, family="check", kind="host", outcome="cancelled"),
    ),
    makespan_s=4.0,
    predicted_makespan_s=3.0,
    host_waits=2,
    events=3,
    barriers=1,
    submissions=5,
    peak_bytes={"gpu": 2000},
)


def test_families() -> None:
    rows = {(r.family, r.device): (r.tasks, r.seconds, r.predicted_s) for r in make_report(TRACE).families}
    assert rows == {
        ("gemm", "cpu"): (2, 3.0, 2.5),
        ("trsm", "gpu"): (1, 1.5, 1.0),
        ("barrier", "gpu"): (1, 0.0, 0.0),
        ("check", "host"): (1, 1.0, 1.0),
    }
    assert make_report(TRACE).families[0].family == "gemm"


def test_devices() -> None:
    rows = {r.device: r for r in make_report(TRACE).devices}
    assert (rows["cpu"].lanes, rows["cpu"].busy_s, rows["cpu"].idle_s, rows["cpu"].utilisation) == (2, 3.0, 5.0, 0.375)
    assert rows["cpu"].predicted_utilisation == pytest.approx(2.5 / 6)
    assert (rows["gpu"].tasks, rows["gpu"].busy_s, rows["gpu"].copying_s) == (1, 1.5, 0.5)
    assert rows["host"].busy_s == 1.0


def test_links_counters_and_makespans() -> None:
    report = make_report(TRACE)
    (link,) = report.links
    assert (link.link, link.copies, link.nbytes, link.bandwidth_bytes_per_s) == ("on gpu:copy", 1, 1000, 2000.0)
    assert report.makespan_error == -0.25
    assert (report.waits, report.events, report.barriers, report.host_waits, report.submissions) == (4, 3, 1, 2, 5)
    assert (report.failed, report.cancelled, report.copied_bytes) == (1, 1, 1000)
    assert report.dependencies is None
    assert report.peak_bytes == {"gpu": 2000}


def test_an_empty_trace() -> None:
    report = make_report(Trace("empty", "none", (), 0.0, 0.0))
    assert (report.families, report.devices, report.links) == ((), (), ())
    assert report.makespan_error == 0.0


@given(cases())
def test_report_sums_of_simulated_plans_are_consistent(case: ScheduledGraph) -> None:
    plan = predict(build_plan(case.graph, case.platform, case.schedule, case.durations_s))
    report = make_report(simulate(plan), plan)
    assert sum(r.tasks for r in report.families) == len(case.graph)
    assert report.copied_bytes == plan.counters.copied_bytes
    assert sum(r.copies for r in report.links) == plan.counters.copies
    assert report.waits <= plan.counters.waits  # frees have no spans in a trace
    assert report.dependencies == plan.counters.dependencies
    assert [r.device for r in report.devices] == [d.name for d in case.platform.devices]
    for row in report.devices:
        assert 0 <= row.utilisation <= 1 + 1e-9
        assert row.busy_s + row.idle_s == pytest.approx(row.lanes * report.makespan_s)
        assert row.utilisation == pytest.approx(row.predicted_utilisation)
    for link in report.links:
        source, target = link.link.split(" -> ")
        assert case.platform.link(source, target) is not None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=12))
def test_busy_time_counts_every_moment_once(pieces: list[tuple[int, int]]) -> None:
    covered = {moment for start, length in pieces for moment in range(start, start + length)}
    assert busy_seconds([(start, start + length) for start, length in pieces]) == len(covered)


def test_an_idle_device_of_the_plan_is_listed() -> None:
    plan = predict(build_plan(*_one_task()))
    report = make_report(replace(simulate(plan), makespan_s=0.0), plan)
    assert [(r.device, r.utilisation) for r in report.devices] == [("a", 0.0), ("b", 0.0), ("host", 0.0)]


def test_gap_by_simulation_and_makespan_by_runs() -> None:
    plan = replace(predict(build_plan(*_one_task())), lower_bound_s=1.0)
    measured = PlanTrial("heft", plan.makespan_s, measured_s=3.0 * plan.makespan_s, runs=2)
    plan = replace(plan, trials=(measured,))
    report = make_report(replace(simulate(plan), predicted_makespan_s=plan.expected_s), plan)
    assert (report.gap, report.predicted_makespan_s) == (plan.gap, 3.0 * plan.makespan_s)


def _one_task():  # type: ignore[no-untyped-def]
    from support.strategies import touching

    from syclsched.model.access import AccessMode
    from syclsched.model.graph import TaskGraph
    from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
    from syclsched.model.schedule import Assignment, Schedule

    graph = TaskGraph()
    graph.kernel(touching((AccessMode.WRITE,)), name="t", p0=graph.array("x", (1,)))
    devices = [Device(n, n, "cpu", "opencl", "", n, (n,)) for n in ("a", "b")] + [
        Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,))
    ]
    spaces = tuple(MemorySpace(n, 0) for n in ("a", "b", HOST))
    links = tuple(Link(a, b, 0.0, 1e9) for a in ("a", "b", HOST) for b in ("a", "b", HOST) if a != b)
    schedule = Schedule("by hand", (Assignment("t", "b", 0, "kernel", 0.0, 1.0),))
    return graph, Platform("two", tuple(devices), spaces, links), schedule, {"t": 1.0}


def test_incomplete_tasks_and_copies_are_counted_separately() -> None:
    spans = (
        span(1, "cpu:0", 0.0, 1.0, outcome="failed"), span(2, "cpu:0", 1.0, 1.0, outcome="cancelled"),
        span(3, "gpu:copy", 1.0, 1.0, kind="copy", outcome="cancelled"),
    )  # fmt: skip
    report = make_report(replace(TRACE, spans=spans))
    assert (report.failed, report.cancelled, report.incomplete_copies, report.complete) == (1, 1, 1, False)
    assert make_report(replace(TRACE, spans=TRACE.spans[:3])).complete
