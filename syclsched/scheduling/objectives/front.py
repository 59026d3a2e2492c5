# SPDX-License-Identifier: Apache-2.0
"""Pareto front of several metrics: schedules that are not dominated by any other.

By the epsilon-constraint method (Haimes, Lasdon and Wismer 1971): one metric is minimised under limits on another,
which are spread between the second metric's own minimum and its value at the minimum of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from syclsched.errors import InfeasibleError, PolicyError
from syclsched.scheduling.objectives.aims import Aim, Constraint, minimize
from syclsched.scheduling.objectives.constrained_search import (
    SearchResult,
    default_steps,
    policy_timetables,
    resolve,
    search,
)
from syclsched.scheduling.objectives.metrics import Metrics, check_known, evaluate
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable

#: Values with a smaller relative difference are equal.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Point:
    """One schedule of a front."""

    values: tuple[float, ...]  # its metrics, in the requested order; for throughput the initiation interval
    timetable: Timetable  # the schedule
    metrics: Metrics  # all its metrics


def front(
    problem: Problem,
    metrics: Sequence[str] = ("makespan", "energy"),
    *,
    timetables: Sequence[Timetable] = (),
    points: int = 8,
    steps: int | None = None,
    seed: int = 0,
) -> tuple[Point, ...]:
    """Return the Pareto front of several metrics, as far as the search finds it."""
    aims = tuple(resolve(problem, minimize(metric)) for metric in metrics)
    if len(set(aims)) < 2 or len(set(aims)) < len(aims) or points < 1:
        raise PolicyError(
            f"{', '.join(metrics) or 'nothing'} is no choice", where="Pareto front", hint="Give two different metrics"
        )
    for aim in aims:
        check_known(problem, aim.metric)
    pairs = list(permutations(range(len(aims)), 2))
    share = max(1, (4 * default_steps(len(problem)) if steps is None else steps) // (len(aims) + len(pairs) * points))
    given = list(timetables) or policy_timetables(problem)
    pool = [SearchResult(timetable, evaluate(problem, timetable)) for timetable in given]
    best = [search(problem, aim, timetables=given, steps=share, seed=seed) for aim in aims]
    pool += best
    for one, other in pairs:
        for aim in _between(aims[one], aims[other], best[one], best[other], points):
            begin = [found.timetable for found in pool]
            try:
                pool.append(search(problem, aim, timetables=_near(pool, aim) or begin, steps=share, seed=seed))
            except InfeasibleError:
                continue  # the search found nothing under this limit
    return _non_dominated(pool, aims)


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether values are nowhere greater (beyond rounding) and somewhere less than others."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b * (1.0 + ROUNDING) for a, b in pairs) and any(a < b * (1.0 - ROUNDING) for a, b in pairs)


def equal(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether values are equal up to rounding."""
    return all(abs(a - b) <= ROUNDING * max(abs(a), abs(b)) for a, b in zip(one, other, strict=True))


# --- inside ---------------------------------------------------------------------------------------


def _between(aim: Aim, limited: Aim, best: SearchResult, other: SearchResult, points: int) -> Iterator[Aim]:
    """Yield the first aim under limits on the second metric: between its minimum and its value at the first's."""
    least, most = _value(other, limited), _value(best, limited)
    if not least < most:
        return
    for k in range(points):
        limit = least + (most - least) * (k + 1) / (points + 1)
        yield aim.subject_to(Constraint(limited.metric, limit, limited.space))


def _near(pool: Sequence[SearchResult], aim: Aim) -> list[Timetable]:
    """Return the best few schedules within an aim's limit, and the nearest one beyond it."""
    (constraint,) = aim.constraints
    value = [found.metrics.value(constraint.metric, constraint.space) for found in pool if _known(found, aim)]
    known = [found for found in pool if _known(found, aim)]
    feasible = [found for found, v in zip(known, value, strict=True) if v <= constraint.limit]
    beyond = [(v, k) for k, v in enumerate(value) if v > constraint.limit]
    chosen = sorted(feasible, key=lambda found: _value(found, aim))[:4]
    if beyond:
        chosen.append(known[min(beyond)[1]])
    return [found.timetable for found in chosen]


def _known(found: SearchResult, aim: Aim) -> bool:
    return found.metrics.energy_j is not None or not aim.uses("energy")


def _value(found: SearchResult, aim: Aim) -> float:
    return found.metrics.value(aim.metric, aim.space)


def _non_dominated(pool: Sequence[SearchResult], aims: Sequence[Aim]) -> tuple[Point, ...]:
    points = [
        Point(tuple(_value(found, aim) for aim in aims), found.timetable, found.metrics)
        for found in pool
        if all(_known(found, aim) for aim in aims)
    ]
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: p.values):
        worse = any(dominates(other.values, point.values) for other in points)
        same = any(equal(point.values, other.values) for other in kept)
        if not worse and not same:
            kept.append(point)
    return tuple(kept)
