# SPDX-License-Identifier: Apache-2.0
"""Linear relaxation of a scheduling problem: a lower bound on the makespan.

Small programmes are solved here, large ones with scipy's HiGHS, whose import takes longer than a small one.

Assignment is divisible. The copy cost between two neighbours is the cheapest way to match their shares (a transport
problem for each item that is read). Every chain and the work on every device must fit into the makespan.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from syclsched.scheduling.dual_simplex import dual_multipliers
from syclsched.scheduling.tables import Floats, Tables

#: Smaller makespans are refused: other times divided by them could overflow.
_LEAST_UNIT_S = 1e-100

#: Rows times columns of the programmes that are solved here.
_SMALL = 60_000


class _ConstraintRows:
    """Sparse rows of a linear programme, built one at a time."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.column: list[int] = []
        self.value: list[float] = []
        self.right: list[float] = []

    def add(self, entries: list[tuple[int, float]], right: float) -> None:
        """Append ``sum of value * x[column]`` (<= or ==) ``right``."""
        self.row += [len(self.right)] * len(entries)
        self.column += [column for column, _ in entries]
        self.value += [value for _, value in entries]
        self.right.append(right)

    def dense(self, columns: int) -> Floats:
        """Return the left side as an array."""
        made = np.zeros((len(self.right), columns))
        np.add.at(made, (self.row, self.column), self.value)
        return made

    def sparse(self, columns: int) -> Any:
        """Return the left side as a sparse matrix."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self.value, (self.row, self.column)), shape=(len(self.right), columns))


def relaxation_s(tables: Tables, heads: Floats, tails: Floats, hop: tuple[Floats, Floats]) -> float | None:
    """Return the optimum of the linear relaxation, in seconds; None if it cannot be computed."""
    taken_s = tables.task_seconds()
    count, devices = taken_s.shape
    share, start, makespan = 0, count * devices, count * devices + count
    # The solver's tolerances are absolute: scale times so that the makespan is about 1.
    unit_s = float((heads + taken_s + tails).min(axis=1).max())
    if not _LEAST_UNIT_S < unit_s < np.inf:
        return None
    equal, less = _ConstraintRows(), _ConstraintRows()
    upper = np.where(np.isfinite(taken_s) & np.isfinite(heads), 1.0, 0.0).reshape(-1)
    seconds, head, tail, latency = (np.where(np.isfinite(a), a, 0.0) / unit_s for a in (taken_s, heads, tails, hop[0]))
    hop = (np.where(np.isfinite(hop[0]), latency, np.inf), hop[1] / unit_s)
    for task in range(count):
        mine = [share + task * devices + d for d in range(devices)]
        equal.add([(x, 1.0) for x in mine], 1.0)
        less.add([(start + task, -1.0), *((x, float(h)) for x, h in zip(mine, head[task], strict=True))], 0.0)
        after = [(x, float(p + t)) for x, p, t in zip(mine, seconds[task], tail[task], strict=True)]
        less.add([(start + task, 1.0), (makespan, -1.0), *after], 0.0)
    for device in range(devices):
        lanes = float(tables.device_start[device + 1] - tables.device_start[device])
        work = [(share + task * devices + device, float(seconds[task, device])) for task in range(count)]
        less.add([*work, (makespan, -lanes)], 0.0)
    columns, paid = _chains(tables, seconds, hop, equal, less, (share, start, makespan + 1))
    cost = np.zeros(columns)
    cost[makespan] = 1.0
    found = _solve(cost, less, equal, upper)
    if found is None:
        return None
    # Upper bounds: starts and makespan are at most those of a serial schedule; shares and flows are at most 1.
    latest = float(head.max() + seconds.sum() + paid + tail.max())
    most = np.ones(columns)
    most[: len(upper)] = upper
    most[start : makespan + 1] = latest
    return _safe(cost, found, (less.right, equal.right), most) * unit_s


@dataclass(frozen=True, slots=True)
class _Multipliers:
    """The left sides of a programme, and the multipliers of its rows: inequalities, then equations."""

    left: tuple[Any, Any]
    rows: tuple[Floats, Floats]


def _solve(cost: Floats, less: _ConstraintRows, equal: _ConstraintRows, upper: Floats) -> _Multipliers | None:
    """Return the optimal multipliers, with x from 0 to ``upper`` for the first columns and from 0 for the others."""
    columns = len(cost)
    if columns * (len(less.right) + len(equal.right)) <= _SMALL:
        left = less.dense(columns), equal.dense(columns)
        # An upper bound of 1 follows from the equations; columns with one of 0 are left out.
        used = np.ones(columns, dtype=bool)
        used[: len(upper)] = upper > 0.0
        rows = dual_multipliers(
            cost[used], left[0][:, used], np.array(less.right), left[1][:, used], np.array(equal.right)
        )
        return None if rows is None else _Multipliers(left, rows)
    if find_spec("scipy") is None:
        return None
    from scipy.optimize import linprog

    sparse = less.sparse(columns), equal.sparse(columns)
    bounds = [(0.0, float(u)) for u in upper] + [(0.0, None)] * (columns - len(upper))
    found = linprog(cost, sparse[0], less.right, sparse[1], equal.right, bounds, method="highs")
    if found.status != 0:
        return None
    return _Multipliers(sparse, (np.minimum(found.ineqlin.marginals, 0.0), found.eqlin.marginals))


def _safe(cost: Floats, found: _Multipliers, right: tuple[list[float], list[float]], most: Floats) -> float:
    """Return the bound that the dual solution proves despite the solver's rounding (Neumaier and Shcherbina 2004).

    For any multipliers of the right sign the optimum is at least the minimum of the Lagrangian over the box
    ``0 <= x <= most``.
    """
    less, equal = found.rows
    reduced = cost - found.left[0].T @ less - found.left[1].T @ equal
    return float(less @ np.array(right[0]) + equal @ np.array(right[1]) + np.minimum(reduced, 0.0) @ most)


def _chains(
    tables: Tables,
    seconds: Floats,
    hop: tuple[Floats, Floats],
    equal: _ConstraintRows,
    less: _ConstraintRows,
    columns: tuple[int, int, int],
) -> tuple[int, float]:
    """Add the constraints along arcs and reads; return the new number of columns and the sum of the largest copies."""
    share, start, free = columns
    most = 0.0
    count, devices = seconds.shape
    for task in range(count):
        for before in tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]].tolist():
            work = [(share + before * devices + d, float(seconds[before, d])) for d in range(devices)]
            less.add([(start + before, 1.0), (start + task, -1.0), *work], 0.0)
        for item in tables.read_item[tables.read_start[task] : tables.read_start[task + 1]].tolist():
            maker, nbytes = int(tables.item_producer[item]), float(tables.item_bytes[item])
            if maker < 0 or nbytes == 0.0:
                continue
            copy_s = hop[0] + nbytes * hop[1]
            way = free + np.arange(devices * devices).reshape(devices, devices)
            free += devices * devices
            for d in range(devices):
                equal.add([*((int(w), 1.0) for w in way[d]), (share + maker * devices + d, -1.0)], 0.0)
                equal.add([*((int(w), 1.0) for w in way[:, d]), (share + task * devices + d, -1.0)], 0.0)
            paid = [
                (int(way[a, b]), float(copy_s[a, b]) if np.isfinite(copy_s[a, b]) else 0.0)
                for a in range(devices)
                for b in range(devices)
            ]
            most += max(way_s for _, way_s in paid)
            work = [(share + maker * devices + d, float(seconds[maker, d])) for d in range(devices)]
            less.add([(start + maker, 1.0), (start + task, -1.0), *work, *paid], 0.0)
    return free, most
