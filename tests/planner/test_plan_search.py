# SPDX-License-Identifier: Apache-2.0
"""The search for plans: its makespans equal those of the simulated plans, and decrease."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from syclsched.costs import CostModel
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.planner.plan_builder import PlanBuilder
from syclsched.planner.plan_search import searched_timetables
from syclsched.planner.search_budget import SearchBudget
from syclsched.planning.transfers.copy_lanes import copy_lanes
from syclsched.scheduling import get, makespan_s
from syclsched.scheduling.portfolio import PolicyResult
from syclsched.scheduling.search.queued.evaluator import QueuedEvaluator
from syclsched.scheduling.search.refinement import time_start
from syclsched.simulation import predict


def machine(count: int, copy_lanes: list[bool], lanes: list[int], *, direct: bool) -> Platform:
    """Devices with memories of their own, linked with the host and, if asked, with each other."""
    names = [f"d{n}" for n in range(count)]
    devices = [
        Device(n, n, "gpu", "level_zero", n, n, (n,), copy_lane=copies, lanes=width)
        for n, copies, width in zip(names, copy_lanes, lanes, strict=True)
    ]
    host = Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,), copy_lane=False)
    links = [Link(*ends, 0.5, 2.0) for n in names for ends in ((HOST, n), (n, HOST))]
    links += [Link(a, b, 0.25, 1.0) for a in names for b in names if a != b] if direct else []
    spaces = [MemorySpace(n, 0) for n in (*names, HOST)]
    return Platform("made", (*devices, host), tuple(spaces), tuple(links))


@st.composite
def cases(draw: st.DrawFn, simple: bool = False) -> tuple[TaskGraph, Platform]:
    """Draw a graph whose tasks read inputs and earlier results, each written once, on two or three devices.

    In simple cases every copy goes over one link, on a copy lane.
    """
    count = draw(st.integers(2, 3))
    graph = TaskGraph("random")
    arrays = [graph.array(f"i{n}", (draw(st.integers(1, 9)),), dtype="uint8") for n in range(2)]
    for n in range(draw(st.integers(1, 14))):
        read = draw(st.lists(st.integers(0, len(arrays) - 1), max_size=3, unique=True))
        result = graph.array(f"a{n}", (draw(st.integers(1, 9)),), dtype="uint8")
        # Sums of halves and quarters are exact, so equal values stay equal for every order of additions.
        on = {f"d{d}": float(draw(st.integers(1, 9))) for d in range(count)}
        accesses = [*((arrays[k], AccessMode.READ) for k in read), (result, AccessMode.WRITE)]
        add_cost_only(graph, f"t{n}", StatedCost(on=on), accesses)
        arrays.append(result)
    flags = draw(st.lists(st.just(True) if simple else st.booleans(), min_size=count, max_size=count))
    lanes = draw(st.lists(st.integers(1, 2), min_size=count, max_size=count))
    return graph, machine(count, flags, lanes, direct=simple or draw(st.booleans()))


@given(cases(simple=True), st.sampled_from(["heft", "min-min", "random", "round-robin"]))
@settings(max_examples=examples(40), deadline=None)
def test_makespan_equals_that_of_the_plan(case: tuple[TaskGraph, Platform], policy: str) -> None:
    graph, platform = case
    builder = PlanBuilder(graph, platform, CostModel(platform))
    problem = builder.problem()
    timetable = get(policy).schedule(problem)
    evaluator = QueuedEvaluator(problem.tables, copy_lanes(platform, problem), 0)
    evaluator.load(*time_start(problem, timetable))
    found = evaluator.timetable()
    # The plan issues steps in the order of their start.
    expected_s = evaluator.load(*time_start(problem, found))
    found = evaluator.timetable()
    plan = builder.build(PolicyResult(policy, "", problem, found, makespan_s(problem, found)), -math.inf)
    # Waits of allocations for the plan's peak memory are left to its simulation.
    plan = predict(replace(plan, peak_bytes={}))
    assert plan.makespan_s == pytest.approx(expected_s)


@given(cases())
@settings(max_examples=examples(20), deadline=None)
def test_makespans_decrease_and_longer_searches_begin_equally(case: tuple[TaskGraph, Platform]) -> None:
    graph, platform = case
    problem = PlanBuilder(graph, platform, CostModel(platform)).problem()
    start = get("random").schedule(problem)
    short, long = (
        [*searched_timetables(problem, platform, [start], SearchBudget(steps, None, None, seed=3))]
        for steps in (1_000, 2_500)
    )
    assert len(short) <= len(long)
    for one, other in zip(short, long, strict=False):
        assert (one.processor == other.processor).all() and (one.start_s == other.start_s).all()
    makespans = [found.makespan_s for found in long]
    assert all(after < before for before, after in pairwise(makespans))
    assert np.isfinite(makespans).all()
