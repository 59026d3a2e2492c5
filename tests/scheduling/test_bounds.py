# SPDX-License-Identifier: Apache-2.0
"""Lower bounds: below every timetable, and equal to values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.instances import PEFT_COSTS, PEFT_EDGES, TOPCUOGLU_COSTS, TOPCUOGLU_EDGES
from support.random_problems import problems

from syclsched.costs import CostModel
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.planner import AUTO, plan_graph
from syclsched.planner.attempt import PlanTarget, attempt
from syclsched.planner.search_budget import SearchBudget
from syclsched.scheduling import bounds
from syclsched.scheduling.bounds import (
    CHEAP_LP_VARIABLES,
    LowerBounds,
    area_multipliers,
    lower_bound,
    plan_bound_s,
    quick_bound_s,
)
from syclsched.scheduling.construction.build import build_problem
from syclsched.scheduling.construction.matrices import problem_from_arrays, problem_from_matrices
from syclsched.scheduling.objectives import minimize
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.relaxation import relaxation_s
from syclsched.scheduling.search import refine

#: Two devices with memory of their own, and links of negligible cost.
TWO = Platform(
    "two",
    (*(Device(n, n, "gpu", "opencl", n, n, (n,)) for n in "ab"), Device(HOST, HOST, HOST, HOST, HOST, HOST, (HOST,))),
    (*(MemorySpace(n, 0) for n in "ab"), MemorySpace(HOST, 0, True)),
    tuple(Link(*ends, 1e-6, 1e9) for n in "ab" for ends in ((n, HOST), (HOST, n))),
)


@given(problems(channels=False))
@settings(max_examples=examples(30), deadline=None)
def test_no_timetable_is_below_any_part(problem: Problem) -> None:
    bound = lower_bound(problem)
    shortest_s = makespan_s(problem, refine(problem, [Heft().schedule(problem)], steps=300)) * (1 + 1e-9) + 1e-12
    for part in (bound.path_s, bound.area_s, bound.count_s, bound.release_s, bound.transfer_s, bound.lp_s or 0.0):
        assert 0.0 <= part <= shortest_s
    assert quick_bound_s(problem) <= shortest_s


@given(problems(channels=True))
@settings(max_examples=examples(30), deadline=None)
def test_nor_with_contention(problem: Problem) -> None:
    assert lower_bound(problem).best_s <= makespan_s(problem, Heft().schedule(problem)) * (1 + 1e-9) + 1e-12


@given(problems(channels=False), st.booleans())
@settings(max_examples=examples(30), deadline=None)
def test_equal_devices_taken_as_one_give_a_weaker_bound(problem: Problem, equal: bool) -> None:
    if equal and len(problem):
        seconds = np.repeat(problem.tables.task_seconds().min(axis=1, keepdims=True), len(problem.devices), axis=1)
        problem = problem.with_task_seconds(seconds)
    found = lower_bound(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_ARC_WORK", -1)
        merged, quick_s = lower_bound(problem), quick_bound_s(problem)
    assert merged.lp_s is None
    assert merged.transfer_s <= found.transfer_s * (1 + 1e-12) and quick_s <= found.best_s * (1 + 1e-9)
    assert (merged.path_s, merged.count_s, merged.release_s) == (found.path_s, found.count_s, found.release_s)
    assert merged.area_s <= makespan_s(problem, Heft().schedule(problem)) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(
    ("costs", "edges", "optimum"), [(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, 73.0), (PEFT_COSTS, PEFT_EDGES, 113.0)]
)
def test_the_textbook_instances(costs, edges, optimum) -> None:
    bound = lower_bound(problem_from_matrices(costs, edges))
    assert 0.5 * optimum < bound.best_s <= optimum


def test_length_of_a_chain_with_copies() -> None:
    problem = problem_from_matrices([[1.0, math.inf], [math.inf, 2.0]], {(0, 1): 5.0})
    bound = lower_bound(problem)
    assert (bound.path_s, bound.transfer_s) == (3.0, 8.0)
    assert bound.lp_s == pytest.approx(8.0, rel=1e-5)
    assert bound.best_s == pytest.approx(8.0)
    assert bound.gap(10.0) == pytest.approx(0.25)


def test_independent_tasks_fill_the_area() -> None:
    bound = lower_bound(problem_from_matrices([[2.0, 2.0]] * 10, {}))
    assert bound.area_s == pytest.approx(10.0)


def test_equal_tasks_do_not_share_lanes() -> None:
    assert lower_bound(problem_from_matrices([[2.0] * 3] * 10, {})).count_s == 8.0  # four of ten are on one of three
    assert lower_bound(problem_from_matrices([[2.0] * 3] * 9, {})).count_s == 6.0
    assert lower_bound(problem_from_matrices([[2.0] * 3] * 3, {})).count_s == 0.0
    different = [[9.0, 9.0], [5.0, 6.0], [7.0, 4.0], [1.0, 1.0]]  # two of the three longest are on one
    assert lower_bound(problem_from_matrices(different, {})).count_s == 9.0
    one_can = problem_from_matrices([[2.0, math.inf]] * 4, {})
    assert lower_bound(one_can).count_s == 8.0


def test_lanes_widen_the_area() -> None:
    assert lower_bound(problem_from_arrays([[2.0]] * 10, [], [], [], lanes=[4])).area_s == pytest.approx(5.0)


def test_the_quick_bound_of_equal_tasks_is_exact() -> None:
    assert quick_bound_s(problem_from_arrays([[2.0]] * 11, [], [], [], lanes=[2])) == 12.0
    assert quick_bound_s(problem_from_matrices([[2.0, math.inf]] * 5, {})) == 10.0


def test_a_single_device_does_everything() -> None:
    seconds = np.array([[math.inf, 0.1], [math.inf, 0.2]])
    bound, worth = area_multipliers(seconds, np.array([50, 50]), np.array([3, 2]))
    assert bound == pytest.approx(7.5, rel=1e-12)
    assert np.isfinite(worth).all() and (worth > 0.0).all()


@given(problems(channels=False, max_devices=1))
@settings(max_examples=examples(30), deadline=None)
def test_with_one_device_the_relaxation_adds_nothing(problem: Problem) -> None:
    tables, found = problem.tables, lower_bound(problem)
    hops = bounds._hops(tables, *bounds._least_copies(tables))
    relaxed_s = relaxation_s(tables, *bounds._heads_and_tails(tables), hops)
    assert found.lp_s is None
    assert (relaxed_s or 0.0) <= found.best_s * (1 + 1e-9)


def test_a_release_moves_the_chain_behind_it() -> None:
    problem = problem_from_arrays([[1.0], [1.0]], [0], [1], [0.0], release_s=[9.0, 0.0])
    assert lower_bound(problem).release_s == 11.0


def test_multipliers_make_devices_of_their_own_kind_of_work_equal() -> None:
    seconds = np.array([[1.0, 100.0], [100.0, 2.0]])
    bound, worth = area_multipliers(seconds, np.array([6, 3]), np.array([1, 1]))
    assert bound == pytest.approx(6.0, rel=0.02)
    assert worth.sum() == pytest.approx(1.0)
    apart = np.repeat(seconds, [6, 3], axis=0)  # equal rows are one kind, in any representation
    assert area_multipliers(apart, np.ones(9, np.int64), np.array([1, 1]))[0] == bound


def test_bounds_of_an_empty_problem_are_zero() -> None:
    bound = LowerBounds(0.0, 0.0, 0.0, 0.0, 0.0)
    assert (bound.best_s, bound.gap(0.0), bound.gap(1.0)) == (0.0, 0.0, math.inf)


def test_plans_carry_the_relaxation_where_it_is_cheap() -> None:
    small = problem_from_matrices(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES)
    assert plan_bound_s(small) == lower_bound(small).best_s > lower_bound(small, lp=False).best_s
    tasks = CHEAP_LP_VARIABLES // 4 + 2
    large = problem_from_matrices([[1.0, 2.0]] * tasks, {(i, i + 1): 1.0 for i in range(tasks - 1)})
    assert plan_bound_s(large) == lower_bound(large, lp=False).best_s


def test_bounds_ignore_write_after_read_order_of_reused_names() -> None:
    graph = TaskGraph("names")
    x, y = graph.array("x", (8,)), graph.array("y", (8,))
    cost = StatedCost(None, {"a": 1.0, "b": 1.0})
    add_cost_only(graph, "first", cost, [(x, AccessMode.WRITE)])
    add_cost_only(graph, "reader", cost, [(x, AccessMode.READ)])
    add_cost_only(graph, "again", cost, [(x, AccessMode.WRITE)])  # WAR
    add_cost_only(graph, "last", cost, [(x, AccessMode.WRITE)])  # WAW
    add_cost_only(graph, "other", cost, [(y, AccessMode.WRITE)])
    graph.edge("other", "last")  # kept for any use
    problem = build_problem(graph, TWO, CostModel(TWO))
    loose = {
        (problem.names[problem.tables.pred_task[k]], after)
        for task, after in enumerate(problem.names)
        for k in range(problem.tables.pred_start[task], problem.tables.pred_start[task + 1])
        if k in problem.reuse_arcs
    }
    assert loose == {("reader", "again"), ("again", "last")}
    assert lower_bound(problem).path_s == 4.0
    assert plan_bound_s(problem) == pytest.approx(3.0)  # five tasks on two devices; chains of two
    plan = plan_graph(graph, TWO)
    assert plan.lower_bound_s == pytest.approx(3.0) and plan.makespan_s == pytest.approx(3.0, rel=1e-3)
    target = PlanTarget(TWO, CostModel(TWO), AUTO, minimize("makespan"), bounded=False)
    unbounded = attempt(graph, target, SearchBudget(None, None, None, 0)).finished()
    assert unbounded.lower_bound_s == 0.0 and unbounded.makespan_s == plan.makespan_s


def test_nor_be_without_a_copy_that_is_relayed() -> None:
    slow = replace(TWO, links=(*TWO.links, Link("a", "b", 5.0, 1e9), Link("b", "a", 5.0, 1e9)))
    graph = TaskGraph("relay")
    x = graph.array("x", (8,))
    add_cost_only(graph, "make", StatedCost(None, {"a": 1.0}), [(x, AccessMode.WRITE)])
    add_cost_only(graph, "use", StatedCost(None, {"b": 1.0}), [(x, AccessMode.READ)])
    problem = build_problem(graph, slow, CostModel(slow))
    assert lower_bound(problem).transfer_s > 7.0
    assert 2.0 < plan_bound_s(problem) < 2.001


@pytest.mark.parametrize("unit_s", [1e-12, 1e-9, 1e-6, 1.0, 1e9])
def test_the_relaxation_is_as_good_in_any_unit(unit_s: float) -> None:
    costs = [[c * unit_s for c in row] for row in TOPCUOGLU_COSTS]
    edges = {edge: unit_s * cost for edge, cost in TOPCUOGLU_EDGES.items()}
    found = lower_bound(problem_from_matrices(costs, edges)).lp_s
    expected = lower_bound(problem_from_matrices(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES)).lp_s
    assert found == pytest.approx(unit_s * expected, rel=1e-9)
