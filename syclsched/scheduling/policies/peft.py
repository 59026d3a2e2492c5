# SPDX-License-Identifier: Apache-2.0
"""PEFT: predict earliest finish time.

References
----------
.. [1] H. Arabnejad, J. G. Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table",
   IEEE Transactions on Parallel and Distributed Systems 25(3), 2014.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.list_schedulers import by_rank, in_order
from syclsched.scheduling.core.paths import optimistic_costs
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Peft:
    """Place tasks by falling mean of their optimistic costs, each where finish plus optimistic cost is least [1]_.

    As in the paper: the optimistic cost table, its mean as rank, insertion. Generalised: means are over the devices
    that can run a task; copies between devices with one home space are free; items that are copied once and shared,
    several lanes per device. Complexity as of HEFT; the table takes eight bytes for each task and device.
    """

    name: str = "peft"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables = problem.tables
        costs_s = optimistic_costs(tables, *problem.mean_copy_line())
        able = np.isfinite(tables.seconds)
        ranks = np.where(able, costs_s, 0.0).sum(axis=1) / np.maximum(able.sum(axis=1), 1)
        return in_order(problem, by_rank(problem, ranks), offset_s=costs_s)
