# SPDX-License-Identifier: Apache-2.0
"""HEFT with one-step lookahead.

References
----------
.. [1] L. F. Bittencourt, R. Sakellariou, E. R. M. Madeira, "DAG scheduling using a lookahead variant of the
   heterogeneous earliest finish time algorithm", Euromicro Conference on Parallel, Distributed and
   Network-based Processing, 2010.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.list_schedulers import looking_ahead, mean_upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Place tasks by falling upward rank, each where HEFT would finish the last of its successors first [1]_.

    As in the paper: one step of lookahead, for which a task and then its successors are placed tentatively, on each
    device in turn. A device on which the task itself finishes after the best value so far is skipped. Generalised:
    unplaced predecessors of a successor are ignored; equal devices are ordered by the finish of the task itself; items
    that are copied once and shared, several lanes per device. Complexity
    ``O(arcs * devices * processors * log(tasks))``.
    """

    name: str = "lookahead"  # name that users type
    max_tasks: int | None = 10_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        return looking_ahead(problem, mean_upward_ranks(problem))
