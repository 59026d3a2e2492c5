# SPDX-License-Identifier: Apache-2.0
"""Anytime search from the best list schedules, by replica exchange or, where time is short, by annealing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.bounds import quick_bound_s
from syclsched.scheduling.core.orders import time_order
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.search.cooling import Cooling, Start, cool_repeatedly, first_best
from syclsched.scheduling.search.exchange import exchange
from syclsched.scheduling.search.guided_starts import guided_starts
from syclsched.scheduling.search.incremental.evaluator import IncrementalEvaluator
from syclsched.scheduling.search.listed_evaluator import ListedEvaluator
from syclsched.scheduling.search.meter import Clock, Meter
from syclsched.scheduling.timetable import Timetable

#: Temperature at the start of a cooling, in mean steps of the critical path (makespan over its tasks): `HOT` with
#: `PLENTY` of steps per task, enough to forget the start; with fewer it falls by the power `FALL`, as only local
#: changes can be tried. Tuned on benchmarks/instances.py.
HOT, PLENTY, FALL = 0.4, 6_000, 0.66

#: Final over initial temperature of a cooling, maximum number of coolings, and the steps per pair of tasks that one
#: cooling is worth: further steps are better spent on another.
COLD, COOLINGS, PAIR_STEPS = 0.05, 16, 25

#: Every other cooling starts hotter: where copies are expensive, better clusterings lie behind higher barriers.
HOTTER = (1.0, 2.0)

#: Temperature of the initial descent, and its share of the budget; it also measures the speed of steps.
DESCENT, DESCENT_SHARE = 0.005, 0.03

#: With this many steps per task, replica exchange finds better schedules than coolings.
EXCHANGE_STEPS = 10_000

#: Share of the budget for additional start solutions.
STARTS_SHARE = 0.2

#: The cooling with contention, and the cost of a step there, in steps of the contention-free model.
LISTED = Cooling(0.01, 0.05, 1)
LISTED_COST = 80

#: Tasks times steps between readings of the clock.
CHUNK = 50_000

#: Makespans with a smaller relative difference are equal.
ROUNDING = 1e-9


def refine(
    problem: Problem,
    timetables: Sequence[Timetable],
    *,
    budget_s: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    clock: Clock | None = None,
) -> Timetable:
    """Search for a timetable better than the given ones, until the budget is spent.

    Simulated annealing over (order of tasks, placement), or replica exchange where the budget is large for the number
    of tasks. Moves are near the critical path and evaluated incrementally. Ends early when a lower bound is met. Equal
    arguments give equal results, unless the budget is in seconds.
    """
    if not timetables:
        raise PolicyError("there is no timetable to begin with", where="refine", hint="Give it that of any policy")
    if budget_s is not None and clock is None:
        raise PolicyError("seconds are given, but no clock", where="refine", hint="Pass time.perf_counter as clock")
    if budget_s is None and steps is None:
        steps = search_steps(problem)
    meter = Meter(steps, budget_s, clock)
    ranked = sorted(timetables, key=lambda timetable: makespan_s(problem, timetable))
    bound_s = quick_bound_s(problem) * (1.0 + ROUNDING)
    if makespan_s(problem, ranked[0]) <= bound_s:
        return ranked[0]
    more = [*ranked]
    for timetable in guided_starts(problem):
        more.append(timetable)
        if meter.spent() > STARTS_SHARE:
            break
    ranked = sorted(more, key=lambda timetable: makespan_s(problem, timetable))
    if problem.has_channels:
        found = _refine_listed(problem, ranked[0], meter, seed)
    else:
        found = _refine_free(problem, ranked, meter, seed, bound_s)
    return min(ranked[0], found, key=lambda timetable: makespan_s(problem, timetable))


def default_steps(tasks: int) -> int:
    """Return a reasonable number of steps for a number of tasks: some tenths of a second."""
    return max(2_000, min(120_000, 8_000_000 // max(1, tasks)))


def search_steps(problem: Problem) -> int:
    """Return the number of steps of `refine` without a budget."""
    return default_steps(len(problem)) // (LISTED_COST if problem.has_channels else 1)


def time_start(problem: Problem, timetable: Timetable) -> Start:
    """Return the order and placement of a timetable."""
    return time_order(problem.tables, timetable.start_s, timetable.finish_s), np.array(timetable.processor, np.int64)


def _refine_free(problem: Problem, ranked: Sequence[Timetable], meter: Meter, seed: int, bound_s: float) -> Timetable:
    """Search in the contention-free model."""
    evaluator = IncrementalEvaluator(problem.tables, seed)
    found = [(evaluator.load(*start), start) for start in (time_start(problem, timetable) for timetable in ranked)]
    found.sort(key=lambda each: each[0])
    starts = [start for _, start in found]
    best = first_best(starts[0], found[0][0])
    begun = meter.spent()
    descent = Cooling(DESCENT, COLD, CHUNK)
    descent.run(evaluator, starts[0], best, meter, (begun, begun + DESCENT_SHARE * (1.0 - begun)), bound_s)
    each = meter.done / max(meter.spent() - begun, 1e-9) / len(problem)  # steps per task
    if each >= EXCHANGE_STEPS:
        exchange(problem.tables, [(best.order, best.processor), *starts[1:]], best, meter, seed, bound_s)
    else:
        hot = HOT * min(1.0, each / PLENTY) ** FALL
        count = max(1, min(COOLINGS, round(each / len(problem) / PAIR_STEPS)))
        coolings = [Cooling(hot * HOTTER[number % 2], COLD, CHUNK) for number in range(count)]
        cool_repeatedly(evaluator, coolings, starts, best, meter, (meter.spent(), 1.0), bound_s)
    evaluator.load(best.order, best.processor)
    return evaluator.timetable()


def _refine_listed(problem: Problem, timetable: Timetable, meter: Meter, seed: int) -> Timetable:
    """Search with copies that wait for channels."""
    evaluator, start = ListedEvaluator(problem, seed), time_start(problem, timetable)
    best = first_best(start, evaluator.load(*start))
    if best.cost == math.inf:
        return timetable
    LISTED.run(evaluator, start, best, meter, (0.0, 1.0))
    evaluator.load(best.order, best.processor)
    return evaluator.timetable() or timetable
