# SPDX-License-Identifier: Apache-2.0
"""CPOP: critical path on a processor.

References
----------
.. [1] H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
   computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.list_schedulers import by_rank, in_order
from syclsched.scheduling.core.paths import heavy_chains
from syclsched.scheduling.core.ranks import downward_ranks, mean_seconds, upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Cpop:
    """Run the critical path on the one processor that is fastest for it, all other tasks where they finish first [1]_.

    As in the paper: the ready task with the highest upward plus downward rank is next, with mean costs; insertion. The
    critical path starts at the entry task with the highest rank. Generalised: tasks of the path that its device cannot
    run go where they finish first, and the device is one that can run as many of them as any; items that are copied
    once and shared, several lanes per device. Complexity as of HEFT.
    """

    name: str = "cpop"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables, line = problem.tables, problem.mean_copy_line()
        if not len(problem):
            return in_order(problem, np.empty(0, np.int64))
        weights_s = mean_seconds(tables)
        upward_s, downward_s = upward_ranks(tables, weights_s, *line), downward_ranks(tables, weights_s, *line)
        entries = np.flatnonzero(np.diff(tables.pred_start) == 0)
        first = entries[np.argmax((upward_s + downward_s)[entries])]
        path = heavy_chains(tables, np.full(len(problem), first), upward_s, *line) == first
        able = np.isfinite(tables.seconds[path])
        total_s = np.where(able, tables.seconds[path], 0.0).sum(axis=0)
        pinned = np.full(len(problem), NOTHING, np.int64)
        pinned[path] = np.lexsort([total_s, -able.sum(axis=0)])[0]
        return in_order(problem, by_rank(problem, upward_s + downward_s), pinned=pinned)
