# SPDX-License-Identifier: Apache-2.0
"""Search for plans: replica exchange by the makespans of plans with copy lanes; simulation ranks the results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from syclsched.model.platform import Platform
from syclsched.planner.search_budget import SearchBudget
from syclsched.planning.transfers.copy_lanes import copy_lanes
from syclsched.scheduling import Problem, Timetable
from syclsched.scheduling.bounds import quick_bound_s
from syclsched.scheduling.portfolio import ROUNDING
from syclsched.scheduling.search.cooling import first_best
from syclsched.scheduling.search.exchange import exchange_rounds, replica_seed
from syclsched.scheduling.search.meter import Meter
from syclsched.scheduling.search.queued.evaluator import QueuedEvaluator
from syclsched.scheduling.search.refinement import time_start

#: Number of replicas, and steps of each between swaps.
REPLICAS, SWAP_STEPS = 5, 100

#: Steps for all tasks together without a budget: a step takes time for every task.
DEFAULT_WORK, MOST_STEPS = 360_000, 10_000


def searched_timetables(
    problem: Problem, platform: Platform, starts: Sequence[Timetable], budget: SearchBudget
) -> Iterator[Timetable]:
    """Yield ever better timetables, by the makespans of their plans, until the budget is spent.

    More steps yield the same timetables first: only whole rounds of the exchange are made.
    """
    lanes = copy_lanes(platform, problem)
    replicas = [QueuedEvaluator(problem.tables, lanes, replica_seed(budget.seed, k)) for k in range(REPLICAS)]
    states = [time_start(problem, timetable) for timetable in starts]
    costs = [replicas[0].load(*state) for state in states]
    states = [state for state, cost in zip(states, costs, strict=True) if cost < math.inf]
    if not states or not len(problem):
        return
    shown = QueuedEvaluator(problem.tables, lanes, budget.seed)
    best = first_best(states[0], min(costs))
    shown_s = best.cost
    bound_s = quick_bound_s(problem) * (1.0 + ROUNDING)
    steps = budget.steps_of(min(MOST_STEPS, DEFAULT_WORK // len(problem)))
    each = max(1, min(SWAP_STEPS, 4_000 // len(problem)))
    meter = Meter(None if steps is None else steps - steps % (each * REPLICAS), budget.left_s(), budget.clock)
    rounds = exchange_rounds(replicas, states, best, meter, budget.seed, each)
    while best.cost > bound_s and next(rounds, False):
        if best.cost < shown_s * (1.0 - ROUNDING):
            shown_s = best.cost
            shown.load(best.order, best.processor)
            yield shown.timetable()
