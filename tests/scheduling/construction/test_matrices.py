# SPDX-License-Identifier: Apache-2.0
"""Problems from tables of costs, and refusals of inconsistent tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.instances import Edges, Table, tables

from syclsched.errors import ArgumentError, CapabilityError, CycleError, EmptyPlatformError, GraphError
from syclsched.scheduling.construction.matrices import problem_from_arrays, problem_from_matrices
from syclsched.scheduling.problem import NOTHING, Problem
from syclsched.scheduling.tables import Floats, Ints, Tables


def row(start: Ints, values: Ints | Floats, index: int) -> list[Any]:
    found: list[Any] = values[start[index] : start[index + 1]].tolist()
    return found


def test_tasks_in_topological_order_with_submission_order() -> None:
    problem = problem_from_matrices([[1.0], [2.0], [3.0]], {(2, 0): 4.0}, priorities=[7, 8, 9])
    t = problem.tables
    assert problem.names == ("t1", "t2", "t0")
    assert t.submission.tolist() == [1, 2, 0]
    assert t.priority.tolist() == [8, 9, 7]
    assert t.seconds.tolist() == [[2.0], [3.0], [1.0]]
    assert (row(t.pred_start, t.pred_task, 2), row(t.pred_start, t.pred_bytes, 2)) == ([1], [4.0])
    assert (row(t.succ_start, t.succ_task, 1), row(t.succ_start, t.succ_bytes, 1)) == ([2], [4.0])
    assert row(t.succ_start, t.succ_copies, 1) == row(t.pred_start, t.pred_copies, 2) == [1]
    assert (row(t.make_start, t.make_item, 1), row(t.make_start, t.make_replaces, 1)) == ([0], [NOTHING])
    assert row(t.read_start, t.read_item, 2) == [0]
    assert problem.item_name(0) == "array 't2->t0'"


def test_an_edge_costs_its_time_between_any_two_processors() -> None:
    problem = problem_from_matrices([[1.0] * 3] * 2, {(0, 1): 4.0})
    times = [[problem.copy_seconds(4.0, a, b) for b in range(3)] for a in range(3)]
    assert times == [[0.0, 4.0, 4.0], [4.0, 0.0, 4.0], [4.0, 4.0, 0.0]]
    assert problem.mean_copy_line() == (0.0, 1.0)


def test_links_may_differ() -> None:
    problem = problem_from_arrays(
        [[1.0, 1.0]] * 2, [0], [1], [10.0], latency_s=[[9.0, 1.0], [2.0, 9.0]], s_per_byte=[[9.0, 0.5], [0.25, 9.0]]
    )
    assert [problem.copy_seconds(10.0, 0, 1), problem.copy_seconds(10.0, 1, 0)] == [6.0, 4.5]
    assert problem.copy_seconds(10.0, 0, 0) == 0.0
    assert problem.mean_copy_line() == (1.5, 0.375)


def test_lanes_are_processors_of_one_device() -> None:
    problem = problem_from_arrays([[1.0, 1.0]], [], [], [], lanes=[2, 1])
    assert problem.processors == ((0, 0), (0, 1), (1, 0))
    assert problem.tables.device_start.tolist() == [0, 2, 3]
    with pytest.raises(ArgumentError, match="lanes"):
        problem_from_arrays([[1.0, 1.0]], [], [], [], lanes=[1, 0])


def test_one_port_has_a_port_to_send_and_a_port_to_receive() -> None:
    assert not problem_from_matrices([[1.0, 1.0]], {}).has_channels
    problem = problem_from_matrices([[1.0, 1.0]], {}, contention="one-port")
    assert problem.has_channels
    assert problem.tables.channel.tolist() == [[[-1, -1], [0, 3]], [[1, 2], [-1, -1]]]


def test_given_arrays_are_copied_and_tables_are_read_only() -> None:
    costs, before, after, times = np.ones((2, 1)), np.array([0]), np.array([1]), np.array([3.0])
    problem = problem_from_arrays(costs, before, after, times, release_s=[1.0, 2.0])
    for mine in (costs, before, after, times):
        mine[...] = 0  # still writable, without effect on the problem
    assert problem.tables.task_seconds().tolist() == [[1.0], [1.0]]
    assert problem.tables.succ_task.tolist() == [1]
    assert problem.tables.release_s.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        problem.tables.seconds[0, 0] = 2.0
    assert all(not column.flags.writeable and column.flags.c_contiguous for column in problem.tables)


def test_all_problems_have_tables_of_the_same_types() -> None:
    found = [problem_from_matrices([], {}), problem_from_arrays(np.ones((3, 2), dtype=np.float32), [0], [2], [1])]
    types = [[(column.dtype, column.ndim) for column in problem.tables] for problem in found]
    assert types[0] == types[1]
    floats = {"seconds", "release_s", "pred_bytes", "succ_bytes", "item_bytes", "latency_s", "s_per_byte"}
    floats |= {"capacity_bytes", "busy_w", "idle_w"}
    assert {name for name, (dtype, _) in zip(Tables._fields, types[0], strict=True) if dtype == np.float64} == floats


def test_an_empty_problem_is_valid() -> None:
    assert len(problem_from_matrices([], {})) == 0


def test_edges_given_twice_are_one_arc_and_two_copies() -> None:
    problem = problem_from_arrays([[1.0, 1.0]] * 2, [0, 0, 0], [1, 1, 1], [3.0, 4.0, 0.0])
    t = problem.tables
    assert t.pred_task.tolist() == [0]
    assert (t.pred_bytes.tolist(), t.succ_bytes.tolist()) == ([7.0], [7.0])
    assert (t.pred_copies.tolist(), t.succ_copies.tolist()) == ([2], [2])
    assert t.read_item.tolist() == t.make_item.tolist() == [0, 1, 2]


def arcs_of(problem: Problem) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]:
    """Return all arcs with the original numbers of the tasks, as seen from both ends."""
    t, was = problem.tables, problem.tables.submission.tolist()
    count = range(len(problem))
    back = {
        (was[b], was[i]): s
        for i in count
        for b, s in zip(row(t.pred_start, t.pred_task, i), row(t.pred_start, t.pred_bytes, i), strict=True)
    }
    forth = {
        (was[i], was[a]): s
        for i in count
        for a, s in zip(row(t.succ_start, t.succ_task, i), row(t.succ_start, t.succ_bytes, i), strict=True)
    }
    return back, forth


@given(tables())
def test_any_table_keeps_its_numbers_under_its_new_order(table: tuple[Table, Edges, list[int]]) -> None:
    costs, edges, priorities = table
    problem = problem_from_matrices(costs, edges, priorities=priorities)
    t = problem.tables
    was = t.submission.tolist()
    assert sorted(was) == list(range(len(costs)))
    assert t.seconds.tolist() == [costs[i] for i in was]
    assert t.priority.tolist() == [priorities[i] for i in was]
    assert problem.names == tuple(f"t{i}" for i in was)
    assert arcs_of(problem) == (edges, edges)
    for task in range(len(problem)):
        assert all(before < task for before in row(t.pred_start, t.pred_task, task))
        assert row(t.pred_start, t.pred_task, task) == sorted(row(t.pred_start, t.pred_task, task))
        read = row(t.read_start, t.read_item, task)
        assert [(was[t.item_producer[i]], was[task]) for i in read] == [
            (was[b], was[task]) for b in row(t.pred_start, t.pred_task, task)
        ]
        assert all(t.item_producer[i] == task for i in row(t.make_start, t.make_item, task))


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


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"costs": [1.0, 2.0]}, "1 dimensions, where tasks times processors are needed"),
        ({"edge_after": [1, 1]}, "where one length is needed"),
        ({"priorities": [1]}, r"priorities: shape \(1,\), where there are 2 tasks"),
        ({"release_s": [0.0, math.inf]}, "release_s: a time that is not finite"),
        ({"release_s": [-1.0, 0.0]}, "release_s: a time that is not finite, or less than zero"),
        ({"s_per_byte": [[0.0]]}, "s_per_byte: shape"),
        ({"latency_s": [[0.0, -1.0], [0.0, 0.0]]}, "latency_s: a time that is not zero or more"),
        ({"s_per_byte": [[0.0, math.inf], [0.0, 0.0]]}, "s_per_byte: a time"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, Any], text: str) -> None:
    given = {"costs": [[1.0, 1.0]] * 2, "edge_before": [0], "edge_after": [1], "edge_seconds": [1.0], **changes}
    with pytest.raises(GraphError, match=text):
        problem_from_arrays(**given)


def test_names_must_be_distinct_and_complete() -> None:
    with pytest.raises(GraphError, match="1 different names are given for 2 tasks"):
        problem_from_matrices([[1.0], [1.0]], {}, names=["a", "a"])
