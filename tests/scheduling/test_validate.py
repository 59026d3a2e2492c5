# SPDX-License-Identifier: Apache-2.0
"""The validator finds each kind of mistake in a schedule that is right but for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from syclsched.errors import PlanError
from syclsched.model.schedule import Assignment, Schedule
from syclsched.scheduling import problem_from_matrices, validate, violations

INF = float("inf")
PROBLEM = problem_from_matrices([[2.0, 3.0], [4.0, 4.0], [1.0, INF]], {(0, 1): 5.0})
RIGHT = Schedule(
    "by hand",
    (
        Assignment("t0", "p0", 0, None, 0.0, 2.0),
        Assignment("t2", "p0", 0, None, 2.0, 3.0),
        Assignment("t1", "p1", 0, None, 7.0, 11.0),
    ),
)


def test_a_right_schedule_passes() -> None:
    assert violations(PROBLEM, RIGHT) == ()
    validate(PROBLEM, RIGHT)


def changed(name: str, **changes: Any) -> Schedule:
    return Schedule("by hand", tuple(replace(a, **changes) if a.task == name else a for a in RIGHT.assignments))


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (changed("t1", start_s=6.0, finish_s=10.0), "task 't1' starts on 'p1' before array 't0->t1' is there"),
        (changed("t1", device="p0", start_s=1.0, finish_s=5.0), r"task 't1' starts before 't0' has finished \(RAW\)"),
        (changed("t2", start_s=1.0, finish_s=2.0), "tasks 't0' and 't2' overlap on lane 0 of 'p0'"),
        (changed("t2", device="p1", start_s=0.0, finish_s=1.0), "task 't2' cannot run on 'p1'"),
        (changed("t2", finish_s=2.5), "task 't2' is given 0.5 s on 'p0', it takes 1 s"),
        (changed("t2", start_s=float("nan")), "task 't2' runs from nan"),
        (changed("t2", lane=1), "task 't2' is on lane 1 of 'p0', which does not exist"),
        (changed("t2", device="p9"), "task 't2' is on lane 0 of 'p9', which does not exist"),
        (changed("t2", implementation="numpy"), "task 't2' is given 'numpy' on 'p0'"),
        (changed("t2", task="t9"), "there is no task 't9'; task 't2' is not scheduled"),
        (changed("t2", task="t1"), "task 't1' is scheduled twice; task 't2' is not scheduled"),
    ],
)
def test_each_mistake_is_found(schedule: Schedule, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        validate(PROBLEM, schedule)


@pytest.mark.parametrize(
    ("rearrange", "text"),
    [
        (lambda a: a[1:], "task 't0' is not scheduled"),
        (lambda a: tuple(reversed(a)), "task 't1' is listed before 't0', on which it depends"),
    ],
)
def test_each_mistake_of_the_list_is_found(
    rearrange: Callable[[tuple[Assignment, ...]], tuple[Assignment, ...]], text: str
) -> None:
    with pytest.raises(PlanError, match=text):
        validate(PROBLEM, Schedule("by hand", rearrange(RIGHT.assignments)))


def test_an_instant_inside_a_task_overlaps_it_but_may_touch_it() -> None:
    problem = problem_from_matrices([[2.0], [0.0]], {})
    first = Assignment("t0", "p0", 0, None, 0.0, 2.0)
    inside = Schedule("x", (first, Assignment("t1", "p0", 0, None, 1.0, 1.0)))
    after = Schedule("x", (first, Assignment("t1", "p0", 0, None, 2.0, 2.0)))
    assert len(violations(problem, inside)) == 1
    assert violations(problem, after) == ()


def test_a_message_stays_short() -> None:
    problem = problem_from_matrices([[1.0]] * 9, {})
    with pytest.raises(PlanError, match=r"\(and 6 more\)"):
        validate(problem, Schedule("x", ()))
