# SPDX-License-Identifier: Apache-2.0
"""MCP: modified critical path.

References
----------
.. [1] M.-Y. Wu, D. D. Gajski, "Hypertool: a programming aid for message-passing systems", IEEE Transactions on Parallel
   and Distributed Systems 1(3), 1990.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.core.placing import by_rank, in_order, mean_upward_ranks
from syclsched.scheduling.core.ranks import next_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Mcp:
    """Tasks by rising latest start, each where it starts first, into gaps if it fits [1]_.

    As in the paper: the latest starts of the critical path (its length less the upward rank), the processor of the
    earliest start, insertion. Simplified: equal tasks go by the latest starts of their successors, not of all their
    descendants. Generalised: mean costs in the ranks; of devices that start a task equally early the one that
    finishes it first, which on the paper's identical processors is any; items that are copied once and shared,
    several lanes a device. Complexity as of HEFT.
    """

    name: str = "mcp"  # what users type
    max_tasks: int | None = None  # larger problems are left to other policies by ``auto``

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        ranks = mean_upward_ranks(problem)
        return in_order(problem, by_rank(problem, ranks, next_ranks(problem.tables, ranks)), by_start=True)
