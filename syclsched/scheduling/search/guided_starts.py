# SPDX-License-Identifier: Apache-2.0
"""Guided start solutions: list schedules that keep tasks on the devices that suit the graph as a whole.

Earliest finish is greedy: a task takes an idle device on which it is slow, although another task will need that device
more. The multipliers of the area bound give the worth of a second of each device to the whole graph; the value that a
task wastes on a device by them is added, with several weights, to its finish time there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.bounds import area_multipliers
from syclsched.scheduling.core.list_schedulers import by_rank, in_order, mean_upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable

#: Weights of the waste.
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def guided_starts(problem: Problem) -> Iterator[Timetable]:
    """Yield list schedules by upward rank, with the weighted waste added to finish times."""
    tables = problem.tables
    if len(problem.devices) < 2 or not len(problem):
        return
    seconds = tables.task_seconds()
    tasks = np.bincount(tables.kind, minlength=len(tables.seconds))
    _, worth = area_multipliers(tables.seconds, tasks, np.diff(tables.device_start))
    able = np.isfinite(seconds)
    value = np.where(able, seconds, 0.0) * (worth / worth.mean())
    least = np.where(able, value, np.inf).min(axis=1, keepdims=True)
    waste_s = np.where(able, value - least, 0.0)
    order = by_rank(problem, mean_upward_ranks(problem))
    for share in SHARES:
        try:
            yield in_order(problem, order, offset_s=np.ascontiguousarray(share * waste_s))
        except PolicyError:
            return
