# SPDX-License-Identifier: Apache-2.0
"""Max-min: the task whose best completion is latest goes first.

References
----------
.. [1] O. H. Ibarra, C. E. Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical processors",
   Journal of the ACM 24(2), 1977.
.. [2] M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, "Dynamic mapping of a class of independent tasks
   onto heterogeneous computing systems", Journal of Parallel and Distributed Computing 59(2), 1999.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.placing import by_completion
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class MaxMin:
    """Of the ready tasks the one whose best completion is latest, on the device of that; again and again [1]_, [2]_.

    As in the papers: no insertion. Generalised as min-min. Complexity ``O(arcs * devices)`` and, for each task, the
    number of tasks that are ready when it is placed: of ``n`` independent tasks ``O(n**2)``.
    """

    name: str = "max-min"  # what users type
    max_tasks: int | None = 20_000  # larger problems are left to other policies by ``auto``

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        return by_completion(problem, sufferage=False)
