# SPDX-License-Identifier: Apache-2.0
"""Tasks with costs instead of code."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.errors import ArgumentError, ExecutionError
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import (
    REFERENCE_CORE_FLOPS,
    StatedCost,
    add_cost_only,
    is_cost_only,
    stated_cost,
)
from syclsched.model.graph import TaskGraph

SECONDS = st.floats(0, 1e12)


@given(
    st.none() | SECONDS,
    st.dictionaries(st.text(min_size=1, max_size=5), SECONDS, max_size=3),
    st.floats(1, 1e9),
)
def test_the_cost_equals_the_stated_cost(seconds: float | None, on: dict[str, float], cores: float) -> None:
    cost = StatedCost(seconds, on, cores)
    graph = TaskGraph()
    if seconds is None and not on:
        with pytest.raises(ArgumentError, match="no cost is given"):
            add_cost_only(graph, "t", cost)
        return
    task = add_cost_only(graph, "t", cost)
    assert task.signature is not None
    assert stated_cost(task.signature) == cost


def test_a_cost_only_task_is_an_ordinary_task() -> None:
    graph = TaskGraph()
    x, y = (graph.array(name, (8,), "uint8") for name in "xy")
    first = add_cost_only(graph, "a", StatedCost(1.0), [(x, AccessMode.WRITE)], family="gemm", priority=4)
    add_cost_only(graph, "b", StatedCost(2.0), [(x, AccessMode.READ), (y, AccessMode.UPDATE)])
    assert (first.family, first.priority, first.kind) == ("gemm", 4, "kernel")
    assert [(d.before, d.after, d.kind) for d in graph.dependencies()] == [("a", "b", "RAW")]
    assert graph.inputs() == ("y",)
    assert all(is_cost_only(task) for task in graph.tasks)
    assert not is_cost_only(graph.host(lambda x: None, x=x.read()))
    assert not is_cost_only(graph.barrier())


def test_a_plan_depends_on_the_cost() -> None:
    def fingerprint(cost: StatedCost) -> str:
        graph = TaskGraph()
        add_cost_only(graph, "a", cost)
        return graph.fingerprint()

    costs = [StatedCost(1.0), StatedCost(2.0), StatedCost(1.0, cores=2), StatedCost(1.0, {"gpu": 1.0})]
    assert len({fingerprint(cost) for cost in costs}) == len(costs)
    assert fingerprint(StatedCost(1, {"a": 1, "b": 2})) == fingerprint(StatedCost(1, {"b": 2, "a": 1}))


@pytest.mark.parametrize(
    "cost",
    [
        StatedCost(-1.0),
        StatedCost(math.nan),
        StatedCost(math.inf),
        StatedCost(1e13),
        StatedCost(1.0, {"gpu": -1.0}),
        StatedCost(1.0, cores=0.5),
        StatedCost(1.0, cores=math.nan),
        StatedCost(1.0, cores=math.inf),
        StatedCost(1.0, cores=1e308),
    ],
)
def test_impossible_costs_are_refused_by_name(cost: StatedCost) -> None:
    graph = TaskGraph()
    with pytest.raises(ArgumentError, match="'t'"):
        add_cost_only(graph, "t", cost)
    assert len(graph) == 0


def test_the_work_is_that_of_the_reference_cores() -> None:
    task = add_cost_only(TaskGraph(), "t", StatedCost(2.0, cores=3.0))
    assert task.operation is not None and task.signature is not None
    work = task.operation.work(task.signature)
    assert (work.flops, work.bytes, work.parallelism) == (6.0 * REFERENCE_CORE_FLOPS, 0.0, 3.0)


def test_a_cost_only_task_cannot_be_loaded() -> None:
    task = add_cost_only(TaskGraph(), "t", StatedCost(2.0))
    assert task.operation is not None and task.signature is not None
    with pytest.raises(ExecutionError, match="costs only"):
        task.operation.implementations[0].load(task.signature)
