# SPDX-License-Identifier: Apache-2.0
"""Pareto fronts: valid, non-dominated, with the best of each metric at the ends, and exact for tiny problems."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.definitions import with_tables
from support.instances import layered

from syclsched.errors import PolicyError
from syclsched.scheduling import problem_from_matrices, validate
from syclsched.scheduling.objectives import evaluate, front
from syclsched.scheduling.objectives.front import dominates
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.search.constrained.evaluator import ConstrainedEvaluator


def powered(problem: Problem) -> Problem:
    """Fast devices take more power."""
    count = len(problem.devices)
    return with_tables(problem, busy_w=10.0 * 4.0 ** np.arange(count), idle_w=np.arange(count, dtype=float))


def tiny(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    base = rng.uniform(4.0, 9.0, 5)
    costs = np.stack([base, base / 2.0], axis=1) * rng.uniform(0.8, 1.2, (5, 2))
    return powered(problem_from_matrices(costs.tolist(), {(0, 2): 1.0, (1, 2): 2.0, (2, 4): 1.0, (3, 4): 1.0}))


def true_front(problem: Problem) -> list[tuple[float, float]]:
    """Return all non-dominated (makespan, energy) over placements and orders."""
    evaluator, found = ConstrainedEvaluator(problem, power=True), set()
    order_of = [o for o in itertools.permutations(range(5)) if o.index(0) < o.index(2) > o.index(1) and o[-1] == 4]
    for order in order_of:
        for processor in itertools.product(range(2), repeat=5):
            makespan_s, _, energy_j = evaluator.values(np.array(order), np.array(processor)).tolist()
            found.add((makespan_s, energy_j))
    return [p for p in found if not any(dominates(q, p) for q in found)]


@pytest.mark.parametrize("seed", range(3))
def test_the_front_of_a_tiny_problem_is_true(seed: int) -> None:
    problem = tiny(seed)
    expected = true_front(problem)
    found = front(problem, points=10, steps=30_000)
    for point in found:
        validate(problem, point.timetable)
        metrics = evaluate(problem, point.timetable)
        assert (metrics.makespan_s, metrics.energy_j) == pytest.approx(point.values)
        # No point dominates the true front, and the best found ones are on it.
        assert any(point.values == pytest.approx(p, rel=1e-6) for p in expected)
    for metric in (0, 1):
        assert min(p.values[metric] for p in found) == pytest.approx(min(p[metric] for p in expected))


def test_points_do_not_dominate_each_other_and_rise() -> None:
    problem = powered(layered(30, 3, 2, 3))
    found = front(problem, ("makespan", "energy", "memory"), points=3, steps=6000)
    assert len(found) > 2
    for one, other in itertools.permutations(found, 2):
        assert not dominates(one.values, other.values)
    assert [p.values for p in found] == sorted(p.values for p in found)
    again = front(problem, ("makespan", "energy", "memory"), points=3, steps=6000)
    assert [p.values for p in again] == [p.values for p in found]


def test_invalid_fronts_are_refused() -> None:
    problem = layered(5, 2, 1, 1)
    for metrics in ((), ("makespan",), ("makespan", "makespan")):
        with pytest.raises(PolicyError, match="Give two different metrics"):
            front(problem, metrics)
    with pytest.raises(PolicyError, match="no power is known"):
        front(problem)
    with pytest.raises(PolicyError, match="no metric 'speed'"):
        front(problem, ("makespan", "speed"))


@given(st.lists(st.floats(0.0, 10.0), min_size=2, max_size=2), st.lists(st.floats(0.0, 10.0), min_size=2, max_size=2))
def test_domination_is_a_strict_order(one: list[float], other: list[float]) -> None:
    assert not dominates(one, one)
    assert not (dominates(one, other) and dominates(other, one))
