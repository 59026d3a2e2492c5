# SPDX-License-Identifier: Apache-2.0
"""Everything on one device, and what it cannot run elsewhere."""

from __future__ import annotations

import pytest

from syclsched.errors import PolicyError
from syclsched.scheduling import problem_from_matrices, validate
from syclsched.scheduling.single import Single, SingleDevices

INF = float("inf")


def test_all_on_one() -> None:
    problem = problem_from_matrices([[1.0, 2.0]] * 4, {(0, 1): 9.0})
    schedule = Single("p1").schedule(problem)
    validate(problem, schedule)
    assert {a.device for a in schedule.assignments} == {"p1"}
    assert (schedule.policy, schedule.makespan_s) == ("single:p1", 8.0)


def test_what_it_cannot_run_goes_where_it_finishes_first() -> None:
    problem = problem_from_matrices([[1.0, 1.0, 1.0], [INF, 5.0, 4.0], [1.0, 9.0, 9.0]], {(0, 1): 2.0, (1, 2): 2.0})
    schedule = Single("p0").schedule(problem)
    validate(problem, schedule)
    assert [a.device for a in schedule.assignments] == ["p0", "p2", "p0"]
    assert schedule.makespan_s == 10.0


def test_an_unknown_device_is_named_with_those_there_are() -> None:
    with pytest.raises(PolicyError, match=r"policy 'single:gpu': no device 'gpu'. The platform has p0, p1"):
        Single("gpu").schedule(problem_from_matrices([[1.0, 1.0]], {}))


def test_members_are_devices_that_can_run_something() -> None:
    problem = problem_from_matrices([[1.0, INF, 1.0], [1.0, INF, INF]], {})
    assert SingleDevices().members(problem) == ("single:p0", "single:p2")
    assert SingleDevices().members(problem_from_matrices([], {})) == ()
