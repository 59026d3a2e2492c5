# SPDX-License-Identifier: Apache-2.0
"""Min-min: the task that completes first goes first.

References
----------
.. [1] O. H. Ibarra, C. E. Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical processors",
   Journal of the ACM 24(2), 1977.
.. [2] M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, "Dynamic mapping of a class of independent tasks
   onto heterogeneous computing systems", Journal of Parallel and Distributed Computing 59(2), 1999.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.placing import best_pairs
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class MinMin:
    """The pair of ready task and device that completes first, again and again [1]_, [2]_.

    As in the papers: no insertion. Generalised: the papers' tasks are independent; here those that are ready take part,
    with the arrival of their data; equal tasks go by priority and submission; several lanes a device; with channels,
    the arrivals that are compared are those when the task became ready. Complexity and memory as of DLS.
    """

    name: str = "min-min"  # what users type
    max_tasks: int | None = 200_000  # larger problems are left to other policies by ``auto``

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        return best_pairs(problem, -problem.tables.seconds)
