# SPDX-License-Identifier: Apache-2.0
"""Upward ranks, against the paper's table and against their definition."""

from __future__ import annotations

import math

from hypothesis import given
from scheduling.instances import TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, Edges, Table, tables

from syclsched.scheduling.matrices import problem_from_matrices
from syclsched.scheduling.ranks import mean_seconds, upward_ranks


def test_the_ranks_of_topcuoglu_2002() -> None:
    problem = problem_from_matrices(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES)
    # The paper's table, to its three decimals.
    published = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert all(abs(a - b) < 1e-3 for a, b in zip(upward_ranks(problem), published, strict=True))


def test_devices_that_cannot_run_a_task_do_not_count() -> None:
    assert mean_seconds(problem_from_matrices([[2.0, math.inf, 4.0]], {})) == [3.0]


@given(tables())
def test_as_the_definition_says(table: tuple[Table, Edges, list[int]]) -> None:
    costs, edges, _ = table
    problem = problem_from_matrices(costs, edges)
    several = len(problem.devices) > 1

    def rank(task: int) -> float:
        able = [c for c in costs[task] if c < math.inf]
        after = [(t if several else 0.0) + rank(b) for (a, b), t in edges.items() if a == task]
        return sum(able) / len(able) + max(after, default=0.0)

    found = upward_ranks(problem)
    for position, task in enumerate(problem.submission):
        assert math.isclose(found[position], rank(task), abs_tol=1e-9)
