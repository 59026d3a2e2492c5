# SPDX-License-Identifier: Apache-2.0
"""Coarsening: equal results from fewer tasks, only for tiny tasks, and with the graph's parallelism."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.samples import assert_same_results, device, graphs, platform

from syclsched.costs import CostModel
from syclsched.errors import GraphError
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.rewrites import Merge, Recipe, coarsen, replay
from syclsched.rewrites.granularity import granularity
from syclsched.rewrites.task_cluster import MAX_STEPS

PLATFORMS = (
    platform(device("gpu")),
    platform(device("gpu", lanes=2), device("other", flops=3e10)),
    platform(device("cpu", kind="cpu")),
)


def chain(length: int, size: int = 100) -> TaskGraph:
    graph = TaskGraph("chain")
    y = graph.array("y", data=np.arange(size, dtype="int64"))
    x = graph.array("x", data=np.arange(size, dtype="int64") + 1)
    for i in range(length):
        graph.kernel(get("axpy"), name=f"t{i}", y=y, x=x, alpha=i)
    return graph


def fan(width: int, size: int = 100) -> TaskGraph:
    """Return a number of independent tasks with one input."""
    graph = TaskGraph("fan")
    x = graph.array("x", data=np.arange(size, dtype="int64"))
    for i in range(width):
        graph.kernel(get("copy"), name=f"t{i}", y=graph.array(f"y{i}", (size,), "int64"), x=x)
    return graph


@given(graph=graphs(), where=st.sampled_from(PLATFORMS))
@settings(max_examples=examples(80), deadline=None)
def test_results_equal_those_of_the_original_graph_bit_by_bit(graph: TaskGraph, where: Platform) -> None:
    found = coarsen(graph, where, CostModel(where))
    assert_same_results(graph, found.graph)
    assert set(found.graph.arrays) == set(graph.arrays)
    assert found.counters.tasks_after == len(found.graph) <= len(graph) == found.counters.tasks_before
    assert found.counters.tasks_after == len(graph) - found.counters.merged + found.counters.merges
    # Every task is part of exactly one new task, in which its name is unique.
    assert list(found.tasks) == [t.name for t in graph.tasks]
    steps = {name: 0 for (name,) in found.tasks.values()}
    for (name,) in found.tasks.values():
        steps[name] += 1
    assert set(steps) == {t.name for t in found.graph.tasks}
    for task in found.graph.tasks:
        assert steps[task.name] == max(1, len(task.operation.steps if task.operation else ()))
    assert replay(graph, found.recipe).graph.fingerprint() == found.graph.fingerprint()


@given(graph=graphs(), where=st.sampled_from(PLATFORMS))
@settings(max_examples=examples(30), deadline=None)
def test_dependencies_of_the_original_are_kept(graph: TaskGraph, where: Platform) -> None:
    found = coarsen(graph, where, CostModel(where))
    place = {name: i for i, name in enumerate(found.graph.order())}
    for dependency in graph.dependencies():
        (before,), (after,) = found.tasks[dependency.before], found.tasks[dependency.after]
        assert before == after or place[before] < place[after]
    assert {(found.tasks[b][0], found.tasks[a][0]) for b, a in graph.edges} - {
        (t.name, t.name) for t in found.graph.tasks
    } == set(found.graph.edges)


@pytest.mark.parametrize("length", [2, 50, MAX_STEPS, MAX_STEPS + 1, 1000])
def test_a_chain_of_tiny_tasks_becomes_as_few_tasks_as_allowed(length: int) -> None:
    found = coarsen(chain(length), PLATFORMS[0], CostModel(PLATFORMS[0]))
    assert len(found.graph) == -(-length // MAX_STEPS)
    assert found.counters.merged == length - (1 if length % MAX_STEPS == 1 else 0)
    task = found.graph.tasks[0]
    assert task.operation is not None
    assert {i.kind for i in task.operation.implementations} == {"sequence", "host"}
    assert [s.operation.name for s in task.operation.steps] == ["axpy"] * min(length, MAX_STEPS)


def test_equal_chains_share_one_operation() -> None:
    graph = TaskGraph("chains")
    for n in range(2):
        y, x = graph.array(f"y{n}", (8,)), graph.array(f"x{n}", (8,))
        for i in range(4):
            graph.kernel(get("axpy"), name=f"t{n},{i}", y=y, x=x, alpha=float(n))
    found = coarsen(graph, PLATFORMS[0], CostModel(PLATFORMS[0]))
    assert [t.name for t in found.graph.tasks] == [f"t{n},0+...+t{n},3 (4)" for n in range(2)]
    assert len({id(t.operation) for t in found.graph.tasks}) == 1
    assert [t.signature.scalars["alpha_1"] for t in found.graph.tasks if t.signature] == [0.0, 1.0]


def test_long_tasks_are_not_merged() -> None:
    found = coarsen(chain(10, size=10**7), PLATFORMS[0], CostModel(PLATFORMS[0]))
    assert not found.changed
    assert found.recipe == Recipe()


def test_without_submission_cost_nothing_is_tiny() -> None:
    free = replace(PLATFORMS[0], submission_s=0.0)
    assert granularity(free).minimum_s == 0.0
    graph = chain(10)
    assert coarsen(graph, free, CostModel(free)).graph is graph


@pytest.mark.parametrize("lanes", [1, 4])
def test_independent_tiny_tasks_are_batched_for_every_lane(lanes: int) -> None:
    where = platform(device("gpu", lanes=lanes))
    limits = granularity(where)
    costs = CostModel(where)
    found = coarsen(fan(1000), where, costs)
    assert len(found.graph) % lanes == 0
    seconds = [c[1].seconds for t in found.graph.tasks if (c := costs.best(t, where.devices[0])) is not None]
    assert sum(seconds) / len(seconds) >= limits.minimum_s
    assert max(seconds) <= 1.5 * min(seconds)
    assert_same_results(fan(1000), found.graph)


def test_a_few_independent_tasks_stay_parallel() -> None:
    where = platform(device("gpu", lanes=4))
    assert not coarsen(fan(4), where, CostModel(where)).changed


def test_lanes_that_share_cores_count_once() -> None:
    two = platform(device("cpu", kind="cpu"), device("emulator"))
    limits = granularity(two)
    assert limits.lanes == 2
    turns = replace(two, interferences=(*two.interferences, replace(two.interferences[0], second="emulator")))
    assert granularity(turns).lanes == 1
    assert granularity(turns).minimum_s == limits.minimum_s / 2


def test_host_tasks_are_not_merged() -> None:
    graph = chain(3)
    graph.host(lambda y: None, name="look", y=graph.arrays["y"].read())
    graph.kernel(get("scale"), name="last", x=graph.arrays["y"], alpha=2)
    found = coarsen(graph, PLATFORMS[0], CostModel(PLATFORMS[0]))
    assert [t.name for t in found.graph.tasks] == ["t0+t1+t2", "look", "last"]


def test_tasks_that_can_fail_are_not_merged() -> None:
    """An error then names the task, and independent tasks are executed."""
    graph = TaskGraph("host")
    v, x = graph.array("v", data=np.zeros(4)), graph.array("x", data=np.eye(4))
    status = graph.array("status", (1,), "int32", temporary=True)
    for i in range(3):
        graph.host(lambda v: None, name=f"h{i}", v=v.update())
    graph.kernel(get("scale"), name="s0", x=x, alpha=2.0)
    graph.kernel(get("scale"), name="s1", x=x, alpha=2.0)
    graph.kernel(get("potrf"), name="p", a=x, status=status)
    graph.kernel(get("scale"), name="s2", x=x, alpha=2.0)
    found = coarsen(graph, PLATFORMS[0], CostModel(PLATFORMS[0]))
    assert [t.name for t in found.graph.tasks] == ["h0", "h1", "h2", "s0+s1", "p", "s2"]


def test_tasks_on_rows_are_not_merged() -> None:
    graph = chain(4)
    part = graph.arrays["y"][10:20]
    graph.kernel(get("scale"), name="part0", x=part, alpha=3)
    graph.kernel(get("scale"), name="part1", x=part, alpha=3)
    found = coarsen(graph, PLATFORMS[0], CostModel(PLATFORMS[0]))
    assert [t.name for t in found.graph.tasks] == ["t0+...+t3 (4)", "part0", "part1"]
    with pytest.raises(GraphError, match="cannot be merged"):
        replay(graph, Recipe(merges=(Merge(("part0", "part1"), (), "parts"),)))


def test_a_merged_task_gets_an_unused_name() -> None:
    graph = chain(2)
    z = graph.array("z", (100,), "int64")
    graph.host(lambda z: None, name="t0+t1", z=z.write())
    found = coarsen(graph, PLATFORMS[0], CostModel(PLATFORMS[0]))
    assert {t.name for t in found.graph.tasks} == {"t0+t1 #2", "t0+t1"}
    assert found.recipe.holders("t0", {t.name for t in found.graph.tasks}) == ("t0+t1 #2",)


@pytest.mark.parametrize(
    ("merge", "complaint"),
    [
        (Merge(("t0", "t0"), (), "m"), "merged twice"),
        (Merge(("t0", "nobody"), (), "m"), "no task 'nobody'"),
        (Merge(("t1", "t0"), (), "m"), "reverses a dependency"),
        (Merge(("t0", "t2"), (), "m"), "creates a cycle"),
        (Merge(("t0", "t1"), (), "t2"), "is taken"),
        (Merge(("t0", "t1"), (("opencl-c",),), "m"), "not implementations"),
        (Merge(("t0", "t1"), (("opencl-c", "magic"),), "m"), "not implementations"),
    ],
)
def test_impossible_merges_are_refused(merge: Merge, complaint: str) -> None:
    with pytest.raises(GraphError, match=complaint):
        replay(chain(3), Recipe(merges=(merge,)))


def test_a_device_each_likes_best_is_worth_more_than_a_task_saved() -> None:
    fast = device("fast", flops=1e12)
    doubles = replace(device("slow", flops=1e12), profile=None, compute_units=1)
    where = platform(replace(fast, dtypes=("float32", "float64")), doubles)
    graph = chain(2, size=20_000)
    costs = CostModel(where)
    found = coarsen(graph, where, costs)
    assert found.changed
    merged = found.graph.tasks[0]
    for each in where.compute_devices:
        whole, parts = costs.best(merged, each), [costs.best(t, each) for t in graph.tasks]
        assert whole is not None
        assert whole[1].seconds <= sum(p[1].seconds for p in parts if p is not None) * (1 + 1e-12)


def test_memory_for_all_steps_at_once_is_respected() -> None:
    graph = TaskGraph("many")
    arrays = [graph.array(f"a{i}", (1000,), "int64") for i in range(11)]
    for index, (x, y) in enumerate(pairwise(arrays)):
        graph.kernel(get("copy"), name=f"t{index}", y=y, x=x)
    small = PLATFORMS[0]
    spaces = tuple(replace(s, capacity_bytes=16 * 4 * 8000) for s in small.spaces)
    found = coarsen(graph, replace(small, spaces=spaces), CostModel(small))
    assert max(len(t.accesses) for t in found.graph.tasks) == 4
    assert len(coarsen(graph, small, CostModel(small)).graph) == 1
