# SPDX-License-Identifier: Apache-2.0
"""Ranks, compared with the paper's table and with their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from support.definitions import with_tables
from support.instances import TOPCUOGLU_COSTS, TOPCUOGLU_EDGES
from support.random_problems import problems
from support.scheduling_reference import upward_ranks as expected_ranks

from syclsched.scheduling import Problem, problem_from_matrices
from syclsched.scheduling.core.list_schedulers import mean_upward_ranks
from syclsched.scheduling.core.ranks import downward_ranks, mean_seconds, next_ranks, upward_ranks


def test_the_ranks_of_topcuoglu_2002() -> None:
    problem = problem_from_matrices(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES)
    # The paper's table, to its three decimals.
    upward = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert mean_upward_ranks(problem) == pytest.approx(upward, abs=1e-3)
    downward = [0.000, 31.000, 25.000, 22.000, 24.000, 27.000, 62.333, 66.667, 63.667, 93.333]
    found = downward_ranks(problem.tables, mean_seconds(problem.tables), *problem.mean_copy_line())
    assert found == pytest.approx(downward, abs=1e-3)


def test_devices_that_cannot_run_a_task_do_not_count() -> None:
    assert mean_seconds(problem_from_matrices([[2.0, math.inf, 4.0]], {}).tables).tolist() == [3.0]


def test_next_ranks_are_the_highest_of_the_successors() -> None:
    tables = problem_from_matrices([[1.0]] * 4, {(0, 1): 0.0, (0, 2): 0.0, (2, 3): 0.0}).tables
    assert next_ranks(tables, np.array([9.0, 2.0, 5.0, 1.0])).tolist() == [5.0, 0.0, 1.0, 0.0]


@given(problems(channels=False))
def test_upward_ranks_are_longest_paths(problem: Problem) -> None:
    assert mean_upward_ranks(problem) == pytest.approx(expected_ranks(problem))


@given(problems(channels=False))
def test_upward_and_downward_ranks_meet(problem: Problem) -> None:
    """Without releases, the longest paths upward and downward are equal, and some task is on the longest of all."""
    tables = with_tables(problem, release_s=np.zeros(len(problem))).tables
    weights, line = mean_seconds(tables), problem.mean_copy_line()
    through = upward_ranks(tables, weights, *line) + downward_ranks(tables, weights, *line)
    assert through.max() == pytest.approx(upward_ranks(tables, weights, *line).max())
