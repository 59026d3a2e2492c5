# SPDX-License-Identifier: Apache-2.0
"""The policy `auto`, compared with all its candidates: it is never predicted slower."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import graphs, platforms

import syclsched
from syclsched.costs import MemoryHistory
from syclsched.errors import SyclschedError
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.planner import plan_graph
from syclsched.planner.auto import penalised_makespan_s
from syclsched.scheduling import registry


def plans_of_policies(graph: TaskGraph, where: Platform) -> Iterator[tuple[str, Plan]]:
    """Yield the plans of all policies that can plan a graph."""
    names = [name for name in registry.names() if "<" not in name]
    names += [f"single:{device.name}" for device in where.compute_devices]
    names += [f"dynamic:{name}" for name in ("eager", "priority", "dmdas", "stealing")]
    for name in names:
        try:
            yield name, syclsched.plan(graph, where, policy=name, history=MemoryHistory())
        except SyclschedError:
            continue


@given(graph=graphs(), where=platforms())
@settings(max_examples=5, deadline=None)
def test_auto_is_never_worse_than_any_policy_or_device(graph: TaskGraph, where: Platform) -> None:
    try:
        auto = syclsched.plan(graph, where, history=MemoryHistory())
    except SyclschedError:
        return
    for name, plan in plans_of_policies(graph, where):
        # A plan whose devices share cores must be better by a margin, so its makespan is penalised.
        assert penalised_makespan_s(auto) <= penalised_makespan_s(plan) * (1 + 1e-9), name


@st.composite
def copying(draw: st.DrawFn) -> tuple[TaskGraph, Platform]:
    """Draw a graph of stated costs whose tasks read earlier results, on devices with memories of their own."""
    names = [f"d{n}" for n in range(draw(st.integers(2, 3)))]
    graph = TaskGraph("copying")
    results = [graph.array(f"a{n}", (draw(st.integers(1, 9)),), dtype="uint8") for n in range(draw(st.integers(4, 16)))]
    for n, result in enumerate(results):
        read = draw(st.lists(st.integers(0, n - 1), max_size=3, unique=True)) if n else []
        on = {name: float(draw(st.integers(1, 9))) for name in names}
        accesses = [(results[k], AccessMode.READ) for k in read]
        add_cost_only(graph, f"t{n}", StatedCost(on=on), [*accesses, (result, AccessMode.WRITE)])
    devices = [Device(n, n, "gpu", "level_zero", n, n, (n,), copy_lane=draw(st.booleans())) for n in names]
    links = [Link(*ends, 0.0, 2.0) for n in names for ends in ((HOST, n), (n, HOST))]
    if draw(st.booleans()):
        links += [Link(a, b, 0.25, 1.0) for a in names for b in names if a != b]
    host = Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,), copy_lane=False)
    spaces = [MemorySpace(n, 0) for n in (*names, HOST)]
    return graph, Platform("copying", (*devices, host), tuple(spaces), tuple(links))


@given(copying())
@settings(max_examples=4, deadline=None)
def test_auto_is_never_worse_with_contention(case: tuple[TaskGraph, Platform]) -> None:
    auto = syclsched.plan(*case, history=MemoryHistory(), rewrite="none")
    assert next(c for c in auto.candidates if c.policy == "refine").refused is None
    for name, plan in plans_of_policies(*case):
        assert auto.makespan_s <= plan.makespan_s * (1 + 1e-9), name


@given(copying())
@settings(max_examples=4, deadline=None)
def test_more_steps_never_make_it_worse(case: tuple[TaskGraph, Platform]) -> None:
    found = [plan_graph(*case, steps=steps, rewrite="none").makespan_s for steps in (0, 500, 1_700, 3_000)]
    assert found == sorted(found, reverse=True)


def test_refine_is_a_candidate() -> None:
    graph, where = TaskGraph("two"), two_devices_with_memory()
    for n in range(4):
        result = graph.array(f"a{n}", (8,))
        add_cost_only(graph, f"t{n}", StatedCost(on={"d0": 1.0 + n, "d1": 2.0}), [(result, AccessMode.WRITE)])
    clock = iter(range(1_000_000))
    names = [
        {c.policy for c in plan.candidates}
        for plan in (
            plan_graph(graph, where),
            plan_graph(graph, where, budget_s=100.0, clock=lambda: float(next(clock))),
            plan_graph(graph, where, steps=0),
            plan_graph(graph, where, budget_s=0.0, clock=lambda: 0.0),
        )
    ]
    assert ["refine" in each for each in names] == [True, True, False, False]


def two_devices_with_memory() -> Platform:
    devices = [Device(n, n, "gpu", "level_zero", n, n, (n,)) for n in ("d0", "d1")]
    host = Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,), copy_lane=False)
    links = [Link(*ends, 1e-6, 1e9) for n in ("d0", "d1") for ends in ((HOST, n), (n, HOST))]
    spaces = [MemorySpace(n, 0) for n in ("d0", "d1", HOST)]
    return Platform("two", (*devices, host), tuple(spaces), tuple(links))


def test_the_search_beats_every_policy_with_expensive_copies() -> None:
    rng, graph = random.Random(2), TaskGraph("random")
    results = [graph.array(f"a{n}", (rng.randint(1, 9),), dtype="uint8") for n in range(24)]
    for n, result in enumerate(results):
        read = [(results[k], AccessMode.READ) for k in rng.sample(range(max(0, n - 8), n), min(n, 2))]
        on = {name: float(rng.randint(1, 9)) for name in ("d0", "d1")}
        add_cost_only(graph, f"t{n}", StatedCost(on=on), [*read, (result, AccessMode.WRITE)])
    where = two_devices_with_memory()
    where = replace(where, links=tuple([replace(link, bandwidth_bytes_per_s=2.0) for link in where.links]))
    auto = syclsched.plan(graph, where, history=MemoryHistory(), rewrite="none")
    best_s = min(plan.makespan_s for _, plan in plans_of_policies(graph, where))
    assert auto.makespan_s < 0.99 * best_s
    assert auto.policy == "auto: refined"


@pytest.mark.parametrize("seed", [0, 1])
def test_equal_arguments_give_equal_plans(seed: int) -> None:
    graph = TaskGraph("fan")
    first = graph.array("first", (9,), dtype="uint8")
    add_cost_only(graph, "first", StatedCost(on={"d0": 1.0, "d1": 1.0}), [(first, AccessMode.WRITE)])
    for n in range(9):
        result = graph.array(f"a{n}", (9,), dtype="uint8")
        accesses = [(first, AccessMode.READ), (result, AccessMode.WRITE)]
        add_cost_only(graph, f"t{n}", StatedCost(on={"d0": 1.0 + n, "d1": 9.0 - n}), accesses)
    one, same = (plan_graph(graph, two_devices_with_memory(), seed=seed) for _ in range(2))
    assert one == same
