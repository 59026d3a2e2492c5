# SPDX-License-Identifier: Apache-2.0
"""Every policy, on random problems of both kinds and on the corner cases, through the independent validator."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling.instances import Edges, Table, critical_path, layered, tables, work_bound
from strategies import graphs, platforms

from syclsched.costs import CostModel
from syclsched.errors import PolicyError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.scheduling import build_problem, candidates, get, problem_from_matrices, validate
from syclsched.scheduling.listscheduling import PartialSchedule, list_schedule
from syclsched.scheduling.problem import Problem

INF = math.inf
FORK_JOIN = {edge: 0.0 for i in range(1, 5) for edge in ((0, i), (i, 5))}


def check(problem: Problem, name: str) -> float:
    """Schedule, validate, compare with the bounds; return the makespan."""
    schedule = get(name).schedule(problem)
    validate(problem, schedule)
    assert schedule.policy == name
    assert len(schedule.assignments) == len(problem)
    least = max(critical_path(problem), work_bound(problem))
    assert schedule.makespan_s >= least * (1 - 1e-9)
    return schedule.makespan_s


@given(tables())
def test_tables(table: tuple[Table, Edges, list[int]]) -> None:
    costs, edges, priorities = table
    problem = problem_from_matrices(costs, edges, priorities=priorities)
    for name in candidates(problem):
        check(problem, name)


@given(graphs(), platforms())
def test_graphs(graph: TaskGraph, platform: Platform) -> None:
    problem = build_problem(graph, platform, CostModel(platform))
    for name in candidates(problem):
        check(problem, name)


@given(tables(max_tasks=20), st.data())
def test_any_ranks_give_a_valid_schedule(table: tuple[Table, Edges, list[int]], data: st.DataObject) -> None:
    costs, edges, _ = table
    problem = problem_from_matrices(costs, edges)
    ranks = data.draw(st.lists(st.integers(0, 3).map(float), min_size=len(costs), max_size=len(costs)))
    validate(problem, list_schedule(problem, ranks, "random"))


@pytest.mark.parametrize(
    ("costs", "edges", "makespan"),
    [
        ([], {}, 0.0),
        ([[3.0]], {}, 3.0),
        ([[0.0, 0.0]], {}, 0.0),
        ([[0.0] * 3] * 9, {(i, i + 1): 0.0 for i in range(8)}, 0.0),
        ([[1.0]] * 50, {(i, i + 1): 7.0 for i in range(49)}, 50.0),
        ([[INF, 2.0], [3.0, INF]], {(0, 1): 4.0}, 9.0),
        # Complete bipartite layers, for nothing: four at a time on two processors.
        ([[1.0, 1.0]] * 8, {(a, b): 0.0 for a in range(4) for b in range(4, 8)}, 4.0),
        # A source that takes no time and a sink that takes no time around independent tasks.
        (
            [[0.0, 0.0], *[[1.0, 1.0]] * 4, [0.0, 0.0]],
            FORK_JOIN,
            2.0,
        ),
    ],
)
def test_corners(costs: Table, edges: Edges, makespan: float) -> None:
    problem = problem_from_matrices(costs, dict(edges))
    assert check(problem, "heft") == makespan
    for name in candidates(problem):
        check(problem, name)


def test_thousands_of_sources_into_one_sink() -> None:
    count = 3000
    costs = [[1.0] * 4] * count + [[0.0] * 4]
    problem = problem_from_matrices(costs, {(i, count): 0.0 for i in range(count)})
    assert check(problem, "heft") == count / 4


def test_two_hundred_devices() -> None:
    problem = layered(400, 200, 3, seed=3)
    together = check(problem, "heft")
    assert together < min(check(problem, f"single:p{p}") for p in range(0, 200, 40))


def test_ties_go_by_priority_then_by_submission() -> None:
    costs = [[1.0]] * 4
    schedule = get("heft").schedule(problem_from_matrices(costs, {}, priorities=[0, 5, 0, 5]))
    assert [a.task for a in schedule.assignments] == ["t1", "t3", "t0", "t2"]


def test_priority_never_overtakes_a_dependency() -> None:
    problem = problem_from_matrices([[0.0], [0.0]], {(0, 1): 0.0}, priorities=[0, 9])
    schedule = get("heft").schedule(problem)
    validate(problem, schedule)
    assert [a.task for a in schedule.assignments] == ["t0", "t1"]


def test_the_first_of_equal_processors_is_taken() -> None:
    schedule = get("heft").schedule(problem_from_matrices([[2.0, 2.0, 2.0]] * 2, {}))
    assert [a.device for a in schedule.assignments] == ["p0", "p1"]


def test_lanes_of_a_device_run_at_once() -> None:
    single = problem_from_matrices([[1.0]] * 4, {})
    double = replace(single, processors=((0, 0), (0, 1)))
    schedule = get("heft").schedule(double)
    validate(double, schedule)
    assert schedule.makespan_s == 2.0
    assert [a.lane for a in schedule.assignments] == [0, 1, 0, 1]


def test_data_that_cannot_get_to_a_task_is_a_clear_error() -> None:
    problem = problem_from_matrices([[1.0, INF], [INF, 1.0]], {(0, 1): 2.0})
    cut = replace(problem, copy_latency_s=((0.0, INF), (INF, 0.0)))
    with pytest.raises(PolicyError, match=r"task 't1': its data cannot be brought to any device .*\(p1\)"):
        get("heft").schedule(cut)


def test_single_leaves_a_device_its_data_cannot_reach() -> None:
    problem = problem_from_matrices([[1.0, INF], [5.0, 1.0]], {(0, 1): 2.0})
    cut = replace(problem, copy_latency_s=((0.0, INF), (INF, 0.0)))
    schedule = get("single:p1").schedule(cut)
    validate(cut, schedule)
    assert [a.device for a in schedule.assignments] == ["p0", "p0"]


def test_a_partial_schedule_shows_what_is_placed() -> None:
    problem = problem_from_matrices([[2.0, 1.0], [1.0, 1.0]], {(0, 1): 3.0})
    partial = PartialSchedule(problem)
    slot = partial.earliest_finish(0, partial.options[0])
    assert (slot.processor, slot.start_s, slot.finish_s) == (1, 0.0, 1.0)
    partial.place(0, slot)
    assert partial.slots == [slot, None]
    assert [a.task for a in partial.schedule("part").assignments] == ["t0"]
    assert partial.earliest_finish(1, partial.options[1][:1]).start_s == 4.0
