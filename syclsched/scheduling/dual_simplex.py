# SPDX-License-Identifier: Apache-2.0
"""Dual simplex method for small linear programmes with non-negative costs, on a dense tableau (Lemke 1954).

It needs no first phase, as costs that are not negative make the slack basis dual feasible. A library for large
programmes takes longer to be imported than this takes for a small one.
"""

from __future__ import annotations

import numpy as np

from syclsched.scheduling.tables import Floats

#: Smaller infeasibilities and pivots count as rounding.
_TOLERANCE = 1e-9

#: Costs are raised by up to this, each by another number, so that ties end: many basic values here are 0.
_PERTURBATION = 1e-8

#: Pivots for each row and column before the method gives up.
_MOST_PIVOTS = 20


def dual_multipliers(
    cost: Floats, less: Floats, less_right: Floats, equal: Floats, equal_right: Floats
) -> tuple[Floats, Floats] | None:
    """Return optimal multipliers of ``min cost @ x`` with ``less @ x <= less_right``, ``equal @ x == equal_right``.

    All ``x`` are at least 0, and so must be the costs. Those of ``less`` are at most 0. None if there is no solution,
    or if it is not found. There is at least one row.
    """
    rows, columns = len(less) + len(equal), len(cost)
    # Basic variables are `right - body @ (the others)`; first the slack of each row is basic.
    body, right = np.concatenate((less, equal)), np.concatenate((less_right, equal_right))
    raised = cost + _PERTURBATION * (1.0 + np.arange(columns) * 0.6180339887498949 % 1.0)
    reduced = np.array([raised, cost])  # reduced costs: those that pivots are chosen by, and the true ones
    basic, free = columns + np.arange(rows), np.arange(columns)
    first_equal = columns + len(less)
    fixed = basic >= first_equal  # slacks of equations, which are 0
    may_enter = np.ones(columns, dtype=bool)
    for _ in range(_MOST_PIVOTS * (rows + columns)):
        excess = np.where(fixed, np.abs(right), -right)
        row = int(excess.argmax())
        if excess[row] <= _TOLERANCE:
            multipliers = np.zeros(rows)
            slack = free >= columns
            multipliers[free[slack] - columns] = -reduced[1, slack]
            return np.minimum(multipliers[: len(less)], 0.0), multipliers[len(less) :]
        slope = body[row] if right[row] > 0.0 else -body[row]
        usable = np.flatnonzero(may_enter & (slope > _TOLERANCE))
        if not len(usable):
            return None
        ratio = reduced[0, usable] / slope[usable]
        column = int(usable[ratio.argmin()])
        _exchange(body, right, reduced, row, column)
        basic[row], free[column] = free[column], basic[row]
        may_enter[column], fixed[row] = not fixed[row], False
    return None


def _exchange(body: Floats, right: Floats, reduced: Floats, row: int, column: int) -> None:
    """Make the variable of a column basic in place of that of a row."""
    pivot = body[row, column]
    across, down = body[row] / pivot, body[:, column].copy()
    value, rate = right[row] / pivot, reduced[:, column].copy()
    across[column] = 1.0 / pivot
    body -= np.outer(down, across)
    body[:, column] = -down / pivot
    body[row] = across
    right -= down * value
    right[row] = value
    reduced -= np.outer(rate, across)
    reduced[:, column] = -rate / pivot
