# SPDX-License-Identifier: Apache-2.0
"""Global order in which a schedule's tasks enter a plan."""

from __future__ import annotations

import heapq

import numpy as np

from syclsched.errors import IncompletePlanError
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning.graph_record import GraphRecord


def global_order(graph: GraphRecord, schedule: Schedule) -> list[Assignment]:
    """Return the assignments by start, then finish, adjusted so that every dependency points forward.

    The search for plans evaluates this order (`syclsched.scheduling.core.orders.time_order`).
    """
    by_task = {a.task: a for a in schedule.assignments}
    if len(by_task) != len(schedule.assignments) or by_task.keys() != graph.place.keys():
        odd = sorted(by_task.keys() ^ graph.place.keys())
        raise IncompletePlanError(
            f"the schedule does not assign every task exactly once: {', '.join(odd[:5]) or 'duplicates'}",
            where=f"policy {schedule.policy!r}",
        )
    assignments = [by_task[name] for name in graph.place]
    by_start = np.lexsort(([a.finish_s for a in assignments], [a.start_s for a in assignments]))
    rank = np.empty_like(by_start)
    rank[by_start] = np.arange(len(rank))
    order = by_start.tolist()
    if not (rank[graph.before] < rank[graph.after]).all():
        order = _first_ready(graph, rank.tolist())
    return [assignments[place] for place in order]


def _first_ready(graph: GraphRecord, rank: list[int]) -> list[int]:
    """Return the tasks in topological order, the ready one of lowest rank first."""
    successors: list[list[int]] = [[] for _ in rank]
    waiting = [0] * len(rank)
    for before, after in zip(graph.before.tolist(), graph.after.tolist(), strict=True):
        successors[before].append(after)
        waiting[after] += 1
    ready = [(rank[place], place) for place, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, place = heapq.heappop(ready)
        order.append(place)
        for after in successors[place]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(ready, (rank[after], after))
    return order
