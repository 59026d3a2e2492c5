# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over orders and placements, by any objective and under limits.

What breaks a limit is not forbidden but dear, so that the search can pass through it; what is kept is the best that
breaks none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import compiled, lean
from syclsched.scheduling.objectives.decode import decode
from syclsched.scheduling.objectives.room import LIMIT, OVER
from syclsched.scheduling.objectives.state import MOST_MOVED, State
from syclsched.scheduling.refine.critical import chance, pick
from syclsched.scheduling.refine.records import Words
from syclsched.scheduling.tables import Floats, Ints, Tables

#: What breaking a limit by all of it costs, in units of the objective where the search began.
PENALTY = 10.0

#: What the makespan counts where it is not the objective: it decides between equals.
TIE = 1e-3

#: Below these draws: another processor, another place, both, two tasks exchanged; else tasks are gathered.
_REASSIGN, _REORDER, _BOTH, _SWAP = 0.35, 0.6, 0.8, 0.92


class Goal(NamedTuple):
    """What counts."""

    weight: Floats  # what one unit of makespan, interval and energy costs
    limit: Floats  # the most of each; infinity for no limit. The limits of spaces are in `State.room`.
    scale: Floats  # what a limit of 0 is compared with


class Best(NamedTuple):
    """The best found: order and processors; cost and excess (of the limits, relative), as the only two entries."""

    order: Ints
    processor: Ints
    worth: Floats


@lean
def excess_of(value: Floats, room: Floats, goal: Goal) -> float:
    """Return by how much limits are broken, relatively, all together; 0 if none is."""
    total = 0.0
    for k in range(3):
        if value[k] > goal.limit[k] * (1.0 + 1e-12):
            total += (value[k] - goal.limit[k]) / max(goal.limit[k], 1e-3 * goal.scale[k])
    for space in range(room.shape[0]):
        if room[space, OVER] > 0.0:
            total += room[space, OVER] / max(room[space, LIMIT], 1e-3 * room[space, OVER])
    return total


@lean
def cost_of(value: Floats, excess: float, goal: Goal) -> float:
    """Return the objective with what broken limits cost."""
    cost = 0.0
    for k in range(3):
        if goal.weight[k] > 0.0:
            cost += goal.weight[k] * value[k]
    return cost + (PENALTY * excess + 0.01 if excess > 0.0 else 0.0)


@lean
def _move_to(order: Ints, position: Ints, task: int, place: int) -> None:
    """Move a task in the order, those between by one."""
    here = position[task]
    step = 1 if place > here else -1
    while here != place:
        other = order[here + step]
        order[here] = other
        position[other] = here
        here += step
    order[place] = task
    position[task] = place


@lean
def _some_processor(seconds: Floats, processor_device: Ints, words: Words, task: int, here: int) -> int:
    """Return by chance a processor that can run a task."""
    for _ in range(8):
        there = pick(words, processor_device.size)
        if there != here and seconds[task, processor_device[there]] < np.inf:
            return there
    return here


@lean
def _reassign(able: bool, processor: Ints, moved: Ints, count: int, task: int, there: int) -> int:
    """Give a task another processor if it is able, and note what it had; return how many are noted then."""
    if able and processor[task] != there and count < MOST_MOVED:
        moved[count, 0], moved[count, 1] = task, processor[task]
        processor[task] = there
        return count + 1
    return count


@lean
def _propose(
    t: Tables, order: Ints, position: Ints, processor: Ints, words: Words, moved: Ints
) -> tuple[int, int, int]:
    """Change the state a little; return how many processors changed, and the task moved in the order and its place."""
    seconds, device = t.seconds, t.processor_device
    pred_start, pred_task, succ_start, succ_task = t.pred_start, t.pred_task, t.succ_start, t.succ_task
    task = pick(words, order.size)
    here, there, was = processor[task], processor[task], position[task]
    draw = chance(words)
    count = 0
    if draw < _REASSIGN or (_REORDER <= draw < _BOTH) or draw >= _SWAP:
        there = _some_processor(seconds, device, words, task, here)
        count = _reassign(True, processor, moved, count, task, there)
    if draw >= _SWAP:
        share = chance(words)
        for k in range(pred_start[task], pred_start[task + 1] + succ_start[task + 1] - succ_start[task]):
            near = pred_task[k] if k < pred_start[task + 1] else succ_task[succ_start[task] + k - pred_start[task + 1]]
            if chance(words) < share:
                count = _reassign(seconds[near, device[there]] < np.inf, processor, moved, count, near, there)
    elif draw >= _BOTH:
        other = order[pick(words, order.size)]
        there = processor[other]
        if seconds[other, device[here]] < np.inf and seconds[task, device[there]] < np.inf:
            count = _reassign(True, processor, moved, count, task, there)
            count = _reassign(True, processor, moved, count, other, here)
    if _REASSIGN <= draw < _BOTH:
        low, high = 0, order.size - 1
        for k in range(pred_start[task], pred_start[task + 1]):
            low = max(low, position[pred_task[k]] + 1)
        for k in range(succ_start[task], succ_start[task + 1]):
            high = min(high, position[succ_task[k]] - 1)
        if chance(words) < 0.5:  # near ones more often
            low, high = max(low, was - 8), min(high, was + 8)
        _move_to(order, position, task, low + pick(words, high - low + 1))
    return count, task, was


@compiled
def keep(order: Ints, processor: Ints, best: Best, cost: float, excess: float) -> None:
    """Keep an order and placement as the best."""
    best.worth[0], best.worth[1] = cost, excess
    best.order[:] = order
    best.processor[:] = processor


@compiled
def anneal(
    t: Tables, s: State, goal: Goal, best: Best, words: Words, current: float, temperature: float, steps: int
) -> float:
    """Make so many steps at one temperature."""
    moved = np.empty((MOST_MOVED, 2), np.int64)
    order, position, processor, value, room = s.order, s.position, s.processor, s.value, s.room
    for _ in range(steps):
        count, task, was = _propose(t, order, position, processor, words, moved)
        if count == 0 and position[task] == was:
            continue
        decode(t, s)
        excess = excess_of(value, room, goal)
        cost = cost_of(value, excess, goal)
        if cost < np.inf and cost <= current - temperature * np.log(1.0 - chance(words)):
            current = cost
            if excess < best.worth[1] or (excess == best.worth[1] and cost < best.worth[0]):
                keep(order, processor, best, cost, excess)
            continue
        for k in range(count - 1, -1, -1):
            processor[moved[k, 0]] = moved[k, 1]
        _move_to(order, position, task, was)
    return current
