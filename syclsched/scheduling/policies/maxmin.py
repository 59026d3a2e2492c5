# SPDX-License-Identifier: Apache-2.0
"""Max-min: schedule the task with the latest best completion time first.

References
----------
.. [1] O. H. Ibarra, C. E. Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical processors",
   Journal of the ACM 24(2), 1977.
.. [2] M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, "Dynamic mapping of a class of independent tasks
   onto heterogeneous computing systems", Journal of Parallel and Distributed Computing 59(2), 1999.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.list_schedulers import by_completion
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class MaxMin:
    """Repeatedly place the ready task with the latest best completion time, on its best device [1]_, [2]_.

    As in the papers: no insertion. Generalised like min-min. Complexity ``O(arcs * devices)`` plus, for each task, the
    number of tasks that are ready when it is placed: ``O(n**2)`` for ``n`` independent tasks.
    """

    name: str = "max-min"  # name that users type
    max_tasks: int | None = 20_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        return by_completion(problem, sufferage=False)
