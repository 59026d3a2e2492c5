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

from syclsched.scheduling.core.list_schedulers import best_pairs
from syclsched.scheduling.core.ranks import mean_seconds, upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Etf:
    """Repeatedly place the pair of ready task and device that can start first [1]_.

    As in the paper: of equal starts, the task with the higher static level (without communication); no insertion.
    Generalised: mean times in the levels; of devices that start a task equally early, the one that runs it faster (the
    paper's are identical); items that are copied once and shared, several lanes per device; with channels, starts are
    compared as of when the task became ready. Complexity and memory as of DLS.
    """

    name: str = "etf"  # name that users type
    max_tasks: int | None = 200_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables = problem.tables
        levels_s = upward_ranks(tables, mean_seconds(tables), 0.0, 0.0)
        return best_pairs(problem, np.zeros(tables.seconds.shape), levels_s)
