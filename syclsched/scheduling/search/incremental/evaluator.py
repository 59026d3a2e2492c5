# SPDX-License-Identifier: Apache-2.0
"""Incremental evaluator: makespans in the contention-free model, recomputed only where a move changes times."""

from __future__ import annotations

from syclsched.scheduling.search.annealing import Best
from syclsched.scheduling.search.incremental.chains import load
from syclsched.scheduling.search.incremental.critical import critical_path
from syclsched.scheduling.search.incremental.decode import compute_all_times
from syclsched.scheduling.search.incremental.moves import anneal
from syclsched.scheduling.search.incremental.prepare import prepare
from syclsched.scheduling.tables import Ints, Tables
from syclsched.scheduling.timetable import Timetable


class IncrementalEvaluator:
    """Evaluator of a problem without channels; the cost is the makespan in seconds."""

    def __init__(self, tables: Tables, seed: int) -> None:
        self.state = prepare(tables, seed)

    def load(self, order: Ints, processor: Ints) -> float:
        """Load an order and placement; return its cost."""
        load(self.state.nodes, self.state.lanes, self.state.order, order, processor)
        return float(compute_all_times(self.state))

    def anneal(self, best: Best, current: float, temperature: float, steps: int) -> float:
        """Make steps at one temperature from the current state of a cost; return the cost of the last state."""
        return anneal(self.state, best, current, temperature, steps)

    def temperature_unit(self, cost: float) -> float:
        """Return the mean step of the critical path, for the loaded state."""
        return cost / max(1, critical_path(self.state))

    def timetable(self) -> Timetable:
        """Return the current state as a timetable."""
        nodes = self.state.nodes[:-1]
        return Timetable(nodes["processor"].copy(), nodes["start_s"].copy(), nodes["finish_s"].copy())
