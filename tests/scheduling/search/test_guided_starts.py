# SPDX-License-Identifier: Apache-2.0
"""List schedules guided by weights of devices."""

from __future__ import annotations

from hypothesis import given, settings
from support.examples import examples
from support.instances import layered
from support.random_problems import problems

from syclsched.scheduling.construction.matrices import problem_from_matrices
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.search.guided_starts import SHARES, guided_starts
from syclsched.scheduling.validate import validate


@given(problems(channels=True))
@settings(max_examples=examples(25), deadline=None)
def test_all_are_valid(problem: Problem) -> None:
    for timetable in guided_starts(problem):
        validate(problem, timetable)


def test_guided_starts_beat_heft_on_contended_devices() -> None:
    problem = layered(400, 4, 3, seed=0)
    found = [makespan_s(problem, timetable) for timetable in guided_starts(problem)]
    assert len(found) == len(SHARES)
    assert min(found) < 0.95 * makespan_s(problem, Heft().schedule(problem))


def test_one_device_leaves_no_choice() -> None:
    assert not list(guided_starts(problem_from_matrices([[1.0], [2.0]], {})))
