# SPDX-License-Identifier: Apache-2.0
"""HEFT on small problems: free communication, and insertion into gaps."""

from __future__ import annotations

import pytest

from syclsched.scheduling import problem_from_matrices, validate
from syclsched.scheduling.policies.heft import Heft


def test_two_equal_chains_get_one_processor_each() -> None:
    """Two equal chains on two processors: each gets one."""
    edges = {(0, 2): 5.0, (2, 4): 5.0, (1, 3): 5.0, (3, 5): 5.0}
    timetable = Heft().schedule(problem_from_matrices([[1.0, 1.0]] * 6, edges))
    assert timetable.makespan_s == 3.0
    assert timetable.processor.tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("transfer", [0.0, 3.0])
def test_insertion_fills_a_gap(transfer: float) -> None:
    """A chain alternates between processors; a small task of low rank fits into the idle time of either."""
    inf = float("inf")
    costs = [[4.0, inf], [inf, 4.0], [4.0, inf], [2.0, inf]]
    problem = problem_from_matrices(costs, {(0, 1): transfer, (1, 2): transfer})
    timetable = Heft().schedule(problem)
    validate(problem, timetable)
    assert (timetable.start_s[3], timetable.finish_s[3]) == (4.0, 6.0)
    assert timetable.makespan_s == 12.0 + 2 * transfer
