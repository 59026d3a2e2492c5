# SPDX-License-Identifier: Apache-2.0
"""Sufferage: the task that would lose most by its second best device goes first.

References
----------
.. [1] M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, "Dynamic mapping of a class of independent tasks
   onto heterogeneous computing systems", Journal of Parallel and Distributed Computing 59(2), 1999.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.placing import by_completion
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Sufferage:
    """Of the ready tasks the one whose second best completion is the most behind its best, on its best device [1]_.

    As in the paper: sufferage decides, no insertion. Changed: the paper gives each device one task a round and compares
    anew in the next; here every task that is placed is followed by a new comparison. Generalised as min-min; a task
    that only one device can run suffers without limit. Complexity as of max-min.
    """

    name: str = "sufferage"  # what users type
    max_tasks: int | None = 20_000  # larger problems are left to other policies by ``auto``

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        return by_completion(problem, sufferage=True)
