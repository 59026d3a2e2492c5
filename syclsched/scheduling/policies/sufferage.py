# SPDX-License-Identifier: Apache-2.0
"""Sufferage: schedule the task that would lose most on its second best device first.

References
----------
.. [1] M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, "Dynamic mapping of a class of independent tasks
   onto heterogeneous computing systems", Journal of Parallel and Distributed Computing 59(2), 1999.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.list_schedulers import by_completion
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Sufferage:
    """Repeatedly place the ready task with the largest gap between best and second best completion time [1]_.

    As in the paper: sufferage decides, no insertion. Changed: the paper gives each device one task per round and
    compares anew in the next; here tasks are compared anew after every placement. Generalised like min-min; a task that
    only one device can run has infinite sufferage. Complexity as of max-min.
    """

    name: str = "sufferage"  # name that users type
    max_tasks: int | None = 20_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        return by_completion(problem, sufferage=True)
