# SPDX-License-Identifier: Apache-2.0
"""ETF: earliest task first.

References
----------
.. [1] J.-J. Hwang, Y.-C. Chow, F. D. Anger, C.-Y. Lee, "Scheduling precedence graphs in systems with interprocessor
   communication times", SIAM Journal on Computing 18(2), 1989.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.placing import best_pairs
from syclsched.scheduling.core.ranks import mean_seconds, upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Etf:
    """The pair of ready task and device that can start first, again and again [1]_.

    As in the paper: of equal starts the task of the higher static level, which leaves communication out; no insertion.
    Generalised: mean times in the levels; of devices that start a task equally early the one that takes less time
    (the paper's are identical); items that are copied once and shared, several lanes a device; with channels, the
    starts that are compared are those when the task became ready. Complexity and memory as of DLS.
    """

    name: str = "etf"  # what users type
    max_tasks: int | None = 200_000  # larger problems are left to other policies by ``auto``

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        tables = problem.tables
        levels_s = upward_ranks(tables, mean_seconds(tables), 0.0, 0.0)
        return best_pairs(problem, np.zeros(tables.seconds.shape), levels_s)
