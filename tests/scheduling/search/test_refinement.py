# SPDX-License-Identifier: Apache-2.0
"""The anytime search: valid, never worse, repeatable, optimal where the optimum is known."""

from __future__ import annotations

import math
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.instances import PEFT_COSTS, PEFT_EDGES, TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, layered
from support.random_problems import problems

from syclsched.errors import PolicyError
from syclsched.scheduling.construction.matrices import problem_from_matrices
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.policies.refined import Refined
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.search import default_steps, refine
from syclsched.scheduling.timetable import Timetable
from syclsched.scheduling.validate import validate


def same(one: Timetable, other: Timetable) -> bool:
    return bool(
        (one.processor == other.processor).all()
        and (one.start_s == other.start_s).all()
        and (one.finish_s == other.finish_s).all()
    )


@pytest.mark.parametrize(
    ("costs", "edges", "optimum"), [(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, 73.0), (PEFT_COSTS, PEFT_EDGES, 113.0)]
)
def test_the_textbook_instances_are_solved_to_optimality(costs, edges, optimum) -> None:
    problem = problem_from_matrices(costs, edges)
    found = refine(problem, [Heft().schedule(problem)], steps=40_000)
    validate(problem, found)
    assert makespan_s(problem, found) == pytest.approx(optimum)


@given(problems(channels=False), st.integers(0, 3))
@settings(max_examples=examples(40), deadline=None)
def test_results_are_valid_and_no_worse_than_the_start(problem: Problem, seed: int) -> None:
    start = Heft().schedule(problem)
    found = refine(problem, [start], steps=300, seed=seed)
    validate(problem, found)
    assert makespan_s(problem, found) <= makespan_s(problem, start)


@given(problems(channels=True), st.integers(0, 3))
@settings(max_examples=examples(40), deadline=None)
def test_results_are_valid_and_no_worse_with_contention(problem: Problem, seed: int) -> None:
    start = Heft().schedule(problem)
    found = refine(problem, [start], steps=40, seed=seed)
    validate(problem, found)
    assert makespan_s(problem, found) <= makespan_s(problem, start)


def test_contention_is_searched_as_well() -> None:
    rng = np.random.default_rng(5)
    edges = {(a, b): float(rng.uniform(5, 20)) for b in range(4, 24) for a in rng.choice(b, 2, replace=False).tolist()}
    problem = problem_from_matrices(rng.uniform(1, 20, (24, 3)).tolist(), edges, contention="one-port")
    start = Heft().schedule(problem)
    found = refine(problem, [start], steps=800)
    validate(problem, found)
    assert makespan_s(problem, found) < makespan_s(problem, start)


@pytest.mark.parametrize("tasks", [30, 90])
def test_refinement_improves_a_random_graph_repeatably(tasks: int) -> None:
    problem = layered(tasks, 3, 3, seed=1)
    start = Heft().schedule(problem)
    first, second = (refine(problem, [start], steps=6_000, seed=7) for _ in range(2))
    validate(problem, first)
    assert makespan_s(problem, first) < 0.99 * makespan_s(problem, start)
    assert same(first, second)


def test_the_best_of_several_starts_counts() -> None:
    problem = layered(40, 3, 2, seed=2)
    good = refine(problem, [Heft().schedule(problem)], steps=6_000)
    found = refine(problem, [Heft().schedule(problem), good], steps=1)
    assert makespan_s(problem, found) <= makespan_s(problem, good)


def test_a_start_that_meets_a_bound_is_returned() -> None:
    problem = problem_from_matrices([[1.0, 2.0], [2.0, 5.0]], {(0, 1): 3.0})
    start = Heft().schedule(problem)
    assert refine(problem, [start], steps=1_000) is start


def test_seconds_are_read_from_the_clock_that_is_given() -> None:
    problem = layered(40, 3, 2, seed=3)
    start = Heft().schedule(problem)
    ticks = count()
    found = refine(problem, [start], budget_s=50.0, clock=lambda: float(next(ticks)))
    validate(problem, found)
    assert next(ticks) in range(51, 60)
    assert makespan_s(problem, found) < makespan_s(problem, start)


def test_missing_timetables_or_clock_are_refused() -> None:
    problem = layered(10, 2, 2, seed=0)
    with pytest.raises(PolicyError, match="no timetable"):
        refine(problem, [], steps=1)
    with pytest.raises(PolicyError, match="no clock"):
        refine(problem, [Heft().schedule(problem)], budget_s=1.0)


def test_steps_by_default_are_fewer_for_more_tasks() -> None:
    assert default_steps(10) >= default_steps(100) >= default_steps(10_000) > 0


@pytest.mark.parametrize("devices", [1, 40])
def test_one_device_and_many(devices: int) -> None:
    problem = layered(30, devices, 2, seed=4)
    found = Refined(steps=500).schedule(problem)
    validate(problem, found)
    assert makespan_s(problem, found) <= makespan_s(problem, Heft().schedule(problem))


def test_a_task_stays_on_the_only_device_that_can_run_it() -> None:
    costs = [[1.0, math.inf], [math.inf, 1.0], [5.0, 1.0], [1.0, 5.0], [3.0, 3.0]]
    problem = problem_from_matrices(costs, {(0, 2): 1.0, (1, 3): 1.0, (2, 4): 0.0})
    found = refine(problem, [Heft().schedule(problem)], steps=500)
    validate(problem, found)


@pytest.mark.parametrize("steps", [53_000, 54_000, 74_000, 103_000])
def test_a_budget_of_steps_always_ends(steps: int) -> None:
    # The shares of coolings add up to 1 but for rounding; the part above 1 is never used.
    asked = count()

    def clock() -> float:
        assert next(asked) < 10_000, "it looks at the clock without making steps"
        return 0.0

    problem = layered(20, 3, 3, seed=1)
    refine(problem, [Heft().schedule(problem)], steps=steps, budget_s=1.0, clock=clock)
