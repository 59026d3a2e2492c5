# SPDX-License-Identifier: Apache-2.0
"""Linear clustering along critical paths.

References
----------
.. [1] S. J. Kim, J. C. Browne, "A general approach to mapping of parallel computations upon multiprocessor
   architectures", International Conference on Parallel Processing, 1988.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.list_schedulers import by_rank, in_order, mean_upward_ranks
from syclsched.scheduling.core.paths import heavy_chains
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Clustering:
    """Linear clustering: critical paths become clusters, and each cluster is mapped to one device [1]_.

    As in the paper: the heaviest path through tasks that are in no cluster yet is the next cluster. Simplified: path
    weights are the upward ranks in the whole graph, not recomputed for the rest of it. The mapping of clusters to
    devices is our own: tasks are taken by falling upward rank, with insertion; the first task of a cluster goes to the
    device on which the whole cluster would end first if it ran there without a break, the others follow it. A task that
    this device cannot run goes where it finishes first, and counts with its longest time. Complexity as of HEFT, with
    eight bytes for each task and device.
    """

    name: str = "clustering"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables = problem.tables
        ranks_s = mean_upward_ranks(problem)
        order = by_rank(problem, ranks_s)
        chain = heavy_chains(tables, order, ranks_s, *problem.mean_copy_line())
        able = np.isfinite(tables.seconds)
        seconds = np.where(able, tables.seconds, 0.0)
        seconds = np.where(able, tables.seconds, seconds.max(axis=1, initial=0.0)[:, None])
        rest_s = np.zeros(seconds.shape)
        np.add.at(rest_s, chain, seconds)
        first = chain == np.arange(len(problem))
        rest_s[first] -= seconds[first]
        return in_order(problem, order, follows=chain, offset_s=rest_s)
