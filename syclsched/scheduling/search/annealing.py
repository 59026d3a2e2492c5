# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over task orders and placements: one loop, compiled for the moves of each evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from syclsched.compiled import lean, specialised
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


def annealing_loop(
    propose: Callable[[Any, float], bool],
    evaluate: Callable[[Any, float], tuple[float, float]],
    accept: Callable[[Any], None],
    undo: Callable[[Any], None],
    prepare_moves: Callable[[Any], None],
) -> Anneal:
    """Return the loop, compiled for the functions of an evaluator.

    ``propose`` makes a random move, ``evaluate`` returns the cost of the state and its excess over the limits, then
    ``accept`` or ``undo`` is called; ``prepare_moves`` is called for each state that is kept.
    """

    def anneal(state: Any, best: Best, current: float, temperature: float, steps: int) -> float:
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

    return specialised(anneal, propose)
