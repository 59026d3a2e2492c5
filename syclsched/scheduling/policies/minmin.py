# SPDX-License-Identifier: Apache-2.0
"""Min-min: schedule the task with the earliest completion time first.

References
----------
.. [1] O. H. Ibarra, C. E. Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical processors",
   Journal of the ACM 24(2), 1977.
.. [2] M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, "Dynamic mapping of a class of independent tasks
   onto heterogeneous computing systems", Journal of Parallel and Distributed Computing 59(2), 1999.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.list_schedulers import best_pairs
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class MinMin:
    """Repeatedly place the pair of ready task and device with the earliest completion [1]_, [2]_.

    As in the papers: no insertion. Generalised: the papers' tasks are independent; here the ready tasks take part, with
    the arrival of their data; ties are broken by priority and submission; several lanes per device; with channels,
    arrivals are compared as of when the task became ready. Complexity and memory as of DLS.
    """

    name: str = "min-min"  # name that users type
    max_tasks: int | None = 200_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        return best_pairs(problem, -problem.tables.seconds)
