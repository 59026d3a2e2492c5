# SPDX-License-Identifier: Apache-2.0
"""Random policy: a baseline, and a start for searches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.list_schedulers import by_rank, in_order
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Random:
    """Place tasks in a random topological order, each on a random device that can run it.

    Equal problems and seeds give equal timetables. A task whose data cannot reach its device goes where it finishes
    first.
    """

    name: str = "random"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out
    seed: int = 0  # of the random numbers

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        generator = np.random.default_rng(self.seed)
        order = by_rank(problem, generator.random(len(problem)))
        lots = np.where(np.isfinite(problem.tables.seconds), generator.random(problem.tables.seconds.shape), -1.0)
        return in_order(problem, order, pinned=lots.argmax(axis=1) if len(problem) else order)
