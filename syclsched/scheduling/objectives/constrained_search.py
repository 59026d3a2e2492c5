# SPDX-License-Identifier: Apache-2.0
"""Constrained search: the best timetable by an aim, from policies' timetables and simulated annealing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from syclsched.scheduling.core.orders import depth_first, time_order
from syclsched.scheduling.objectives.aims import METRICS, Aim, Constraint
from syclsched.scheduling.objectives.infeasible import check_working_sets, excess, infeasible_error
from syclsched.scheduling.objectives.metrics import Metrics, check_known, evaluate, resolve_space
from syclsched.scheduling.portfolio import run_policies
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.registry import candidates
from syclsched.scheduling.search.constrained.evaluator import ConstrainedEvaluator
from syclsched.scheduling.search.constrained.memory_accounting import LIMIT
from syclsched.scheduling.search.constrained.state import ENERGY, INTERVAL, MAKESPAN, Goal
from syclsched.scheduling.search.cooling import Cooling, Start, cool_repeatedly, first_best
from syclsched.scheduling.search.meter import Clock, Meter
from syclsched.scheduling.timetable import Timetable

#: Coolings, each from the best state so far or from the next best start; temperatures are relative to the objective at
#: the start of the search.
COOLINGS = (Cooling(0.03, 0.01, 20_000),) * 4

#: Weight of the makespan where it is not the objective: a tie-breaker.
TIE = 1e-3

#: When memory is minimised: number of limits tried, each halfway between a feasible and an infeasible one.
HALVINGS = 8

#: Policies that provide starts for problems with more tasks than `MANY_TASKS`; for smaller ones all candidates do.
FEW_POLICIES = ("heft", "peft", "min-min", "clustering", "round-robin")
MANY_TASKS = 2_000

_METRIC_NUMBER = {"makespan": MAKESPAN, "interval": INTERVAL, "energy": ENERGY}


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of a search."""

    timetable: Timetable  # satisfies all constraints
    metrics: Metrics  # of the timetable


def search(
    problem: Problem,
    aim: Aim,
    *,
    timetables: Sequence[Timetable] = (),
    steps: int | None = None,
    budget_s: float | None = None,
    clock: Clock | None = None,
    seed: int = 0,
) -> SearchResult:
    """Return the best timetable by an aim that is found within a budget.

    Simulated annealing over the order of tasks and their placement. The decoder enforces memory limits: tasks wait for
    free memory. Equal arguments give equal results, unless the budget is in seconds.
    """
    aim = resolve(problem, aim)
    for metric in METRICS:
        if aim.uses(metric):
            check_known(problem, metric)
    check_working_sets(problem, aim.constraints)
    if steps is None and budget_s is None:
        steps = default_steps(len(problem))
    given = list(timetables) or policy_timetables(problem)
    known = [SearchResult(timetable, evaluate(problem, timetable)) for timetable in given]
    if not len(problem):
        return _best(known, aim)
    constrained = _ConstrainedSearch(problem, aim, Meter(steps, budget_s, clock), seed, known)
    if aim.metric == "memory":
        constrained.minimise_memory()
    else:
        constrained.cool(aim, 0.0, 1.0)
    return _best(constrained.known, aim)


def default_steps(tasks: int) -> int:
    """Return a reasonable number of steps for a number of tasks: about a second."""
    return max(500, min(40_000, 2_000_000 // max(1, tasks)))


def resolve(problem: Problem, aim: Aim) -> Aim:
    """Return an aim with names of spaces in place of names of their home devices."""
    space = None if aim.space is None else resolve_space(problem, aim.space)
    named = [c if c.space is None else replace(c, space=resolve_space(problem, c.space)) for c in aim.constraints]
    return replace(aim, space=space, constraints=tuple(named))


def policy_timetables(problem: Problem) -> list[Timetable]:
    """Return the timetables of the registered policies; for large problems of a few."""
    names = candidates(problem)
    if len(problem) > MANY_TASKS:
        names = tuple(name for name in names if name in FEW_POLICIES or name.startswith("single:"))
    entries, refusals = run_policies(problem, names)
    if not entries:
        raise refusals[0].error
    return [entry.timetable for entry in entries]


# --- inside ---------------------------------------------------------------------------------------


def _best(known: Sequence[SearchResult], aim: Aim) -> SearchResult:
    feasible = [
        found for found in known if excess(found.metrics, aim.constraints) == 0.0 and _worth(found, aim) < math.inf
    ]
    if not feasible:
        raise infeasible_error([found.metrics for found in known], aim)
    return min(feasible, key=lambda found: (_worth(found, aim), found.metrics.makespan_s))


def _worth(found: SearchResult, aim: Aim) -> float:
    if aim.metric == "energy" and found.metrics.energy_j is None:
        return math.inf
    return found.metrics.value(aim.metric, aim.space)


class _ConstrainedSearch:
    """State of the search; results are added to ``known``."""

    def __init__(self, problem: Problem, aim: Aim, meter: Meter, seed: int, known: list[SearchResult]) -> None:
        self.problem, self.meter, self.known, self.aim = problem, meter, known, aim
        tables = problem.tables
        if aim.uses("energy"):  # devices of unknown power cannot be used
            seconds = np.where(np.isnan(tables.busy_w)[None, :], np.inf, tables.seconds)
            seconds.flags.writeable = False
            tables = tables._replace(seconds=seconds)
        self.evaluator = ConstrainedEvaluator(problem, power=aim.uses("energy"), tables=tables, seed=seed)
        self.starts = list(self._starts())

    def _starts(self) -> Iterator[Start]:
        """Yield start orders and processors: the known ones, and depth-first orders, which release memory soonest."""
        tables = self.evaluator.state.tables
        deep = depth_first(tables.pred_start, tables.succ_start, tables.succ_task)
        for found in self.known:
            timetable = found.timetable
            processor = np.array(timetable.processor, np.int64)
            device = tables.processor_device[processor]
            if np.isinf(tables.seconds[tables.kind, device]).any():
                continue
            yield time_order(tables, timetable.start_s, timetable.finish_s), processor
            if self.aim.uses("memory"):
                yield deep, processor
                # One lane of each device: fewer arrays are live at once.
                yield deep, tables.device_start[device]

    def minimise_memory(self) -> None:
        """Minimise memory by bisection: search under limits between a feasible and an infeasible one."""
        plain = replace(self.aim, metric="makespan", space=None)
        low, share = 0.0, 1.0 / (HALVINGS + 1)
        self.cool(plain, 0.0, share)
        for k in range(HALVINGS):
            feasible = [f for f in self.known if excess(f.metrics, self.aim.constraints) == 0.0]
            high = min((_worth(f, self.aim) for f in feasible), default=math.inf)
            if high == math.inf:
                high = max(_worth(f, self.aim) for f in self.known)
            # The first limit is only just below the best known value.
            limit = (low + high) / 2.0 if k else 0.999 * high
            before = len(self.known)
            self.cool(plain.subject_to(Constraint("memory", limit, self.aim.space)), (k + 1) * share, (k + 2) * share)
            reached = [f for f in self.known[before:] if _worth(f, self.aim) <= limit * (1.0 + 1e-9)]
            if not any(excess(f.metrics, self.aim.constraints) == 0.0 for f in reached):
                low = limit

    def cool(self, aim: Aim, begin: float, end: float) -> None:
        """Anneal towards an aim over a part of the budget, and add the best state to ``known``."""
        self._set_limits(aim)
        self._set_goal(aim)
        ranked = sorted(((*self.evaluator.worth(*start)[::-1], k) for k, start in enumerate(self.starts)))
        starts = [self.starts[k] for _, cost, k in ranked if cost < math.inf]
        if not starts:
            return
        self.evaluator.scale_goal(*starts[0])
        best = first_best(starts[0], *self.evaluator.worth(*starts[0]))
        cool_repeatedly(self.evaluator, COOLINGS, starts, best, self.meter, (begin, end))
        self.evaluator.load(best.order, best.processor)
        found = self.evaluator.timetable()
        if np.isfinite(found.finish_s).all():
            self.known.append(SearchResult(found, evaluate(self.problem, found)))

    def _set_limits(self, aim: Aim) -> None:
        limits = np.full(len(self.problem.spaces), np.inf)
        for constraint in aim.constraints:
            if constraint.metric == "memory" and constraint.space is None:
                np.minimum(limits, constraint.limit, out=limits)
            elif constraint.metric == "memory":
                space = self.problem.spaces.index(constraint.space or "")
                limits[space] = min(limits[space], constraint.limit)
        self.evaluator.state.memory[:, LIMIT] = limits

    def _set_goal(self, aim: Aim) -> None:
        weight, limit = np.zeros(3), np.full(3, np.inf)
        number = _METRIC_NUMBER[aim.metric]
        value = self.evaluator.values(*self.starts[0])
        scale = np.where(np.isfinite(value) & (value > 0.0), value, 1.0)
        weight[number] = 1.0
        if number:
            weight[MAKESPAN] = TIE * scale[number] / scale[MAKESPAN]
        for constraint in aim.constraints:
            if constraint.metric in _METRIC_NUMBER:
                k = _METRIC_NUMBER[constraint.metric]
                limit[k] = min(limit[k], constraint.limit)
        self.evaluator.set_goal(Goal(weight, limit, scale))
