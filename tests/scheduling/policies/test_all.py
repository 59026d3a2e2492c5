# SPDX-License-Identifier: Apache-2.0
"""Every policy, on random problems of all kinds and on corner cases, checked by the independent validator."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.instances import Edges, Table, critical_path, layered, tables, work_bound
from support.random_problems import READ, WRITE, build, problems
from support.strategies import graphs, platforms

from syclsched.costs import CostModel
from syclsched.errors import PolicyError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.scheduling import (
    Problem,
    Timetable,
    build_problem,
    candidates,
    get,
    makespan_s,
    names,
    problem_from_arrays,
    problem_from_matrices,
    validate,
)

INF = math.inf
#: The policies from the literature, and one search; policies of tests and of other packages have their own tests.
POLICIES = [
    "heft", "cpop", "peft", "lookahead", "dls", "etf", "mcp", "min-min", "max-min", "sufferage", "clustering",
    "round-robin", "random",
]  # fmt: skip


def check(problem: Problem, name: str) -> Timetable:
    """Schedule twice, compare, validate, compare with the bounds."""
    timetable, again = get(name).schedule(problem), get(name).schedule(problem)
    for column in ("processor", "start_s", "finish_s"):
        assert np.array_equal(getattr(timetable, column), getattr(again, column))
    validate(problem, timetable)
    least = max(critical_path(problem), work_bound(problem))
    assert makespan_s(problem, timetable) >= timetable.makespan_s >= least * (1 - 1e-9)
    return timetable


def every(problem: Problem) -> list[str]:
    """Return all policies, and each device alone."""
    return [*POLICIES, *(name for name in candidates(problem) if name.startswith("single:"))]


def test_all_are_registered() -> None:
    assert {*POLICIES, "single:<device>"} <= set(names())
    assert set(POLICIES) <= set(candidates(problem_from_matrices([[1.0]], {})))


@given(tables())
def test_tables(table: tuple[Table, Edges, list[int]]) -> None:
    costs, edges, priorities = table
    problem = problem_from_matrices(costs, edges, priorities=priorities)
    for name in every(problem):
        check(problem, name)


@given(st.booleans().flatmap(lambda channels: problems(channels=channels)))
def test_problems(problem: Problem) -> None:
    for name in every(problem):
        check(problem, name)


@given(st.booleans().flatmap(lambda channels: problems(channels=channels, unreachable=True)))
def test_unreachable_data_is_avoided_or_reported(problem: Problem) -> None:
    for name in every(problem):
        try:
            timetable = get(name).schedule(problem)
        except PolicyError as error:
            assert "its data cannot be brought to any device that can run it" in str(error)
            assert str(error).startswith("task 't")
        else:
            validate(problem, timetable)


@settings(max_examples=examples(50))
@given(graphs(), platforms())
def test_graphs(graph: TaskGraph, platform: Platform) -> None:
    problem = build_problem(graph, platform, CostModel(platform))
    for name in every(problem):
        check(problem, name)


@pytest.mark.parametrize("name", [*POLICIES, "single:p0"])
@pytest.mark.parametrize("contention", ["none", "one-port"])
@pytest.mark.parametrize(
    ("costs", "edges"),
    [
        ([], {}),
        ([[3.0]], {}),
        ([[0.0, 0.0]], {}),
        ([[0.0] * 3] * 9, {(i, i + 1): 0.0 for i in range(8)}),
        ([[1.0, 2.0]] * 50, {(i, i + 1): 7.0 for i in range(49)}),
        ([[INF, 2.0], [3.0, INF]], {(0, 1): 4.0}),
        ([[1.0, 1.0]] * 8, {(a, b): 3.0 for a in range(4) for b in range(4, 8)}),
        # One device can run one task only, which no other can run.
        ([[1.0, INF], [INF, 1.0], [2.0, INF], [3.0, INF]], {(0, 1): 1.0, (1, 2): 1.0}),
        # A source and a sink that take no time around independent tasks.
        ([[0.0, 0.0], *[[1.0, 1.0]] * 4, [0.0, 0.0]], {e: 0.0 for i in range(1, 5) for e in ((0, i), (i, 5))}),
    ],
    ids=["empty", "one", "free", "free-chain", "chain", "fixed", "bipartite", "one-task-device", "fork-join"],
)
def test_corners(name: str, contention: str, costs: Table, edges: Edges) -> None:
    if costs or not name.startswith("single"):
        check(problem_from_matrices(costs, edges, contention=contention), name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*POLICIES, "single:p1"])
def test_a_thousand_sources_into_one_sink(name: str) -> None:
    count = 1000
    costs = [[1.0] * 4] * count + [[0.0] * 4]
    problem = problem_from_matrices(costs, {(i, count): 0.0 for i in range(count)})
    timetable = check(problem, name)
    if name not in ("random", "single:p1"):
        assert timetable.makespan_s == count / 4


@pytest.mark.parametrize("name", [*POLICIES, "single:p7"])
def test_two_hundred_devices(name: str) -> None:
    check(layered(400, 200, 3, seed=3), name)


@pytest.mark.parametrize("name", POLICIES)
def test_releases_and_lanes(name: str) -> None:
    problem = problem_from_arrays([[1.0]] * 4, [], [], [], release_s=[0.0, 5.0, 5.0, 5.0], lanes=[2])
    timetable = check(problem, name)
    # Max-min chooses last the task that can complete first, and does not insert it before the others.
    first_s = 6.0 if name == "max-min" else 0.0
    assert timetable.start_s[0] == first_s
    assert timetable.makespan_s == 7.0


@pytest.mark.parametrize("name", [*(name for name in POLICIES if name != "random"), "single:p0"])
def test_ties_go_by_priority_then_by_submission(name: str) -> None:
    """Equal tasks on one device; the numbers of the tasks are not their order of submission."""
    problem = build(
        [[1.0]] * 5, [[0]], [1.0], [0], [{}] * 5, [[0.0]], [[0.0]], priority=[0, 5, 0, 5, 0], submission=[4, 1, 0, 3, 2]
    )
    timetable = check(problem, name.replace("p0", "d0"))
    assert np.argsort(timetable.start_s).tolist() == [1, 3, 2, 4, 0]


@pytest.mark.parametrize("name", POLICIES)
def test_priority_never_overtakes_a_dependency(name: str) -> None:
    problem = problem_from_matrices([[1.0], [1.0]], {(0, 1): 0.0}, priorities=[0, 9])
    assert check(problem, name).start_s.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "random"])
def test_the_first_of_equal_devices_is_taken(name: str) -> None:
    timetable = check(problem_from_matrices([[2.0, 2.0, 2.0]] * 2, {}), name)
    assert timetable.processor.tolist() == [0, 1]


@pytest.mark.parametrize("name", POLICIES)
def test_data_in_shared_memory_is_not_copied(name: str) -> None:
    """Two devices in one space: under every policy, the chain takes its own time only."""
    accesses = [{0: WRITE}, {0: READ, 1: WRITE}, {1: READ}]
    problem = build(
        [[1.0, 1.0]] * 3, [[0], [0]], [50.0, 50.0], [0, 0], accesses, [[0.0, 9.0], [9.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]
    )
    assert check(problem, name).makespan_s == 3.0


def test_random_depends_on_its_seed() -> None:
    from syclsched.scheduling.policies.baselines import Random

    problem = layered(60, 4, 2, seed=5)
    first, second = Random().schedule(problem), Random(seed=1).schedule(problem)
    assert not np.array_equal(first.processor, second.processor)
    validate(problem, second)


@pytest.mark.parametrize("name", [*POLICIES, "single:p0"])
def test_policies_say_how_large_a_problem_may_be(name: str) -> None:
    limit = getattr(get(name), "max_tasks", 0)
    assert limit is None or limit >= 10_000
