# SPDX-License-Identifier: Apache-2.0
"""The multipliers of the dual simplex method, which prove the optimum found by a library."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from syclsched.scheduling.dual_simplex import dual_multipliers
from syclsched.scheduling.tables import Floats


def optimum(cost: Floats, less: Floats, less_right: Floats, equal: Floats, equal_right: Floats) -> float:
    """Return the bound that the multipliers prove."""
    found = dual_multipliers(cost, less, less_right, equal, equal_right)
    assert found is not None
    assert (found[0] <= 0.0).all()
    reduced = cost - less.T @ found[0] - equal.T @ found[1]
    assert reduced.min() >= -1e-7
    return float(less_right @ found[0] + equal_right @ found[1])


def test_a_worked_example() -> None:
    # min 2x + 3y with x + y = 4, x <= 1: y = 3.
    none = np.zeros((0, 2))
    assert optimum(
        np.array([2.0, 3.0]), np.array([[1.0, 0.0]]), np.array([1.0]), np.ones((1, 2)), np.array([4.0])
    ) == pytest.approx(11.0)
    assert optimum(np.array([1.0, 0.0]), none, np.zeros(0), np.ones((1, 2)), np.array([1.0])) == pytest.approx(0.0)


def test_without_a_solution_there_are_no_multipliers() -> None:
    equal = np.array([[1.0, 1.0], [1.0, 1.0]])
    assert dual_multipliers(np.ones(2), np.zeros((0, 2)), np.zeros(0), equal, np.array([1.0, 2.0])) is None


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 8), st.integers(0, 4))
def test_random_programmes_have_the_optimum_of_highs(
    seed: int, columns: int, inequalities: int, equations: int
) -> None:
    random = np.random.default_rng(seed)
    point = random.integers(0, 4, columns).astype(float)  # feasible
    less = random.integers(-3, 4, (inequalities, columns)).astype(float)
    equal = random.integers(-3, 4, (equations, columns)).astype(float)
    less_right, equal_right = less @ point + random.integers(0, 3, inequalities), equal @ point
    cost = random.integers(0, 5, columns).astype(float)
    known = linprog(cost, less, less_right, equal, equal_right)
    assert known.status == 0
    assert optimum(cost, less, less_right, equal, equal_right) == pytest.approx(known.fun, abs=1e-6)
