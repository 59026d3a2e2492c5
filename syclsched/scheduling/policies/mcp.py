# SPDX-License-Identifier: Apache-2.0
"""MCP: modified critical path.

References
----------
.. [1] M.-Y. Wu, D. D. Gajski, "Hypertool: a programming aid for message-passing systems", IEEE Transactions on Parallel
   and Distributed Systems 1(3), 1990.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.list_schedulers import by_rank, in_order, mean_upward_ranks
from syclsched.scheduling.core.ranks import next_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Mcp:
    """Place tasks by rising latest start, each where it starts first, with insertion into gaps [1]_.

    As in the paper: the latest starts of the critical path (its length minus the upward rank), the processor with the
    earliest start, insertion. Simplified: ties are broken by the latest starts of the successors, not of all
    descendants. Generalised: mean costs in the ranks; of devices that start a task equally early, the one that finishes
    it first (any, on the paper's identical processors); items that are copied once and shared, several lanes per
    device. Complexity as of HEFT.
    """

    name: str = "mcp"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        ranks = mean_upward_ranks(problem)
        return in_order(problem, by_rank(problem, ranks, next_ranks(problem.tables, ranks)), by_start=True)
