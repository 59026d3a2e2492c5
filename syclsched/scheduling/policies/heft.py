# SPDX-License-Identifier: Apache-2.0
"""HEFT: heterogeneous earliest finish time.

References
----------
.. [1] H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
   computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.placing import by_rank, in_order, mean_upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Heft:
    """Tasks by falling upward rank, each where it finishes first, into gaps if it fits [1]_.

    As in the paper: mean costs in the ranks, insertion, the first of equal processors. Generalised: items that are
    copied once and shared, several lanes a device, devices that cannot run a task (left out of its mean). Complexity
    ``O(arcs * devices + tasks * processors * log(tasks))``.
    """

    name: str = "heft"  # what users type
    max_tasks: int | None = None  # larger problems are left to other policies by ``auto``

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        return in_order(problem, by_rank(problem, mean_upward_ranks(problem)))
