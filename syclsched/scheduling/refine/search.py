# SPDX-License-Identifier: Apache-2.0
"""Anytime search from the best list schedules, by replica exchange or, where time is short, by annealing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.bounds import quick_bound_s
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.refine.anneal import BestSchedule, anneal
from syclsched.scheduling.refine.chains import load
from syclsched.scheduling.refine.contention_search import refine_listed
from syclsched.scheduling.refine.critical import critical_path
from syclsched.scheduling.refine.decode import compute_all_times, order_of
from syclsched.scheduling.refine.exchange import StartState, exchange
from syclsched.scheduling.refine.guided import guided_starts
from syclsched.scheduling.refine.meter import Clock, Meter
from syclsched.scheduling.refine.prepare import prepare
from syclsched.scheduling.refine.records import Search
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

#: Cost of a step by the list engine, in steps of the contention-free model.
LISTED_COST = 80

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
        steps = default_steps(len(problem)) // (LISTED_COST if problem.has_channels else 1)
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
        return refine_listed(problem, ranked, meter, seed)
    found = _refine_free(problem, ranked, meter, seed, bound_s)
    return min(ranked[0], found, key=lambda timetable: makespan_s(problem, timetable))


def default_steps(tasks: int) -> int:
    """Return a reasonable number of steps for a number of tasks: some tenths of a second."""
    return max(2_000, min(120_000, 8_000_000 // max(1, tasks)))


def _refine_free(problem: Problem, ranked: Sequence[Timetable], meter: Meter, seed: int, bound_s: float) -> Timetable:
    """Search in the contention-free model."""
    tables = problem.tables
    search = prepare(tables, seed)
    starts: list[StartState] = []
    for timetable in ranked:
        order = order_of(tables.pred_start, tables.pred_task, timetable.start_s, timetable.finish_s)
        processor = np.array(timetable.processor, np.int64)
        load(search.nodes, search.lanes, search.order, order, processor)
        starts.append((compute_all_times(search), order, processor))
    starts.sort(key=lambda start: start[0])
    best = BestSchedule(starts[0][1].copy(), starts[0][2].copy(), np.array([starts[0][0]]))
    load(search.nodes, search.lanes, search.order, best.order.copy(), best.processor.copy())
    begun = meter.spent()
    _cool(search, best, meter, (begun, begun + DESCENT_SHARE * (1.0 - begun)), DESCENT, bound_s)
    each = meter.done / max(meter.spent() - begun, 1e-9) / len(problem)
    if each >= EXCHANGE_STEPS:
        descended = (float(best.makespan_s[0]), best.order, best.processor)
        exchange(tables, [descended, *starts[1:]], best, meter, seed, bound_s)
    else:
        _coolings(search, starts, best, meter, each, bound_s)
    load(search.nodes, search.lanes, search.order, best.order, best.processor)
    compute_all_times(search)
    nodes = search.nodes[:-1]
    return Timetable(nodes["processor"].copy(), nodes["start_s"].copy(), nodes["finish_s"].copy())


def _coolings(
    search: Search, starts: Sequence[StartState], best: BestSchedule, meter: Meter, each: float, bound_s: float
) -> None:
    """Cool down several times, from the best and from other starts alternately; ``each`` is the steps per task."""
    hot = HOT * min(1.0, each / PLENTY) ** FALL
    coolings = max(1, min(COOLINGS, round(each / len(best.order) / PAIR_STEPS)))
    begun = meter.spent()
    for cooling in range(coolings):
        if best.makespan_s[0] <= bound_s:
            break
        _, order, processor = starts[cooling % len(starts)] if cooling % 2 else (0.0, best.order, best.processor)
        load(search.nodes, search.lanes, search.order, order.copy(), processor.copy())
        part = (begun + (1.0 - begun) * cooling / coolings, begun + (1.0 - begun) * (cooling + 1) / coolings)
        _cool(search, best, meter, part, hot * HOTTER[cooling % 2], bound_s)


def _cool(
    search: Search,
    best: BestSchedule,
    meter: Meter,
    part: tuple[float, float],
    hot: float,
    bound_s: float,
) -> None:
    """Anneal the loaded state from hot to cold over a part of the budget."""
    current_s = compute_all_times(search)
    step_s = current_s / max(1, critical_path(search))
    # Some milliseconds between readings of the clock.
    chunk = max(1, 50_000 // max(1, len(best.order)))
    # Rounding may take the end of the last part beyond 1.
    while (spent := meter.spent()) < min(1.0, part[1]) and best.makespan_s[0] > bound_s:
        cooled = max(0.0, spent - part[0]) / (part[1] - part[0])
        steps = meter.left(chunk)
        current_s = anneal(search, best, current_s, step_s * hot * COLD**cooled, steps)
        meter.count(steps)
