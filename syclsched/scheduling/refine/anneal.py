# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over task orders and placements, in the contention-free model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.refine.chains import clear_undo_log, undo
from syclsched.scheduling.refine.critical import compute_tails, critical_path, random_unit
from syclsched.scheduling.refine.decode import update_times
from syclsched.scheduling.refine.moves import propose
from syclsched.scheduling.refine.records import MOVES, Search
from syclsched.scheduling.tables import Floats, Ints


class BestSchedule(NamedTuple):
    """Best state found: order, processor of each task, and the makespan as a single entry."""

    order: Ints
    processor: Ints
    makespan_s: Floats


@lean
def _keep(search: Search, best: BestSchedule, makespan_s: float) -> None:
    """Record the current order and placement as the best."""
    best.makespan_s[0] = makespan_s
    for k in range(search.order.size):
        best.order[k] = search.order[k]
        best.processor[k] = search.nodes[k].processor


@lean
def anneal(search: Search, best: BestSchedule, current_s: float, temperature_s: float, steps: int) -> float:
    """Make ``steps`` steps at one temperature; return the makespan of the last state."""
    length = critical_path(search)
    compute_tails(search)
    for _ in range(steps):
        # Metropolis' rule with its random number drawn first: the evaluation of hopeless moves can stop early.
        limit = current_s - temperature_s * np.log(1.0 - random_unit(search.words))
        propose(search, length, limit)
        if search.counts[MOVES] == 0:
            continue
        value = update_times(search, limit)
        if value > limit:
            undo(search)
            continue
        clear_undo_log(search.counts, search.order.size)
        current_s = value
        length = critical_path(search)
        compute_tails(search)
        if value < best.makespan_s[0]:
            _keep(search, best, value)
    return current_s
