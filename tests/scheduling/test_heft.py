# SPDX-License-Identifier: Apache-2.0
"""HEFT reproduces the examples of the literature, task by task where the paper prints them."""

from __future__ import annotations

import pytest
from scheduling.instances import PEFT_COSTS, PEFT_EDGES, TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, layered

from syclsched.scheduling import problem_from_matrices, validate
from syclsched.scheduling.heft import Heft


def test_topcuoglu_2002() -> None:
    problem = problem_from_matrices(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES)
    schedule = Heft().schedule(problem)
    validate(problem, schedule)
    assert schedule.makespan_s == 80
    # The paper's chart: processor and start of every task.
    placed = {a.task: (a.device, a.start_s) for a in schedule.assignments}
    assert placed == {
        "t0": ("p2", 0), "t2": ("p2", 9), "t3": ("p1", 18), "t4": ("p2", 28), "t1": ("p0", 27),
        "t5": ("p1", 26), "t8": ("p1", 56), "t6": ("p2", 38), "t7": ("p0", 57), "t9": ("p1", 73),
    }  # fmt: skip


def test_peft_2014() -> None:
    problem = problem_from_matrices(PEFT_COSTS, PEFT_EDGES)
    schedule = Heft().schedule(problem)
    validate(problem, schedule)
    assert schedule.makespan_s == 133


def test_equal_problems_give_equal_schedules() -> None:
    assert Heft().schedule(layered(200, 5, 3, seed=1)) == Heft().schedule(layered(200, 5, 3, seed=1))


def test_free_communication_needs_no_luck() -> None:
    """Two equal chains on two processors: each gets one."""
    edges = {(0, 2): 5.0, (2, 4): 5.0, (1, 3): 5.0, (3, 5): 5.0}
    schedule = Heft().schedule(problem_from_matrices([[1.0, 1.0]] * 6, edges))
    assert schedule.makespan_s == 3.0
    assert {(a.task, a.device) for a in schedule.assignments} == {
        ("t0", "p0"), ("t2", "p0"), ("t4", "p0"), ("t1", "p1"), ("t3", "p1"), ("t5", "p1"),
    }  # fmt: skip


@pytest.mark.parametrize("transfer", [0.0, 3.0])
def test_insertion_fills_a_gap(transfer: float) -> None:
    """A chain alternates between processors; a small task of low rank fits into the wait of either."""
    inf = float("inf")
    costs = [[4.0, inf], [inf, 4.0], [4.0, inf], [2.0, inf]]
    schedule = Heft().schedule(problem_from_matrices(costs, {(0, 1): transfer, (1, 2): transfer}))
    small = next(a for a in schedule.assignments if a.task == "t3")
    assert (small.start_s, small.finish_s) == (4.0, 6.0)
    assert schedule.makespan_s == 12.0 + 2 * transfer
