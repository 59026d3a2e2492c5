# SPDX-License-Identifier: Apache-2.0
"""HEFT and its relatives: list scheduling by rank, with insertion into gaps.

References
----------
.. [1] H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
   computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002 (HEFT and CPOP).
.. [2] H. Arabnejad, J. G. Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table",
   IEEE Transactions on Parallel and Distributed Systems 25(3), 2014 (PEFT).
.. [3] L. F. Bittencourt, R. Sakellariou, E. R. M. Madeira, "DAG scheduling using a lookahead variant of the
   heterogeneous earliest finish time algorithm", Euromicro Conference on Parallel, Distributed and Network-based
   Processing, 2010 (lookahead).
.. [4] M.-Y. Wu, D. D. Gajski, "Hypertool: a programming aid for message-passing systems", IEEE Transactions on Parallel
   and Distributed Systems 1(3), 1990 (MCP).
.. [5] S. J. Kim, J. C. Browne, "A general approach to mapping of parallel computations upon multiprocessor
   architectures", International Conference on Parallel Processing, 1988 (linear clustering).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.list_schedulers import by_rank, in_order, looking_ahead, mean_upward_ranks
from syclsched.scheduling.core.paths import heavy_chains, optimistic_costs
from syclsched.scheduling.core.ranks import downward_ranks, mean_seconds, next_ranks, upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Heft:
    """Place tasks by falling upward rank, each where it finishes first, with insertion into gaps [1]_.

    As in the paper: mean costs in the ranks, insertion, the first of equal processors. Generalised: items that are
    copied once and shared, several lanes per device, devices that cannot run a task (left out of its mean). On more
    than eight machines, a task is tried on those that have its data and on four where it would finish first without
    copies. Complexity
    ``O(arcs * devices + tasks * processors * log(tasks))``.
    """

    name: str = "heft"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        return in_order(problem, by_rank(problem, mean_upward_ranks(problem)))


@dataclass(frozen=True, slots=True)
class Cpop:
    """Run the critical path on the one processor that is fastest for it, all other tasks where they finish first [1]_.

    As in the paper: the ready task with the highest upward plus downward rank is next, with mean costs; insertion. The
    critical path starts at the entry task with the highest rank. Generalised: tasks of the path that its device cannot
    run go where they finish first, and the device is one that can run as many of them as any; items that are copied
    once and shared, several lanes per device. Complexity as of HEFT.
    """

    name: str = "cpop"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables, line = problem.tables, problem.mean_copy_line()
        if not len(problem):
            return in_order(problem, np.empty(0, np.int64))
        weights_s = mean_seconds(tables)
        upward_s, downward_s = upward_ranks(tables, weights_s, *line), downward_ranks(tables, weights_s, *line)
        entries = np.flatnonzero(np.diff(tables.pred_start) == 0)
        first = entries[np.argmax((upward_s + downward_s)[entries])]
        path = heavy_chains(tables, np.full(len(problem), first), upward_s, *line) == first
        seconds = tables.seconds[tables.kind[path]]
        able = np.isfinite(seconds)
        total_s = np.where(able, seconds, 0.0).sum(axis=0)
        pinned = np.full(len(problem), NOTHING, np.int64)
        pinned[path] = np.lexsort([total_s, -able.sum(axis=0)])[0]
        return in_order(problem, by_rank(problem, upward_s + downward_s), pinned=pinned)


@dataclass(frozen=True, slots=True)
class Peft:
    """Place tasks by falling mean of their optimistic costs, each where finish plus optimistic cost is least [2]_.

    As in the paper: the optimistic cost table, its mean as rank, insertion. Generalised: means are over the devices
    that can run a task; copies between devices with one home space are free; items that are copied once and shared,
    several lanes per device. Complexity as of HEFT; the table takes eight bytes for each task and device.
    """

    name: str = "peft"  # name that users type
    max_tasks: int | None = 1_000_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables = problem.tables
        costs_s = optimistic_costs(tables, *problem.mean_copy_line())
        able = np.isfinite(tables.task_seconds())
        ranks = np.where(able, costs_s, 0.0).sum(axis=1) / np.maximum(able.sum(axis=1), 1)
        return in_order(problem, by_rank(problem, ranks), offset_s=costs_s)


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Place tasks by falling upward rank, each where HEFT would finish the last of its successors first [3]_.

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


@dataclass(frozen=True, slots=True)
class Mcp:
    """Place tasks by rising latest start, each where it starts first, with insertion into gaps [4]_.

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


@dataclass(frozen=True, slots=True)
class Clustering:
    """Linear clustering: critical paths become clusters, and each cluster is mapped to one device [5]_.

    As in the paper: the heaviest path through tasks that are in no cluster yet is the next cluster. Simplified: path
    weights are the upward ranks in the whole graph, not recomputed for the rest of it. The mapping of clusters to
    devices is our own: tasks are taken by falling upward rank, with insertion; the first task of a cluster goes to the
    device on which the whole cluster would end first if it ran there without a break, the others follow it. A task that
    this device cannot run goes where it finishes first, and counts with its longest time. Complexity as of HEFT, with
    eight bytes for each task and device.
    """

    name: str = "clustering"  # name that users type
    max_tasks: int | None = 1_000_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables = problem.tables
        ranks_s = mean_upward_ranks(problem)
        order = by_rank(problem, ranks_s)
        chain = heavy_chains(tables, order, ranks_s, *problem.mean_copy_line())
        able = np.isfinite(tables.seconds)
        longest_s = np.where(able, tables.seconds, 0.0).max(axis=1, initial=0.0)
        seconds = np.where(able, tables.seconds, longest_s[:, None])[tables.kind]
        rest_s = np.zeros(seconds.shape)
        np.add.at(rest_s, chain, seconds)
        first = chain == np.arange(len(problem))
        rest_s[first] -= seconds[first]
        return in_order(problem, order, follows=chain, offset_s=rest_s)
