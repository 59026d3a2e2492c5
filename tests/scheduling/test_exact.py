# SPDX-License-Identifier: Apache-2.0
"""Tests of the exact engine: optimal against all schedules of small problems, and honest where it is missing."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from support.instances import PEFT_COSTS, PEFT_EDGES, TOPCUOGLU_COSTS, TOPCUOGLU_EDGES
from support.random_problems import problems

from syclsched.errors import PolicyError
from syclsched.scheduling.bounds import lower_bound
from syclsched.scheduling.exact import solve
from syclsched.scheduling.matrices import problem_from_matrices
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.search import refine
from syclsched.scheduling.validate import validate


def need_ortools() -> None:
    pytest.importorskip("ortools.sat.python.cp_model", reason="the extra 'exact' is not installed")


@pytest.mark.parametrize(
    ("costs", "edges", "optimum"), [(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, 73.0), (PEFT_COSTS, PEFT_EDGES, 113.0)]
)
def test_the_textbook_instances_are_proved_optimal(costs, edges, optimum) -> None:
    need_ortools()
    problem = problem_from_matrices(costs, edges)
    found = solve(problem, Heft().schedule(problem), limit_s=300.0)
    validate(problem, found.timetable)
    assert found.optimal
    assert found.makespan_s == pytest.approx(optimum)
    assert found.bound_s == pytest.approx(optimum, rel=1e-3)


@given(problems(channels=False, max_tasks=7, max_devices=3))
@settings(max_examples=25, deadline=None)
def test_the_search_never_finds_less_than_what_is_proved_optimal(problem: Problem) -> None:
    need_ortools()
    start = Heft().schedule(problem)
    found = solve(problem, start, limit_s=300.0)
    validate(problem, found.timetable)
    assert found.optimal
    assert makespan_s(problem, found.timetable) == found.makespan_s <= makespan_s(problem, start)
    assert lower_bound(problem).best_s <= found.makespan_s * (1 + 1e-9) + 1e-12
    searched_s = makespan_s(problem, refine(problem, [start], steps=3_000))
    assert searched_s >= found.bound_s * (1 - 1e-9)
    assert found.makespan_s <= searched_s * (1 + 1e-4)


def test_it_says_what_to_install_where_ortools_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    problem = problem_from_matrices([[1.0, 2.0]], {})
    with pytest.raises(PolicyError, match=r"syclsched\[exact\]"):
        solve(problem, Heft().schedule(problem))


def test_contention_is_refused() -> None:
    need_ortools()
    problem = problem_from_matrices([[1.0, 2.0], [2.0, 1.0]], {(0, 1): 1.0}, contention="one-port")
    with pytest.raises(PolicyError, match="channels"):
        solve(problem, Heft().schedule(problem))
