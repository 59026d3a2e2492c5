# SPDX-License-Identifier: Apache-2.0
"""Constraint checks: excess of metrics over limits, and the errors when no schedule is feasible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from syclsched.errors import InfeasibleError, MemoryLimitError
from syclsched.model.text.quantities import format_quantity
from syclsched.model.text.units import format_exact_bytes
from syclsched.scheduling.objectives.aims import METRICS, Aim, Constraint
from syclsched.scheduling.objectives.metrics import Metrics
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Ints, Tables

#: Relative tolerance of limits: metrics are sums of floats in different orders.
TOLERANCE = 1e-9


def excess(metrics: Metrics, constraints: Sequence[Constraint]) -> float:
    """Return the sum of the relative excesses over all constraints."""
    return sum((_excess_over(metrics, constraint) for constraint in constraints), 0.0)


def infeasible_error(known: Sequence[Metrics], aim: Aim) -> InfeasibleError:
    """Return the error that names the binding constraints."""
    nearest = min(known, key=lambda metrics: excess(metrics, aim.constraints))
    messages = []
    for constraint in aim.constraints:
        if _excess_over(nearest, constraint) == 0.0:
            continue
        others = [c for c in aim.constraints if c is not constraint]
        feasible = [m for m in known if excess(m, others) == 0.0]
        least = min(_value(m, constraint) for m in feasible or [nearest])
        also = " with the others kept to" if others and feasible else ""
        messages.append(
            f"the least {constraint.label} found{also} is {format_quantity(least, METRICS[constraint.metric])}"
        )
    return InfeasibleError(
        f"no schedule was found that keeps to all constraints: {'; '.join(messages)}",
        where=str(aim),
        hint="Raise that limit, or give the search more time (budget_s, --budget)",
    )


def check_working_sets(problem: Problem, constraints: Sequence[Constraint]) -> None:
    """Raise if a memory limit is broken by a single task on every device."""
    limits = np.full(len(problem.spaces), np.inf)
    for constraint in constraints:
        if constraint.metric == "memory":
            where = slice(None) if constraint.space is None else problem.spaces.index(constraint.space)
            limits[where] = np.minimum(limits[where], constraint.limit)
    if np.isinf(limits).all():
        return
    standing = problem.input_bytes()
    for space in np.flatnonzero(standing > limits).tolist():
        raise MemoryLimitError(
            f"{format_exact_bytes(standing[space])} lie there from the start, "
            f"the limit is {format_exact_bytes(limits[space])}",
            where=f"memory space {problem.spaces[space]!r}",
        )
    roots = _roots(problem.tables)
    for task in range(len(problem)):
        needs = _least_needs(problem, task, roots)
        if needs and all(nbytes > limits[space] * (1.0 + TOLERANCE) for space, nbytes in needs):
            space, nbytes = min(needs, key=lambda need: need[1] - limits[need[0]])
            raise MemoryLimitError(
                f"it needs {format_exact_bytes(nbytes)} at once for what it reads and writes, "
                f"the limit is {format_exact_bytes(limits[space])}",
                where=f"task {problem.names[task]!r} in memory space {problem.spaces[space]!r}",
                hint="Raise the limit, use smaller arrays (tiles, batches), or add a device with more memory",
            )


# --- inside ---------------------------------------------------------------------------------------


def _value(metrics: Metrics, constraint: Constraint) -> float:
    if constraint.metric == "energy" and metrics.energy_j is None:
        return float("inf")
    return metrics.value(constraint.metric, constraint.space)


def _excess_over(metrics: Metrics, constraint: Constraint) -> float:
    value, limit = _value(metrics, constraint), constraint.limit
    if value <= limit * (1.0 + TOLERANCE):
        return 0.0
    return (value - limit) / max(limit, 1e-3 * value)


def _least_needs(problem: Problem, task: int, roots: Ints) -> list[tuple[int, float]]:
    """Return, for each device that can run a task, its home and the bytes needed there (0 if it reaches others)."""
    tables = problem.tables
    row = slice(tables.make_start[task], tables.make_start[task + 1])
    fresh = tables.make_item[row][tables.make_replaces[row] == NOTHING]
    # Inputs in that space, and items that replace them in place, may need no further memory there.
    read = tables.read_item[tables.read_start[task] : tables.read_start[task + 1]]
    needs = []
    for device in np.flatnonzero(np.isfinite(tables.seconds[tables.kind[task]])).tolist():
        reach = tables.reach_space[tables.reach_start[device] : tables.reach_start[device + 1]].tolist()
        if len(reach) > 1 or tables.seconds[tables.kind[task], device] == 0.0:
            needs.append((reach[0], 0.0))
            continue
        copied = np.unique(read[roots[read] != reach[0]])
        needs.append((reach[0], float(tables.item_bytes[copied].sum() + tables.item_bytes[fresh].sum())))
    return needs


def _roots(tables: Tables) -> Ints:
    """Return, for each item, the space of the input it updates in place, over any number of updates; else `NOTHING`."""
    roots = tables.item_space.copy()
    for row in np.flatnonzero(tables.make_replaces != NOTHING).tolist():
        roots[tables.make_item[row]] = roots[tables.make_replaces[row]]
    return roots
