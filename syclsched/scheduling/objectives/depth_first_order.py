# SPDX-License-Identifier: Apache-2.0
"""Depth-first topological order, which uses results soon after they are made."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.tables import Ints, Tables


def depth_first(tables: Tables) -> Ints:
    """Return the tasks in a topological order that takes the task that became ready last."""
    return _depth_first(tables.pred_start, tables.succ_start, tables.succ_task)


@compiled
def _depth_first(pred_start: Ints, succ_start: Ints, succ_task: Ints) -> Ints:
    """Take ready tasks from a stack."""
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
