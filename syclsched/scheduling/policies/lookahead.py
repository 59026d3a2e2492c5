# SPDX-License-Identifier: Apache-2.0
"""HEFT with a look ahead.

References
----------
.. [1] L. F. Bittencourt, R. Sakellariou, E. R. M. Madeira, "DAG scheduling using a lookahead variant of the
   heterogeneous earliest finish time algorithm", Euromicro Conference on Parallel, Distributed and
   Network-based Processing, 2010.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.placing import looking_ahead, mean_upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Tasks by falling upward rank, each where the last of its successors would finish first by HEFT [1]_.

    As in the paper: one step of looking ahead, for which a task and then its successors are placed on trial, on each
    device in turn. A device that finishes the task only after another's last successor is passed over. Generalised:
    predecessors of a successor that have not been placed are taken to be no hindrance; equal devices go by the finish
    of the task itself; items that are copied once and shared, several lanes a device. Complexity
    ``O(arcs * devices * processors * log(tasks))``.
    """

    name: str = "lookahead"  # what users type
    max_tasks: int | None = 10_000  # larger problems are left to other policies by ``auto``

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        return looking_ahead(problem, mean_upward_ranks(problem))
