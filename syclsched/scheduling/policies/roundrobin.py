# SPDX-License-Identifier: Apache-2.0
"""Round robin: a baseline that knows which device can run a task, and no times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.placing import by_rank, in_order
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Ints
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Tasks by priority and submission, each to the device of the next processor in turn that can run it.

    A device has its turn once for each of its lanes; the task takes the lane that is free first. What cannot get its
    data there goes where it finishes first.
    """

    name: str = "round-robin"  # what users type
    max_tasks: int | None = None  # larger problems are left to other policies by ``auto``

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        order = by_rank(problem)
        return in_order(problem, order, pinned=_in_turn(problem, order))


def _in_turn(problem: Problem, order: Ints) -> Ints:
    device, seconds = problem.tables.processor_device, problem.tables.seconds
    pinned = np.zeros(len(problem), np.int64)
    left, turn = order, np.arange(len(order)) % len(device)
    for _ in device:
        there = device[turn]
        able = np.isfinite(seconds[left, there])
        pinned[left[able]] = there[able]
        left, turn = left[~able], (turn[~able] + 1) % len(device)
    return pinned
