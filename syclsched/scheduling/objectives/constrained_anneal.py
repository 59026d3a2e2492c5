# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over task orders and placements, for any objective and with limits.

Broken limits are penalised instead of forbidden, so that the search can pass through infeasible states. The best state
that breaks no limit is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import compiled, lean
from syclsched.scheduling.objectives.constrained_decode import decode
from syclsched.scheduling.objectives.memory_accounting import LIMIT, OVER
from syclsched.scheduling.objectives.search_state import MOST_MOVED, SearchState
from syclsched.scheduling.refine.critical import random_below, random_unit
from syclsched.scheduling.refine.records import Words
from syclsched.scheduling.tables import Floats, Ints, Tables

#: Penalty of exceeding a limit by 100 %, relative to the objective at the start of the search.
PENALTY = 10.0

#: Weight of the makespan where it is not the objective: a tie-breaker.
TIE = 1e-3

#: Upper bounds of the draws for each move: other processor, other position, both, swap of two tasks; else gather tasks.
_REASSIGN, _REORDER, _BOTH, _SWAP = 0.35, 0.6, 0.8, 0.92


class Goal(NamedTuple):
    """Objective weights and limits of the search."""

    weight: Floats  # cost of one unit of makespan, interval and energy
    limit: Floats  # upper limit of each; infinity for none. Limits of spaces are in `State.room`.
    scale: Floats  # reference values for limits of 0


class BestFound(NamedTuple):
    """Best state found: order and processors; ``worth`` holds its cost and its relative excess over the limits."""

    order: Ints
    processor: Ints
    worth: Floats


@lean
def excess_of(value: Floats, memory: Floats, goal: Goal) -> float:
    """Return the sum of the relative excesses over all limits; 0 if none is broken."""
    total = 0.0
    for k in range(3):
        if value[k] > goal.limit[k] * (1.0 + 1e-12):
            total += (value[k] - goal.limit[k]) / max(goal.limit[k], 1e-3 * goal.scale[k])
    for space in range(memory.shape[0]):
        if memory[space, OVER] > 0.0:
            total += memory[space, OVER] / max(memory[space, LIMIT], 1e-3 * memory[space, OVER])
    return total


@lean
def cost_of(value: Floats, excess: float, goal: Goal) -> float:
    """Return the objective plus the penalty of broken limits."""
    cost = 0.0
    for k in range(3):
        if goal.weight[k] > 0.0:
            cost += goal.weight[k] * value[k]
    return cost + (PENALTY * excess + 0.01 if excess > 0.0 else 0.0)


@lean
def _move_to(order: Ints, position: Ints, task: int, place: int) -> None:
    """Move a task to a position in the order; tasks in between shift by one."""
    current = position[task]
    step = 1 if place > current else -1
    while current != place:
        other = order[current + step]
        order[current] = other
        position[other] = current
        current += step
    order[place] = task
    position[task] = place


@lean
def _random_processor(seconds: Floats, processor_device: Ints, words: Words, task: int, own: int) -> int:
    """Return a random processor that can run a task, or its own if none is found."""
    for _ in range(8):
        candidate = random_below(words, processor_device.size)
        if candidate != own and seconds[task, processor_device[candidate]] < np.inf:
            return candidate
    return own


@lean
def _reassign(able: bool, processor: Ints, moved: Ints, count: int, task: int, target: int) -> int:
    """Give a task another processor if it is able to run there, and log the old one; return the length of the log."""
    if able and processor[task] != target and count < MOST_MOVED:
        moved[count, 0], moved[count, 1] = task, processor[task]
        processor[task] = target
        return count + 1
    return count


@lean
def _propose(
    t: Tables, order: Ints, position: Ints, processor: Ints, words: Words, moved: Ints
) -> tuple[int, int, int]:
    """Apply a random move; return the number of changed processors, the task moved in the order, its old position."""
    seconds, device = t.seconds, t.processor_device
    pred_start, pred_task, succ_start, succ_task = t.pred_start, t.pred_task, t.succ_start, t.succ_task
    task = random_below(words, order.size)
    source, target, old_position = processor[task], processor[task], position[task]
    draw = random_unit(words)
    count = 0
    if draw < _REASSIGN or (_REORDER <= draw < _BOTH) or draw >= _SWAP:
        target = _random_processor(seconds, device, words, task, source)
        count = _reassign(True, processor, moved, count, task, target)
    if draw >= _SWAP:
        share = random_unit(words)
        for k in range(pred_start[task], pred_start[task + 1] + succ_start[task + 1] - succ_start[task]):
            neighbour = (
                pred_task[k] if k < pred_start[task + 1] else succ_task[succ_start[task] + k - pred_start[task + 1]]
            )
            if random_unit(words) < share:
                count = _reassign(
                    seconds[neighbour, device[target]] < np.inf, processor, moved, count, neighbour, target
                )
    elif draw >= _BOTH:
        other = order[random_below(words, order.size)]
        target = processor[other]
        if seconds[other, device[source]] < np.inf and seconds[task, device[target]] < np.inf:
            count = _reassign(True, processor, moved, count, task, target)
            count = _reassign(True, processor, moved, count, other, source)
    if _REASSIGN <= draw < _BOTH:
        low, high = 0, order.size - 1
        for k in range(pred_start[task], pred_start[task + 1]):
            low = max(low, position[pred_task[k]] + 1)
        for k in range(succ_start[task], succ_start[task + 1]):
            high = min(high, position[succ_task[k]] - 1)
        if random_unit(words) < 0.5:  # prefer positions nearby
            low, high = max(low, old_position - 8), min(high, old_position + 8)
        _move_to(order, position, task, low + random_below(words, high - low + 1))
    return count, task, old_position


@compiled
def _record_best(order: Ints, processor: Ints, best: BestFound, cost: float, excess: float) -> None:
    """Record an order and placement as the best."""
    best.worth[0], best.worth[1] = cost, excess
    best.order[:] = order
    best.processor[:] = processor


@compiled
def anneal(
    t: Tables, s: SearchState, goal: Goal, best: BestFound, words: Words, current: float, temperature: float, steps: int
) -> float:
    """Make ``steps`` steps at one temperature; return the cost of the last state."""
    moved = np.empty((MOST_MOVED, 2), np.int64)
    order, position, processor, value, memory = s.order, s.position, s.processor, s.value, s.room
    for _ in range(steps):
        count, task, old_position = _propose(t, order, position, processor, words, moved)
        if count == 0 and position[task] == old_position:
            continue
        decode(t, s)
        excess = excess_of(value, memory, goal)
        cost = cost_of(value, excess, goal)
        if cost < np.inf and cost <= current - temperature * np.log(1.0 - random_unit(words)):
            current = cost
            if excess < best.worth[1] or (excess == best.worth[1] and cost < best.worth[0]):
                _record_best(order, processor, best, cost, excess)
            continue
        for k in range(count - 1, -1, -1):
            processor[moved[k, 0]] = moved[k, 1]
        _move_to(order, position, task, old_position)
    return current
