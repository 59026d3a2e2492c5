# SPDX-License-Identifier: Apache-2.0
"""Round-robin policy: a baseline that knows which device can run a task, but no times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.list_schedulers import by_rank, in_order
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Ints
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Place tasks by priority and submission, each on the device of the next processor in turn that can run it.

    A device has one turn per lane; the task takes the lane that is free first. A task whose data cannot reach its
    device goes where it finishes first.
    """

    name: str = "round-robin"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        order = by_rank(problem)
        return in_order(problem, order, pinned=_cyclic_devices(problem, order))


def _cyclic_devices(problem: Problem, order: Ints) -> Ints:
    device, seconds = problem.tables.processor_device, problem.tables.seconds
    pinned = np.zeros(len(problem), np.int64)
    left, position = order, np.arange(len(order)) % len(device)
    for _ in device:
        candidate = device[position]
        able = np.isfinite(seconds[left, candidate])
        pinned[left[able]] = candidate[able]
        left, position = left[~able], (position[~able] + 1) % len(device)
    return pinned
