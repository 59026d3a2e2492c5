# SPDX-License-Identifier: Apache-2.0
"""The single-device policy, and its choice for tasks that the device cannot run."""

from __future__ import annotations

import math

import pytest

from syclsched.errors import PolicyError
from syclsched.scheduling import problem_from_arrays, problem_from_matrices, validate
from syclsched.scheduling.policies.baselines import Single, SingleDevices

INF = math.inf


def test_all_tasks_are_on_one_device() -> None:
    problem = problem_from_matrices([[1.0, 2.0]] * 4, {(0, 1): 9.0})
    timetable = Single("p1").schedule(problem)
    validate(problem, timetable)
    assert Single("p1").name == "single:p1"
    assert timetable.processor.tolist() == [1] * 4
    assert timetable.makespan_s == 8.0


def test_tasks_it_cannot_run_go_to_the_earliest_finish() -> None:
    problem = problem_from_matrices([[1.0, 1.0, 1.0], [INF, 5.0, 4.0], [1.0, 9.0, 9.0]], {(0, 1): 2.0, (1, 2): 2.0})
    timetable = Single("p0").schedule(problem)
    validate(problem, timetable)
    assert timetable.processor.tolist() == [0, 2, 0]
    assert timetable.makespan_s == 10.0


def test_a_device_with_unreachable_data_is_not_used() -> None:
    cut = problem_from_arrays([[1.0, INF], [5.0, 1.0]], [0], [1], [2.0], latency_s=[[0.0, INF], [INF, 0.0]])
    timetable = Single("p1").schedule(cut)
    validate(cut, timetable)
    assert timetable.processor.tolist() == [0, 0]


def test_an_unknown_device_is_named_with_the_present_devices() -> None:
    with pytest.raises(PolicyError, match=r"policy 'single:gpu': no device 'gpu'. The platform has p0, p1"):
        Single("gpu").schedule(problem_from_matrices([[1.0, 1.0]], {}))


def test_members_are_devices_that_can_run_something() -> None:
    problem = problem_from_matrices([[1.0, INF, 1.0], [1.0, INF, INF]], {})
    assert SingleDevices().members(problem) == ("single:p0", "single:p2")
    assert SingleDevices().members(problem_from_matrices([], {})) == ()


def test_of_very_many_equal_devices_one_is_a_member() -> None:
    few, many = [[1.0, 2.0] * 8] * 3, [[1.0, 2.0] * 20] * 3
    assert len(SingleDevices().members(problem_from_matrices(few, {}))) == 16
    assert SingleDevices().members(problem_from_matrices(many, {})) == ("single:p0", "single:p1")
