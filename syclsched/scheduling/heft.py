# SPDX-License-Identifier: Apache-2.0
"""HEFT: heterogeneous earliest finish time.

References
----------
.. [1] H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
   computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.model.schedule import Schedule
from syclsched.scheduling.listscheduling import list_schedule
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.ranks import upward_ranks


@dataclass(frozen=True, slots=True)
class Heft:
    """Tasks by falling upward rank, each where it finishes first, into gaps if it fits."""

    name: str = "heft"

    def schedule(self, problem: Problem) -> Schedule:
        """Return the schedule.

        Parameters
        ----------
        problem : Problem
            What is to be scheduled.

        Returns
        -------
        Schedule
            One assignment per task.

        Raises
        ------
        PolicyError
            If the data of a task cannot be brought to any device that can run it.
        """
        return list_schedule(problem, upward_ranks(problem), self.name)
