# SPDX-License-Identifier: Apache-2.0
"""Traces of a cluster run merged on one time axis: clock offsets, messages as copies, and predicted times."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.cluster import NetworkPath, joined
from syclsched.cluster.measurements.host_clocks import ClockOffset
from syclsched.cluster.measurements.part_traces import merge_parts
from syclsched.cluster.part_runner import PartTrace
from syclsched.cluster.parts import divide
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.trace import Span, Trace
from syclsched.planning import build_plan
from syclsched.simulation import predict

SECOND_NS = 1_000_000_000


def made(y: Any) -> None: ...


def used(x: Any, y: Any) -> None: ...


def exchange(data: Any = None, *, number: int, machine: str) -> None: ...


def planned() -> tuple[TaskGraph, Plan]:
    """Plan a task on one machine, and one on another machine that needs its result."""
    graph = TaskGraph("two")
    x, y = graph.array("x", (1000,)), graph.array("y", (1000,), data=np.zeros(1000))
    graph.host(made, name="made", y=x.write())
    graph.host(used, name="used", x=x.read(), y=y.update())
    machines = dict.fromkeys(("a", "b"), syclsched.describe("xeon-8480"))
    paths = [NetworkPath(*pair, 1e-4, 1e9) for pair in permutations(["host", *machines], 2)]
    assignments = tuple(
        Assignment(task.name, f"{machine}/host", 0, task.operation.implementations[0].name, start_s, start_s + 1)
        for task, machine, start_s in zip(graph.tasks, "ab", (0.0, 2.0), strict=True)
        if task.operation is not None
    )
    schedule = Schedule("by hand", assignments)
    return graph, predict(build_plan(graph, joined(machines, paths), schedule, {"made": 1.0, "used": 1.0}))


def span(number: int, task: str, start_s: float, finish_s: float, waits: tuple[int, ...] = ()) -> Span:
    return Span(number, "host", task, None, "", "host:0", "host", "host", start_s, start_s, finish_s, 0, 0, waits)


def test_parts_are_on_one_time_axis() -> None:
    graph, plan = planned()
    (message,) = divide(plan, graph, exchange, lambda *_, **__: None).messages
    parts = {
        "a": (span(0, "made", 0.0, 1.0), span(1, message.sender, 1.5, 1.75, (0,))),
        "b": (span(0, message.receiver, 0.0, 1.0), span(1, "used", 1.25, 2.25, (0,))),
    }
    traces = {
        name: PartTrace(Trace("two", "by hand", spans, 2.25, 2.0, host_waits=1, peak_bytes={"host": 8}), origin_ns)
        for (name, spans), origin_ns in zip(parts.items(), (5 * SECOND_NS, 95 * SECOND_NS), strict=True)
    }
    # The clock of b is 89 s ahead of the local one, that of a 0 s: b begins 1 s after a.
    clocks = {"a": ClockOffset("a", 0, 10), "b": ClockOffset("b", 89 * SECOND_NS, 10)}
    trace = merge_parts(plan, [message], traces, clocks).trace
    instructions = {each.id: each for _, each in plan.instructions()}
    found = {each.task if each.kind == "host" else each.kind: each for each in trace.spans}
    for name, times in {"made": (0.0, 1.0), "copy": (1.5, 2.0), "used": (2.25, 3.25)}.items():
        assert (found[name].start_s, found[name].finish_s) == pytest.approx(times)
    assert trace.makespan_s == pytest.approx(3.25)
    assert found["used"].waits == (found["copy"].instruction,)
    for each in trace.spans:
        wanted = instructions[each.instruction]
        assert (each.kind, each.predicted_start_s, each.predicted_finish_s) == (
            wanted.kind, wanted.start_s, wanted.finish_s,
        )  # fmt: skip
    assert (found["copy"].nbytes, found["copy"].task) == (8000, "used")
    assert (trace.host_waits, trace.peak_bytes) == (2, {"a/host": 8, "b/host": 8})
