# SPDX-License-Identifier: Apache-2.0
"""More places to begin: list schedules that keep tasks to the devices that suit the whole.

Earliest finish is greedy: a task takes a device on which it is slow because that one is free, though another will need
it more. The multipliers of the area bound say what a second of each device is worth to the whole graph; what a task
wastes on a device by them is added, more or less of it, to its finish there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.bounds import area_multipliers
from syclsched.scheduling.core.placing import by_rank, in_order, mean_upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable

#: How much of the waste is added.
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def guided_starts(problem: Problem) -> Iterator[Timetable]:
    """Yield list schedules by upward rank with the waste of devices weighed in."""
    tables = problem.tables
    if len(problem.devices) < 2 or not len(problem):
        return
    _, worth = area_multipliers(tables.seconds, np.diff(tables.device_start))
    able = np.isfinite(tables.seconds)
    value = np.where(able, tables.seconds, 0.0) * (worth / worth.mean())
    least = np.where(able, value, np.inf).min(axis=1, keepdims=True)
    waste_s = np.where(able, value - least, 0.0)
    order = by_rank(problem, mean_upward_ranks(problem))
    for share in SHARES:
        try:
            yield in_order(problem, order, offset_s=np.ascontiguousarray(share * waste_s))
        except PolicyError:
            return
