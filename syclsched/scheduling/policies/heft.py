# SPDX-License-Identifier: Apache-2.0
"""HEFT: heterogeneous earliest finish time.

References
----------
.. [1] H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
   computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.list_schedulers import by_rank, in_order, mean_upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Heft:
    """Place tasks by falling upward rank, each where it finishes first, with insertion into gaps [1]_.

    As in the paper: mean costs in the ranks, insertion, the first of equal processors. Generalised: items that are
    copied once and shared, several lanes per device, devices that cannot run a task (left out of its mean). Complexity
    ``O(arcs * devices + tasks * processors * log(tasks))``.
    """

    name: str = "heft"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        return in_order(problem, by_rank(problem, mean_upward_ranks(problem)))
