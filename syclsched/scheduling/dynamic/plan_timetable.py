# SPDX-License-Identifier: Apache-2.0
"""Conversion of a plan's schedule to a timetable, for a policy that follows the plan."""

from __future__ import annotations

import numpy as np

from syclsched.errors import IncompletePlanError
from syclsched.model.schedule import Schedule
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


def timetable_of(problem: Problem, schedule: Schedule) -> Timetable:
    """Return a schedule as a timetable, with numbers instead of names."""
    task = {name: n for n, name in enumerate(problem.names)}
    lane = {(problem.devices[d], n): p for p, (d, n) in enumerate(problem.processors)}
    processor = np.full(len(problem), -1, np.int64)
    start_s, finish_s = np.zeros(len(problem)), np.zeros(len(problem))
    for each in schedule.assignments:
        if each.task not in task or (each.device, each.lane) not in lane:
            raise IncompletePlanError(
                f"task {each.task!r} on lane {each.lane} of {each.device!r} is not part of this problem",
                where="schedule",
                hint="Plan again for this graph and these devices",
            )
        number = task[each.task]
        processor[number] = lane[each.device, each.lane]
        start_s[number], finish_s[number] = each.start_s, each.finish_s
    if (processor < 0).any():
        missing = problem.names[int(np.argmax(processor < 0))]
        raise IncompletePlanError(f"task {missing!r} has no place", where="schedule")
    return Timetable(processor, start_s, finish_s)
