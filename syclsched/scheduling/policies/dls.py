# SPDX-License-Identifier: Apache-2.0
"""DLS: dynamic level scheduling.

References
----------
.. [1] G. C. Sih, E. A. Lee, "A compile-time scheduling heuristic for interconnection-constrained heterogeneous
   processor architectures", IEEE Transactions on Parallel and Distributed Systems 4(2), 1993.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.list_schedulers import best_pairs
from syclsched.scheduling.core.ranks import upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Dls:
    """Repeatedly place the pair of ready task and device with the highest dynamic level [1]_.

    As in the paper: the dynamic level of a pair is the task's static level (by median times, without communication)
    minus its start on the device, plus the difference of the median and the device's time; no insertion. An infinite
    median is replaced by the longest finite time. Left out: the paper's extensions by descendants and by scarcity of
    resources. Generalised: items that are copied once and shared, several lanes per device; with channels, starts are
    compared as of when the task became ready. Complexity ``O((arcs + tasks * log(tasks)) * devices)``; some fifty bytes
    for each task and device.
    """

    name: str = "dls"  # name that users type
    max_tasks: int | None = 200_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables = problem.tables
        longest_s = np.where(np.isfinite(tables.seconds), tables.seconds, 0.0).max(axis=1, initial=0.0)
        median_s = np.median(tables.seconds, axis=1) if len(problem) else longest_s
        median_s = np.where(np.isfinite(median_s), median_s, longest_s)
        levels_s = upward_ranks(tables, median_s, 0.0, 0.0)
        return best_pairs(problem, (levels_s + median_s)[:, None] - tables.seconds, levels_s)
