# SPDX-License-Identifier: Apache-2.0
"""Constrained evaluator: any objective, limits, and copies that wait for channels; decodes every state as a whole."""

from __future__ import annotations

import numpy as np

from syclsched.scheduling.problem import Problem
from syclsched.scheduling.search.annealing import Best
from syclsched.scheduling.search.constrained.moves import anneal, evaluate
from syclsched.scheduling.search.constrained.state import COPIES, LISTED, Goal, make_constrained_state
from syclsched.scheduling.search.incremental.chains import clear_undo_log, load
from syclsched.scheduling.tables import Floats, Ints, Tables
from syclsched.scheduling.timetable import Copies, Timetable


class ConstrainedEvaluator:
    """Evaluator of a problem under a goal, which is the makespan at first."""

    def __init__(self, problem: Problem, *, power: bool = False, tables: Tables | None = None, seed: int = 0) -> None:
        self.state = make_constrained_state(problem, power=power, tables=tables, seed=seed)

    def anneal(self, best: Best, current: float, temperature: float, steps: int) -> float:
        """Make steps at one temperature from the current state of a cost; return the cost of the last state."""
        return anneal(self.state, best, current, temperature, steps)

    def set_goal(self, goal: Goal) -> None:
        """Set weights and limits."""
        self.state = self.state._replace(goal=goal)

    def set_tables(self, tables: Tables) -> None:
        """Set other numbers of the same problem."""
        self.state = self.state._replace(tables=tables)

    def scale_goal(self, order: Ints, processor: Ints) -> None:
        """Scale the weights so that the objective of an order and placement is 1."""
        goal = self.state.goal
        used = goal.weight > 0.0
        cost = float((goal.weight[used] * self.values(order, processor)[used]).sum())
        self.set_goal(goal._replace(weight=goal.weight / max(cost, 1e-300)))

    def values(self, order: Ints, processor: Ints) -> Floats:
        """Load an order and placement; return its makespan, interval and energy."""
        self.worth(order, processor)
        return self.state.value.copy()

    def worth(self, order: Ints, processor: Ints) -> tuple[float, float]:
        """Load an order and placement; return its cost, and its relative excess over the limits."""
        load(self.state.nodes, self.state.lanes, self.state.order, order, processor)
        clear_undo_log(self.state.counts, len(order))
        cost, excess = evaluate(self.state, np.inf)
        return float(cost), float(excess)

    def load(self, order: Ints, processor: Ints) -> float:
        """Load an order and placement; return its cost."""
        return self.worth(order, processor)[0]

    def temperature_unit(self, _: float) -> float:
        """Return 1: goals are relative to the start of the search."""
        return 1.0

    def timetable(self) -> Timetable:
        """Return the current state as a timetable."""
        state, copies = self.state, None
        if state.copying[LISTED]:
            count = int(state.copying[COPIES])
            what, when_s = state.copy_what[:count].T, state.copy_when_s[:count].T
            copies = Copies(what[0].copy(), what[1].copy(), what[2].copy(), when_s[0].copy(), when_s[1].copy())
        return Timetable(state.processor.copy(), state.start_s.copy(), state.finish_s.copy(), copies)
