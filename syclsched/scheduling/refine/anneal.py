# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over task orders and placements, in the contention-free model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.refine.chains import forget, undo
from syclsched.scheduling.refine.critical import chance, critical_path, work_out_tails
from syclsched.scheduling.refine.decode import settle
from syclsched.scheduling.refine.moves import propose
from syclsched.scheduling.refine.records import MOVES, Search
from syclsched.scheduling.tables import Floats, Ints


class Best(NamedTuple):
    """Best state found: order, processor of each task, and the makespan as a single entry."""

    order: Ints
    processor: Ints
    makespan_s: Floats


@lean
def _keep(search: Search, best: Best, makespan_s: float) -> None:
    """Record the current order and placement as the best."""
    best.makespan_s[0] = makespan_s
    for k in range(search.order.size):
        best.order[k] = search.order[k]
        best.processor[k] = search.nodes[k].processor


@lean
def anneal(search: Search, best: Best, current_s: float, temperature_s: float, steps: int) -> float:
    """Make ``steps`` steps at one temperature; return the makespan of the last state."""
    length = critical_path(search)
    work_out_tails(search)
    for _ in range(steps):
        # Metropolis' rule with its random number drawn first: the evaluation of hopeless moves can stop early.
        limit = current_s - temperature_s * np.log(1.0 - chance(search.words))
        propose(search, length, limit)
        if search.counts[MOVES] == 0:
            continue
        value = settle(search, limit)
        if value > limit:
            undo(search)
            continue
        forget(search.counts, search.order.size)
        current_s = value
        length = critical_path(search)
        work_out_tails(search)
        if value < best.makespan_s[0]:
            _keep(search, best, value)
    return current_s
