# SPDX-License-Identifier: Apache-2.0
"""Graphs divided into stages: valid, forward only, and with the shortest longest stage by exhaustive search."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.random_problems import problems

from syclsched.scheduling import problem_from_matrices
from syclsched.scheduling.objectives import stages
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.validate import validate

SECONDS = st.one_of(st.integers(1, 9).map(float), st.just(math.inf))


def shortest(costs: list[list[float]]) -> float:
    """Return the length of a chain's longest piece, minimal over all divisions and orders of processors."""
    best, count = math.inf, len(costs)
    for cuts in combinations_with_replacement(range(count + 1), len(costs[0]) - 1):
        ends = [0, *cuts, count]
        for order in permutations(range(len(costs[0]))):
            sums = [sum(costs[t][p] for t in range(a, b)) for (a, b), p in zip(pairwise(ends), order, strict=True)]
            best = min(best, max(sums))
    return best


@given(
    costs=st.integers(2, 3).flatmap(
        lambda p: st.lists(st.lists(SECONDS, min_size=p, max_size=p), min_size=1, max_size=7)
    )
)
@settings(max_examples=examples(60))
def test_the_longest_stage_of_a_chain_is_as_short_as_can_be(costs: list[list[float]]) -> None:
    costs = [row if min(row) < math.inf else [1.0] * len(row) for row in costs]
    problem = problem_from_matrices(costs, {(t, t + 1): 0.0 for t in range(len(costs) - 1)})
    found, expected = stages(problem), shortest(costs)
    if found is None:
        assert expected == math.inf
        return
    loads = [0.0] * len(costs[0])
    for task, processor in enumerate(found.processor.tolist()):
        loads[processor] += costs[task][processor]
    assert max(loads) == pytest.approx(expected)


@given(problem=problems(channels=False))
@settings(max_examples=examples(40))
def test_stages_are_valid_and_forward_only(problem: Problem) -> None:
    found = stages(problem)
    if found is None:
        return
    validate(problem, found, policy="stages")
    tables = problem.tables
    edges = [
        (int(tables.pred_task[k]), task)
        for task in range(len(problem))
        for k in range(tables.pred_start[task], tables.pred_start[task + 1])
    ]
    forward = {(int(found.processor[a]), int(found.processor[b])) for a, b in edges} - {
        (p, p) for p in range(len(tables.processor_device))
    }
    assert not any((b, a) in forward for a, b in forward)


def test_one_processor_has_no_stages() -> None:
    assert stages(problem_from_matrices([[1.0], [1.0]], {(0, 1): 0.0})) is None
