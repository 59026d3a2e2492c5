# SPDX-License-Identifier: Apache-2.0
"""Moves and costs of the constrained evaluator: any objective, with limits.

Broken limits are penalised instead of forbidden, so that the search can pass through infeasible states. The best state
that breaks no limit is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.search.annealing import annealing_loop
from syclsched.scheduling.search.constrained.decode import locate, measure, place
from syclsched.scheduling.search.constrained.memory_accounting import EXCESS, LIMIT
from syclsched.scheduling.search.constrained.state import ConstrainedState
from syclsched.scheduling.search.incremental.chains import clear_undo_log, relocate, undo_moves
from syclsched.scheduling.search.incremental.moves import gather_row, highest, lowest, other_processor
from syclsched.scheduling.search.incremental.records import MOVES
from syclsched.scheduling.search.random_numbers import random_below, random_unit

#: Penalty of exceeding a limit by 100 %, relative to the objective at the start of the search.
PENALTY = 10.0

#: Upper bounds of the draws for each move: other processor, other position, both, swap of two tasks; else gather tasks.
_REASSIGN, _REORDER, _BOTH, _SWAP = 0.35, 0.6, 0.8, 0.92

#: Maximum number of tasks that are gathered on a processor, and largest shift to a position nearby.
_MOST_GATHERED, _NEARBY = 32, 8


@lean
def propose(s: ConstrainedState, _: float) -> bool:
    """Make one random move; return False if the drawn move changes nothing."""
    return bool(propose_for(s, random_below(s.words, s.order.size)))


@lean
def propose_for(s: Any, task: int) -> bool:
    """Make one random move of a task; return False if the drawn move changes nothing.

    The state is this evaluator's or that of `syclsched.scheduling.search.queued`.
    """
    nodes, lanes, order, counts, moved, words = s.nodes, s.lanes, s.order, s.counts, s.moved, s.words
    draw = random_unit(words)
    source, place = nodes[task].processor, nodes[task].position
    target = source
    if _BOTH <= draw < _SWAP:
        other = order[random_below(words, order.size)]
        target = nodes[other].processor
        if source == target or not s.costs[task, lanes[target].device].seconds < np.inf:
            return False
        if not s.costs[other, lanes[source].device].seconds < np.inf:
            return False
        relocate(nodes, lanes, order, counts, moved, other, source, nodes[other].position)
    elif lanes.size > 1 and not _REASSIGN <= draw < _REORDER:
        target = other_processor(s.costs, lanes, words, task, source)
    if _REASSIGN <= draw < _BOTH:
        low, high = lowest(nodes, s.arcs, task), highest(nodes, s.arcs, task, order.size)
        if random_unit(words) < 0.5:
            low, high = max(low, place - _NEARBY), min(high, place + _NEARBY)
        place = low + random_below(words, high - low + 1)
    if target != source or place != nodes[task].position:
        relocate(nodes, lanes, order, counts, moved, task, target, place)
    if draw >= _SWAP:
        share = random_unit(words)
        pred, succ = s.arcs[nodes[task].pred : nodes[task + 1].pred], s.arcs[nodes[task].succ : nodes[task + 1].succ]
        gather_row(nodes, lanes, order, counts, moved, s.costs, words, pred, target, share, _MOST_GATHERED)
        gather_row(nodes, lanes, order, counts, moved, s.costs, words, succ, target, share, _MOST_GATHERED)
    return bool(counts[MOVES] > 0)


@lean
def prepare_moves(_: ConstrainedState) -> None:
    """Do nothing: moves are drawn from all tasks alike."""


@lean
def evaluate(s: ConstrainedState, _: float) -> tuple[float, float]:
    """Return the objective plus the penalty of broken limits, and the sum of the relative excesses over these."""
    locate(s)
    place(s)
    measure(s)
    goal, value, memory = s.goal, s.value, s.memory
    excess = 0.0
    for k in range(3):
        if value[k] > goal.limit[k] * (1.0 + 1e-12):
            excess += (value[k] - goal.limit[k]) / max(goal.limit[k], 1e-3 * goal.scale[k])
    for space in range(memory.shape[0]):
        if memory[space, EXCESS] > 0.0:
            excess += memory[space, EXCESS] / max(memory[space, LIMIT], 1e-3 * memory[space, EXCESS])
    cost = PENALTY * excess + 0.01 if excess > 0.0 else 0.0
    for k in range(3):
        if goal.weight[k] > 0.0:
            cost += goal.weight[k] * value[k]
    return cost, excess


@lean
def accept(s: ConstrainedState) -> None:
    """Make the changes final."""
    clear_undo_log(s.counts, s.order.size)


@lean
def undo(s: ConstrainedState) -> None:
    """Undo the moves; what is derived from them is derived anew with the next."""
    undo_moves(s.nodes, s.lanes, s.order, s.counts, s.moved)
    clear_undo_log(s.counts, s.order.size)


anneal = annealing_loop(propose, evaluate, accept, undo, prepare_moves)
