# SPDX-License-Identifier: Apache-2.0
"""Evaluator with copy lanes: makespans of plans, where copies wait for each other on in-order lanes."""

from __future__ import annotations

import math

from syclsched.scheduling.search.annealing import Best
from syclsched.scheduling.search.incremental.chains import load
from syclsched.scheduling.search.queued import moves
from syclsched.scheduling.search.queued.decode import lay_out, run
from syclsched.scheduling.search.queued.state import PATH, CopyLanes, prepare_queued
from syclsched.scheduling.tables import Ints, Tables
from syclsched.scheduling.timetable import Timetable


class QueuedEvaluator:
    """Evaluator of a problem whose copies run on given lanes; the cost is the makespan in seconds."""

    def __init__(self, tables: Tables, lanes: CopyLanes, seed: int) -> None:
        self.state = prepare_queued(tables, lanes, seed)

    def load(self, order: Ints, processor: Ints) -> float:
        """Load an order and placement; return its cost, infinity if some data cannot be copied to its device."""
        s = self.state
        load(s.nodes, s.lanes, s.order, order, processor)
        if not lay_out(s):
            return math.inf
        cost = run(s.nodes, s.steps, s.queues, s.links, s.step_of, s.sizes, math.inf)
        moves.trace_path(s)
        return float(cost)

    def anneal(self, best: Best, current: float, temperature: float, steps: int) -> float:
        """Make steps at one temperature from the current state of a cost; return the cost of the last state."""
        return moves.anneal(self.state, best, current, temperature, steps)

    def temperature_unit(self, cost: float) -> float:
        """Return the mean step of the critical path, for the loaded state."""
        return cost / max(1, int(self.state.sizes[PATH]))

    def timetable(self) -> Timetable:
        """Return the state that was loaded last as a timetable."""
        steps = self.state.steps[self.state.step_of]
        return Timetable(self.state.nodes["processor"][:-1].copy(), steps["start_s"].copy(), steps["finish_s"].copy())
