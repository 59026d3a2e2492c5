# SPDX-License-Identifier: Apache-2.0
"""Topological task orders for list scheduling, by rank."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.tables import Floats, Ints, Tables


def positions(tables: Tables, *ranks: Floats) -> Ints:
    """Return the position of each task in the order of falling ranks."""
    keys = [-rank for rank in reversed(ranks)]
    order = np.lexsort([tables.submission, -tables.priority, *keys])
    places = np.empty(order.shape[0], np.int64)
    places[order] = np.arange(order.shape[0])
    return places


@compiled
def list_order(tables: Tables, places: Ints) -> Ints:
    """Return the order in which list scheduling takes tasks: always the ready task with the first position."""
    tasks = places.shape[0]
    sorted_tasks = np.empty(tasks, np.int64)
    for task in range(tasks):
        sorted_tasks[places[task]] = task
    if _is_topological(tables, places):
        return sorted_tasks
    order = np.empty(tasks, np.int64)
    waiting = np.empty(tasks, np.int64)
    ready = np.empty(tasks, np.int64)
    size = 0
    for task in range(tasks):
        waiting[task] = tables.pred_start[task + 1] - tables.pred_start[task]
        if waiting[task] == 0:
            size = _push(ready, size, places[task])
    for step in range(tasks):
        task = sorted_tasks[ready[0]]
        size = _pop(ready, size)
        order[step] = task
        for arc in range(tables.succ_start[task], tables.succ_start[task + 1]):
            after = tables.succ_task[arc]
            waiting[after] -= 1
            if waiting[after] == 0:
                size = _push(ready, size, places[after])
    return order


@compiled
def _is_topological(tables: Tables, places: Ints) -> bool:
    """Return whether every task comes after its predecessors."""
    for task in range(places.shape[0]):
        for arc in range(tables.pred_start[task], tables.pred_start[task + 1]):
            if places[tables.pred_task[arc]] > places[task]:
                return False
    return True


@compiled
def _push(heap: Ints, size: int, value: int) -> int:
    """Push a value onto a binary heap; return the new size."""
    at = size
    while at > 0 and heap[(at - 1) // 2] > value:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = value
    return size + 1


@compiled
def _pop(heap: Ints, size: int) -> int:
    """Pop the smallest value of a binary heap; return the new size."""
    size -= 1
    value = heap[size]
    at, child = 0, 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = value
    return size
