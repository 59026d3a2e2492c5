# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over task orders and placements: one compiled loop for every evaluator of schedules."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.search.constrained import moves as constrained_moves
from syclsched.scheduling.search.incremental import moves as incremental_moves
from syclsched.scheduling.search.incremental.moves import accept, evaluate, prepare_moves, propose, undo
from syclsched.scheduling.search.queued import moves as queued_moves
from syclsched.scheduling.search.random_numbers import random_unit
from syclsched.scheduling.tables import Floats, Ints


class Best(NamedTuple):
    """Best state found: order, processor of each task, and its cost and its relative excess over the limits."""

    order: Ints
    processor: Ints
    worth: Floats

    @property
    def cost(self) -> float:
        """Cost of the state."""
        return float(self.worth[0])


#: Makes so many steps from a state of a cost at one temperature; records the best, and returns the cost of the last.
Anneal = Callable[[Any, Best, float, float, int], float]


@lean
def _keep(order: Ints, nodes: Any, best: Best, cost: float, excess: float) -> None:
    """Record an order and placement as the best."""
    best.worth[0], best.worth[1] = cost, excess
    for k in range(order.size):
        best.order[k] = order[k]
        best.processor[k] = nodes[k].processor


def _anneal(state: Any, best: Best, current: float, temperature: float, steps: int) -> float:
    """Make steps at one temperature; the five functions are those of the evaluator of the state."""
    prepare_moves(state)
    for _ in range(steps):
        # Metropolis' rule with its random number drawn first: the evaluation of hopeless moves can stop early.
        limit = current - temperature * np.log(1.0 - random_unit(state.words))
        if not propose(state, limit):
            continue
        cost, excess = evaluate(state, limit)
        if cost > limit:
            undo(state)
            continue
        accept(state)
        prepare_moves(state)
        current = cost
        if excess < best.worth[1] or (excess == best.worth[1] and cost < best.worth[0]):
            _keep(state.order, state.nodes, best, cost, excess)
    return current


def _compiled_with(name: str, moves: ModuleType) -> Anneal:
    """Return the loop, compiled with the functions of a module of moves in place of those imported above."""
    # As globals: numba cannot cache functions on disk that get others as arguments or from a closure.
    functions = {name: getattr(moves, name) for name in ("accept", "evaluate", "prepare_moves", "propose", "undo")}
    function = FunctionType(_anneal.__code__, {**globals(), **functions}, name)
    function.__qualname__ = name
    return lean(function)


#: With moves mostly of critical tasks, whose effect is computed incrementally; with moves of any task; and with the
#: copy lanes of plans.
anneal_incrementally = _compiled_with("anneal_incrementally", incremental_moves)
anneal_constrained = _compiled_with("anneal_constrained", constrained_moves)
anneal_queued = _compiled_with("anneal_queued", queued_moves)
