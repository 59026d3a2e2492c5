# SPDX-License-Identifier: Apache-2.0
"""Busy time of devices: the union of the intervals in which their tasks run."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.tables import Floats, Ints


def busy_seconds(device: Ints, start_s: Floats, finish_s: Floats, devices: int) -> Floats:
    """Return the seconds in which at least one task runs on each device."""
    busy = np.zeros((devices, 2))
    find_busy_seconds(device, start_s, finish_s, np.argsort(start_s), busy)
    return busy[:, 0].copy()


@lean
def find_busy_seconds(device: Ints, start_s: Floats, finish_s: Floats, by_start: Ints, busy: Floats) -> None:
    """Write the seconds in which each device is busy, and the end of its last task; sort the tasks by start."""
    busy[:, :] = 0.0
    for place in range(by_start.size):
        task = by_start[place]
        # An insertion sort: the tasks are nearly sorted, by an earlier call.
        while place > 0 and start_s[by_start[place - 1]] > start_s[task]:
            by_start[place] = by_start[place - 1]
            place -= 1
        by_start[place] = task
    for task in by_start:
        d = device[task]
        begin = max(start_s[task], busy[d, 1])
        if finish_s[task] > begin:
            busy[d, 0] += finish_s[task] - begin
            busy[d, 1] = finish_s[task]
