# SPDX-License-Identifier: Apache-2.0
"""Topological task orders: by rank, by the times of a timetable, and depth first."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.core.integer_heap import pop, push
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
            size = push(ready, size, places[task])
    for step in range(tasks):
        task = sorted_tasks[ready[0]]
        size = pop(ready, size)
        order[step] = task
        for arc in range(tables.succ_start[task], tables.succ_start[task + 1]):
            after = tables.succ_task[arc]
            waiting[after] -= 1
            if waiting[after] == 0:
                size = push(ready, size, places[after])
    return order


def time_order(tables: Tables, start_s: Floats, finish_s: Floats) -> Ints:
    """Return the tasks by start, then finish, then number, with every task after its predecessors."""
    # Task numbers are in a topological order, and the sort is stable.
    start, finish = _after_predecessors(tables.pred_start, tables.pred_task, start_s, finish_s)
    order: Ints = np.lexsort((finish, start))
    return order


@compiled
def _after_predecessors(pred_start: Ints, pred_task: Ints, start_s: Floats, finish_s: Floats) -> tuple[Floats, Floats]:
    """Raise times to those of the predecessors: tasks may take no time, and times may be off by rounding."""
    start, finish = start_s.copy(), finish_s.copy()
    for task in range(start.size):
        for k in range(pred_start[task], pred_start[task + 1]):
            before = pred_task[k]
            start[task] = max(start[task], start[before])
            if start[task] == start[before]:
                finish[task] = max(finish[task], finish[before])
    return start, finish


@compiled
def depth_first(pred_start: Ints, succ_start: Ints, succ_task: Ints) -> Ints:
    """Return the tasks in an order that takes the task that became ready last, and so uses results soon."""
    count = pred_start.size - 1
    waiting, order, stack = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    height = 0
    for task in range(count - 1, -1, -1):
        waiting[task] = pred_start[task + 1] - pred_start[task]
        if waiting[task] == 0:
            stack[height] = task
            height += 1
    done = 0
    while height > 0:
        height -= 1
        task = stack[height]
        order[done] = task
        done += 1
        for k in range(succ_start[task + 1] - 1, succ_start[task] - 1, -1):
            after = succ_task[k]
            waiting[after] -= 1
            if waiting[after] == 0:
                stack[height] = after
                height += 1
    return order


@compiled
def _is_topological(tables: Tables, places: Ints) -> bool:
    """Return whether every task comes after its predecessors."""
    for task in range(places.shape[0]):
        for arc in range(tables.pred_start[task], tables.pred_start[task + 1]):
            if places[tables.pred_task[arc]] > places[task]:
                return False
    return True
