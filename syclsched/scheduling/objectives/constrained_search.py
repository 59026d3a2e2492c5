# SPDX-License-Identifier: Apache-2.0
"""Constrained search: the best timetable by an aim, from policies' timetables and simulated annealing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from syclsched.scheduling.objectives.aims import METRICS, Aim, Constraint
from syclsched.scheduling.objectives.constrained_anneal import TIE, BestFound, Goal, anneal, cost_of, excess_of
from syclsched.scheduling.objectives.constrained_decode import decode
from syclsched.scheduling.objectives.depth_first_order import depth_first
from syclsched.scheduling.objectives.infeasible import check_working_sets, excess, infeasible_error
from syclsched.scheduling.objectives.memory_accounting import LIMIT
from syclsched.scheduling.objectives.metrics import Metrics, check_known, evaluate, resolve_space
from syclsched.scheduling.objectives.search_state import COPIES, LISTED, SearchState, load, make_search_state
from syclsched.scheduling.portfolio import run_policies
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.refine.decode import order_of
from syclsched.scheduling.refine.meter import Clock, Meter
from syclsched.scheduling.registry import candidates
from syclsched.scheduling.tables import Ints
from syclsched.scheduling.timetable import Copies, Timetable

#: Temperatures at the start and the end of a cooling, relative to the objective at the start of the search.
HOT, COLD = 0.03, 0.0003

#: Number of coolings, each from the best state so far or from the next best start.
COOLINGS = 4

#: When memory is minimised: number of limits tried, each halfway between a feasible and an infeasible one.
HALVINGS = 8

#: Policies that provide starts for problems with more tasks than `MANY_TASKS`; for smaller ones all candidates do.
FEW_POLICIES = ("heft", "peft", "min-min", "clustering", "round-robin")
MANY_TASKS = 2_000

_METRIC_NUMBER = {"makespan": 0, "interval": 1, "energy": 2}


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
        self.problem, self.meter, self.known = problem, meter, known
        self.tables = problem.tables
        if aim.uses("energy"):  # devices of unknown power cannot be used
            unknown_power = np.isnan(self.tables.busy_w)
            seconds = np.where(unknown_power[None, :], np.inf, self.tables.seconds)
            seconds.flags.writeable = False
            self.tables = self.tables._replace(seconds=seconds)
        self.aim = aim
        self.state = make_search_state(problem, power=aim.uses("energy"))
        self.words = np.array([(seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1], np.uint64)
        self.starts = list(self._starts())

    def _starts(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield start orders and processors: the known ones, and depth-first orders, which release memory soonest."""
        tables = self.problem.tables
        deep = depth_first(tables)
        for found in self.known:
            timetable = found.timetable
            processor = np.array(timetable.processor, np.int64)
            device = tables.processor_device[processor]
            if np.isinf(self.tables.seconds[np.arange(len(processor)), device]).any():
                continue
            yield order_of(tables.pred_start, tables.pred_task, timetable.start_s, timetable.finish_s), processor
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
        state, tables = self.state, self.tables
        self._set_limits(aim)
        goal = self._goal(aim)
        ranked = sorted(((*self._decode(start, goal), k) for k, start in enumerate(self.starts)), key=lambda r: r[:2])
        ranked = [r for r in ranked if r[1] < math.inf]
        if not ranked:
            return
        first = self.starts[ranked[0][2]]
        goal = goal._replace(weight=goal.weight / max(self._cost_without_penalty(first, goal), 1e-300))
        best = BestFound(first[0].copy(), first[1].copy(), np.array(self._decode(first, goal)[::-1]))
        chunk = max(1, 20_000 // max(1, len(self.problem)))
        for cooling in range(COOLINGS):
            a = begin + (end - begin) * cooling / COOLINGS
            b = begin + (end - begin) * (cooling + 1) / COOLINGS
            start = (best.order.copy(), best.processor.copy())
            if cooling % 2:
                start = self.starts[ranked[cooling % len(ranked)][2]]
            current = self._decode(start, goal)[1]
            while (spent := self.meter.spent()) < min(1.0, b):  # rounding may take b beyond 1
                cooled = min(1.0, max(0.0, spent - a) / (b - a))
                count = self.meter.left(chunk)
                temperature = HOT * (COLD / HOT) ** cooled
                current = anneal(tables, state, goal, best, self.words, current, temperature, count)
                self.meter.count(count)
        self._decode((best.order, best.processor), goal)
        self._add_known()

    def _decode(self, start: tuple[Ints, Ints], goal: Goal) -> tuple[float, float]:
        """Decode a start; return its excess and its cost."""
        load(self.state, *start)
        decode(self.tables, self.state)
        broken = float(excess_of(self.state.value, self.state.room, goal))
        return broken, float(cost_of(self.state.value, broken, goal))

    def _cost_without_penalty(self, start: tuple[Ints, Ints], goal: Goal) -> float:
        self._decode(start, goal)
        return float(cost_of(self.state.value, 0.0, goal))

    def _set_limits(self, aim: Aim) -> None:
        limits = np.full(len(self.problem.spaces), np.inf)
        for constraint in aim.constraints:
            if constraint.metric == "memory" and constraint.space is None:
                np.minimum(limits, constraint.limit, out=limits)
            elif constraint.metric == "memory":
                space = self.problem.spaces.index(constraint.space or "")
                limits[space] = min(limits[space], constraint.limit)
        self.state.room[:, LIMIT] = limits

    def _goal(self, aim: Aim) -> Goal:
        weight, limit = np.zeros(3), np.full(3, np.inf)
        number = _METRIC_NUMBER[aim.metric]
        self._decode(self.starts[0], Goal(weight, limit, np.ones(3)))
        scale = np.where(np.isfinite(self.state.value) & (self.state.value > 0.0), self.state.value, 1.0)
        weight[number] = 1.0
        if number:
            weight[0] = TIE * scale[number] / scale[0]
        for constraint in aim.constraints:
            if constraint.metric in _METRIC_NUMBER:
                k = _METRIC_NUMBER[constraint.metric]
                limit[k] = min(limit[k], constraint.limit)
        return Goal(weight, limit, scale)

    def _add_known(self) -> None:
        """Add the timetable of the current state to ``known``."""
        found = timetable_of(self.state)
        if np.isfinite(found.finish_s).all():
            self.known.append(SearchResult(found, evaluate(self.problem, found)))


def timetable_of(state: SearchState) -> Timetable:
    """Return a decoded state as a timetable."""
    copies = None
    if state.counts[LISTED]:
        count = int(state.counts[COPIES])
        what, when_s = state.copy_what[:count].T, state.copy_when_s[:count].T
        copies = Copies(what[0].copy(), what[1].copy(), what[2].copy(), when_s[0].copy(), when_s[1].copy())
    return Timetable(state.processor.copy(), state.start_s.copy(), state.finish_s.copy(), copies)
