# SPDX-License-Identifier: Apache-2.0
"""Orders of tasks: by rank, priority and submission, and never against a dependency."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.instances import Edges, Table, tables
from support.scheduling_reference import Reference

from syclsched.scheduling import problem_from_matrices
from syclsched.scheduling.core.orders import list_order, positions


def test_order_of_equal_ranks() -> None:
    problem = problem_from_matrices([[1.0]] * 6, {}, priorities=[0, 3, 0, 0, 0, 0])
    first, second = np.array([5.0, 5.0, 5.0, 7.0, 5.0, 5.0]), np.array([0.0, 0.0, 0.0, 0.0, 2.0, 0.0])
    order = np.argsort(positions(problem.tables, first, second)).tolist()
    assert order == [3, 4, 1, 0, 2, 5]
    assert np.argsort(positions(problem.tables)).tolist() == [1, 0, 2, 3, 4, 5]


@given(tables(max_tasks=20), st.data())
def test_of_the_ready_tasks_the_first_is_taken(table: tuple[Table, Edges, list[int]], data: st.DataObject) -> None:
    costs, edges, priorities = table
    problem = problem_from_matrices(costs, edges, priorities=priorities)
    ranks = data.draw(st.lists(st.integers(0, 3).map(float), min_size=len(costs), max_size=len(costs)))
    reference = Reference(problem)
    expected: list[int] = []

    def note(task: int) -> tuple[int, float]:
        expected.append(task)
        return 0, float(len(expected))

    reference.list_schedule(ranks, note)
    assert list_order(problem.tables, positions(problem.tables, np.array(ranks))).tolist() == expected
