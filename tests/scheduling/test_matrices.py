# SPDX-License-Identifier: Apache-2.0
"""Tables become problems, and tables that make no sense are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from syclsched.errors import CapabilityError, CycleError, EmptyPlatformError, GraphError
from syclsched.scheduling.matrices import problem_from_matrices
from syclsched.scheduling.problem import Arc, Product


def test_tasks_stand_in_topological_order_and_remember_their_own() -> None:
    problem = problem_from_matrices([[1.0], [2.0], [3.0]], {(2, 0): 4.0}, priorities=[7, 8, 9])
    assert problem.names == ("t1", "t2", "t0")
    assert problem.submission == (1, 2, 0)
    assert problem.priorities == (8, 9, 7)
    assert problem.seconds.tolist() == [[2.0], [3.0], [1.0]]
    assert problem.predecessors[2] == (Arc(1, "RAW", "t2->t0", 4.0),)
    assert problem.successors[1] == (Arc(2, "RAW", "t2->t0", 4.0),)
    assert problem.makes[1] == (Product(0, -1),)
    assert problem.reads[2] == (0,)


def test_an_edge_costs_its_time_between_any_two_processors() -> None:
    problem = problem_from_matrices([[1.0] * 3] * 2, {(0, 1): 4.0})
    times = [[problem.copy_seconds(4.0, a, b) for b in range(3)] for a in range(3)]
    assert times == [[0.0, 4.0, 4.0], [4.0, 0.0, 4.0], [4.0, 4.0, 0.0]]
    assert problem.mean_copy_line() == (0.0, 1.0)


def test_the_table_cannot_be_changed_afterwards() -> None:
    problem = problem_from_matrices([[1.0]], {})
    with pytest.raises(ValueError, match="read-only"):
        problem.seconds[0, 0] = 2.0


def test_no_tasks_is_a_problem_too() -> None:
    assert len(problem_from_matrices([], {})) == 0


@pytest.mark.parametrize(
    ("costs", "edges", "error", "text"),
    [
        ([[1.0], [1.0]], {(0, 1): 1.0, (1, 0): 1.0}, CycleError, "t0 -> t1 -> t0|t1 -> t0 -> t1"),
        ([[1.0]], {(0, 0): 1.0}, CycleError, "t0 -> t0"),
        ([[1.0]], {(0, 1): 1.0}, GraphError, r"edge \(0, 1\): there are tasks 0 to 0 only"),
        ([[1.0]], {(-1, 0): 1.0}, GraphError, "there are tasks 0 to 0 only"),
        ([[1.0]] * 2, {(0, 1): math.nan}, GraphError, "nan is not a finite time"),
        ([[1.0]] * 2, {(0, 1): math.inf}, GraphError, "inf is not a finite time"),
        ([[1.0]] * 2, {(0, 1): -1.0}, GraphError, "-1.0 is not a finite time"),
        ([[-1.0]], {}, GraphError, "costs of task 't0': -1.0 is not a time"),
        ([[math.nan]], {}, GraphError, "nan is not a time"),
        ([[1.0], [1.0, 2.0]], {}, GraphError, "2 processors, where the first task has 1"),
        ([[math.inf, math.inf]], {}, CapabilityError, "no processor can run it"),
        ([[]], {}, EmptyPlatformError, "no processors"),
    ],
)
def test_nonsense_is_refused(costs: Any, edges: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        problem_from_matrices(costs, edges)


def test_names_must_be_as_many_and_different() -> None:
    with pytest.raises(GraphError, match="1 different names are given for 2 tasks"):
        problem_from_matrices([[1.0], [1.0]], {}, names=["a", "a"])
