# SPDX-License-Identifier: Apache-2.0
"""Policies that repeatedly choose among the ready tasks and place one, without insertion into gaps.

References
----------
.. [1] G. C. Sih, E. A. Lee, "A compile-time scheduling heuristic for interconnection-constrained heterogeneous
   processor architectures", IEEE Transactions on Parallel and Distributed Systems 4(2), 1993 (DLS).
.. [2] J.-J. Hwang, Y.-C. Chow, F. D. Anger, C.-Y. Lee, "Scheduling precedence graphs in systems with interprocessor
   communication times", SIAM Journal on Computing 18(2), 1989 (ETF).
.. [3] O. H. Ibarra, C. E. Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical processors",
   Journal of the ACM 24(2), 1977 (min-min and max-min).
.. [4] M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, "Dynamic mapping of a class of independent tasks
   onto heterogeneous computing systems", Journal of Parallel and Distributed Computing 59(2), 1999 (sufferage).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.core.list_schedulers import best_pairs, by_completion
from syclsched.scheduling.core.ranks import mean_seconds, upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Dls:
    """Repeatedly place the pair of ready task and device with the highest dynamic level [1]_.

    As in the paper: the dynamic level of a pair is the task's static level (by median times, without communication)
    minus its start on the device, plus the difference of the median and the device's time; no insertion. An infinite
    median is replaced by the longest finite time. Left out: the paper's extensions by descendants and by scarcity of
    resources. Generalised: items that are copied once and shared, several lanes per device; with channels, starts are
    compared as of when the task became ready. Complexity ``O((arcs + tasks * log(tasks)) * devices)``; some fifty bytes
    for each task and device.
    """

    name: str = "dls"  # name that users type
    max_tasks: int | None = 200_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables = problem.tables
        seconds = tables.task_seconds()
        longest_s = np.where(np.isfinite(seconds), seconds, 0.0).max(axis=1, initial=0.0)
        median_s = np.median(seconds, axis=1) if len(problem) else longest_s
        median_s = np.where(np.isfinite(median_s), median_s, longest_s)
        levels_s = upward_ranks(tables, median_s, 0.0, 0.0)
        return best_pairs(problem, (levels_s + median_s)[:, None] - seconds, levels_s)


@dataclass(frozen=True, slots=True)
class Etf:
    """Repeatedly place the pair of ready task and device that can start first [2]_.

    As in the paper: of equal starts, the task with the higher static level (without communication); no insertion.
    Generalised: mean times in the levels; of devices that start a task equally early, the one that runs it faster (the
    paper's are identical); items that are copied once and shared, several lanes per device; with channels, starts are
    compared as of when the task became ready. Complexity and memory as of DLS.
    """

    name: str = "etf"  # name that users type
    max_tasks: int | None = 200_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        tables = problem.tables
        levels_s = upward_ranks(tables, mean_seconds(tables), 0.0, 0.0)
        return best_pairs(problem, np.zeros((len(problem), len(problem.devices))), levels_s)


@dataclass(frozen=True, slots=True)
class MinMin:
    """Repeatedly place the pair of ready task and device with the earliest completion [3]_, [4]_.

    As in the papers: no insertion. Generalised: the papers' tasks are independent; here the ready tasks take part, with
    the arrival of their data; ties are broken by priority and submission; several lanes per device; with channels,
    arrivals are compared as of when the task became ready. Complexity and memory as of DLS.
    """

    name: str = "min-min"  # name that users type
    max_tasks: int | None = 200_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        return best_pairs(problem, -problem.tables.task_seconds())


@dataclass(frozen=True, slots=True)
class MaxMin:
    """Repeatedly place the ready task with the latest best completion time, on its best device [3]_, [4]_.

    As in the papers: no insertion. Generalised like min-min. Complexity ``O(arcs * devices)`` plus, for each task, the
    number of tasks that are ready when it is placed: ``O(n**2)`` for ``n`` independent tasks.
    """

    name: str = "max-min"  # name that users type
    max_tasks: int | None = 20_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        return by_completion(problem, sufferage=False)


@dataclass(frozen=True, slots=True)
class Sufferage:
    """Repeatedly place the ready task with the largest gap between best and second best completion time [4]_.

    As in the paper: sufferage decides, no insertion. Changed: the paper gives each device one task per round and
    compares anew in the next; here tasks are compared anew after every placement. Generalised like min-min; a task that
    only one device can run has infinite sufferage. Complexity as of max-min.
    """

    name: str = "sufferage"  # name that users type
    max_tasks: int | None = 20_000  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        return by_completion(problem, sufferage=True)
