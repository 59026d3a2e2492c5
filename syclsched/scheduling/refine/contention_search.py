# SPDX-License-Identifier: Apache-2.0
"""Refinement with contention: simulated annealing that decodes every candidate with the list-scheduling engine.

A candidate is an order of the tasks and a device for each. The engine puts tasks and their copies into the first gaps
in that order. It builds a whole schedule per candidate, so steps cost more than in the contention-free model.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.core.list_schedulers import in_order
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.refine.decode import order_of
from syclsched.scheduling.refine.meter import Meter
from syclsched.scheduling.tables import Ints
from syclsched.scheduling.timetable import Timetable

#: Temperatures at the start and the end, relative to the makespan.
HOT, COLD = 0.01, 0.0005

#: Largest move of a task in the order.
REACH = 20


def refine_listed(problem: Problem, ranked: Sequence[Timetable], meter: Meter, seed: int) -> Timetable:
    """Search for a better timetable with listed copies."""
    best, best_s = ranked[0], makespan_s(problem, ranked[0])
    tables = problem.tables
    order = order_of(tables.pred_start, tables.pred_task, best.start_s, best.finish_s)
    device = tables.processor_device[best.processor].copy()
    decoded = _decode(problem, order, device)
    if decoded is None:
        return best
    current_s = decoded[0]
    if current_s < best_s:
        best, best_s = decoded[1], current_s
    rng = random.Random(seed)
    while (spent := meter.spent()) < 1.0:
        meter.count(1)
        tried_order, tried_device = order.copy(), device.copy()
        for _ in range(1 + (rng.random() < 0.3)):
            _move(problem, tried_order, tried_device, rng)
        decoded = _decode(problem, tried_order, tried_device)
        if decoded is None:
            continue
        limit_s = current_s - best_s * HOT * (COLD / HOT) ** spent * math.log(1.0 - rng.random())
        if decoded[0] <= limit_s:
            order, device, current_s = tried_order, tried_device, decoded[0]
            if current_s < best_s:
                best, best_s = decoded[1], current_s
    return best


def _move(problem: Problem, order: Ints, device: Ints, rng: random.Random) -> None:
    """Change the device of a random task, or its position between its predecessors and successors."""
    tables = problem.tables
    place = rng.randrange(len(order))
    task = int(order[place])
    able = np.flatnonzero(np.isfinite(tables.seconds[task]))
    if len(able) > 1 and rng.random() < 0.6:
        device[task] = rng.choice(able.tolist())
        return
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    low = int(position[tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]]].max(initial=-1)) + 1
    after = tables.succ_task[tables.succ_start[task] : tables.succ_start[task + 1]]
    high = int(position[after].min(initial=len(order))) - 1
    new_place = rng.randint(max(low, place - REACH), min(high, place + REACH))
    if new_place > place:
        order[place:new_place] = order[place + 1 : new_place + 1]
    else:
        order[new_place + 1 : place + 1] = order[new_place:place].copy()
    order[new_place] = task


def _decode(problem: Problem, order: Ints, device: Ints) -> tuple[float, Timetable] | None:
    """Return makespan and timetable of an order and devices; None if some data cannot be copied to its device."""
    try:
        made = in_order(problem, order, pinned=device)
    except PolicyError:
        return None
    finish_s = makespan_s(problem, made)
    return (finish_s, made) if finish_s < math.inf else None
