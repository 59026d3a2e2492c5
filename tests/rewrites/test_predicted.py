# SPDX-License-Identifier: Apache-2.0
"""Rewritten graphs in planning, verification and simulation: valid, and predicted faster where intended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.samples import device, graphs, platform

from syclsched.costs import CostModel
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan, verify
from syclsched.rewrites import coarsen, rewrite, split
from syclsched.simulation import predict, simulate

ONE = platform(device("gpu"))
TWO = platform(device("fast", flops=3e11, lanes=2), device("slow"), bandwidth=1e11)


def greedy(graph: TaskGraph, where: Platform, lanes: Callable[[int], int] = lambda index: 0) -> Plan:
    """Schedule each task on its fastest device, or on the given lane."""
    costs, seconds, assignments = CostModel(where), {}, []
    for index, name in enumerate(graph.order()):
        task = graph.find_task(name)
        able = [(d, c) for d in where.devices if (c := costs.best(task, d)) is not None]
        if not able:
            assignments.append(Assignment(name, where.devices[0].name, 0, None, float(index), index + 1.0))
            seconds[name] = 0.0
            continue
        chosen, (implementation, estimate) = min(able, key=lambda found: found[1][1].seconds)
        lane = lanes(index) % chosen.lanes
        assignments.append(Assignment(name, chosen.name, lane, implementation.name, float(index), index + 1.0))
        seconds[name] = estimate.seconds
    plan = predict(build_plan(graph, where, Schedule("greedy", tuple(assignments)), seconds))
    verify(plan, graph)
    return plan


@given(graph=graphs(), where=st.sampled_from([ONE, TWO]))
@settings(max_examples=examples(30), deadline=None)
def test_merged_graphs_are_planned_proved_and_simulated(graph: TaskGraph, where: Platform) -> None:
    found = coarsen(graph, where, CostModel(where))
    plan = greedy(found.graph, where)
    trace = simulate(plan)
    assert {s.task for s in trace.spans if s.kind != "copy"} == {t.name for t in found.graph.tasks}
    assert trace.makespan_s == pytest.approx(plan.makespan_s)


@given(st.integers(2, 80), st.integers(1, 6), st.integers(1, 3000))
@settings(max_examples=examples(30), deadline=None)
def test_chains_are_not_predicted_slower_merged(length: int, width: int, size: int) -> None:
    graph = TaskGraph("chains")
    arrays = [(graph.array(f"x{n}", (size,)), graph.array(f"y{n}", (size,))) for n in range(width)]
    for step in range(length):
        for n, (x, y) in enumerate(arrays):
            graph.kernel(get("axpy"), name=f"t{n},{step}", y=y, x=x, alpha=0.5)
    found = coarsen(graph, ONE, CostModel(ONE))
    before, after = greedy(graph, ONE), greedy(found.graph, ONE)
    assert after.makespan_s <= before.makespan_s * (1 + 1e-9)
    assert len(found.graph) < len(graph)


def layers(rows: int) -> TaskGraph:
    graph = TaskGraph("layers")
    rng = np.random.default_rng(0)
    here = graph.array("x", data=rng.standard_normal((rows, 512)).astype("float32"))
    for i in range(3):
        w, b = graph.array(f"w{i}", (512, 512), "float32"), graph.array(f"b{i}", (512,), "float32")
        out = graph.array(f"h{i}", (rows, 512), "float32", temporary=i < 2)
        graph.kernel(get("dense"), name=f"d{i}", y=out, x=here, w=w, b=b, activation=1)
        here = out
    return graph


def test_split_over_two_devices_adds_their_speeds() -> None:
    where = platform(device("fast", flops=3e11), device("slow"), bandwidth=1e11)
    graph = layers(8192)
    found = split(graph, where, CostModel(where))
    (cut,) = found.recipe.cuts
    costs, seconds, assignments = CostModel(where), {}, []
    ends = np.cumsum(cut.rows)
    for index, name in enumerate(found.graph.order()):
        task = found.graph.find_task(name)
        # The intended division: the first three quarters of the rows on the device that is three times as fast.
        start = int(task.name.partition("[")[2].partition(":")[0])
        chosen = where.devices[0] if start < 0.74 * ends[-1] else where.devices[1]
        best = costs.best(task, chosen)
        assert best is not None
        assignments.append(Assignment(name, chosen.name, 0, best[0].name, float(index), index + 1.0))
        seconds[name] = best[1].seconds
    plan = predict(build_plan(found.graph, where, Schedule("as meant", tuple(assignments)), seconds))
    verify(plan, found.graph)
    alone = greedy(graph, where)
    # 4/3 is what the speeds allow; copies and launches take their share.
    assert 1.2 < alone.makespan_s / plan.makespan_s < 4 / 3


def test_both_rewrites_go_together() -> None:
    graph = layers(8192)
    v = graph.array("v", data=np.zeros(8))
    for i in range(30):
        graph.kernel(get("scale"), name=f"s{i}", x=v, alpha=1.5)
    where = replace(TWO, submission_s=1e-5)
    found = rewrite(graph, where, CostModel(where))
    assert found.counters.cut == 3
    assert found.counters.merged == 30
    assert found.tasks["s0"] == found.tasks["s29"]
    assert len(found.tasks["d0"]) == len(found.recipe.cuts[0].rows) > 1
    assert found.arrays["v"] == ("v",)
    assert found.counters.tasks_before == 33
    assert found.counters.tasks_after == len(found.graph)
    greedy(found.graph, where, lambda index: index)
