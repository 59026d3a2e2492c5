# SPDX-License-Identifier: Apache-2.0
"""The linear relaxation of a scheduling problem, solved with scipy's HiGHS: a lower bound on the makespan.

Assignment is divisible; what two neighbours pay for copies is the cheapest way to match their shares (a transport
problem for each item that is read); every chain and the work on every device must fit into the makespan.
"""

from __future__ import annotations

import numpy as np

from syclsched.scheduling.tables import Floats, Tables


class _Rows:
    """Sparse rows of a linear programme, as they come."""

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

    def matrix(self, columns: int) -> object:
        """Return the left side."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self.value, (self.row, self.column)), shape=(len(self.right), columns))


def relaxation_s(tables: Tables, heads: Floats, tails: Floats, hop: tuple[Floats, Floats]) -> float | None:
    """Return the optimum of the linear relaxation.

    Parameters
    ----------
    tables : Tables
        The problem.
    heads, tails : ndarray of float64, shape (T, D)
        Least times before the start of each task on each device, and after its finish.
    hop : (ndarray of float64, ndarray of float64), each of shape (D, D)
        Latency and slope that no copy from one device to another falls short of.

    Returns
    -------
    float or None
        Seconds; None if the solver gives up.
    """
    from scipy.optimize import linprog

    count, devices = tables.seconds.shape
    share, start, makespan = 0, count * devices, count * devices + count
    equal, less = _Rows(), _Rows()
    upper = np.where(np.isfinite(tables.seconds) & np.isfinite(heads), 1.0, 0.0).reshape(-1)
    seconds = np.where(np.isfinite(tables.seconds), tables.seconds, 0.0)
    head, tail = np.where(np.isfinite(heads), heads, 0.0), np.where(np.isfinite(tails), tails, 0.0)
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
    columns = _chains(tables, seconds, hop, equal, less, (share, start, makespan + 1))
    cost = np.zeros(columns)
    cost[makespan] = 1.0
    bounds = [(0.0, float(u)) for u in upper] + [(0.0, None)] * (columns - len(upper))
    found = linprog(cost, less.matrix(columns), less.right, equal.matrix(columns), equal.right, bounds, method="highs")
    # HiGHS solves to 1e-7: what it may be above the optimum is taken off.
    return float(found.fun) * (1.0 - 1e-6) if found.status == 0 else None


def _chains(
    tables: Tables,
    seconds: Floats,
    hop: tuple[Floats, Floats],
    equal: _Rows,
    less: _Rows,
    columns: tuple[int, int, int],
) -> int:
    """Add what each task waits for; return how many columns there are then."""
    share, start, free = columns
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
            work = [(share + maker * devices + d, float(seconds[maker, d])) for d in range(devices)]
            less.add([(start + maker, 1.0), (start + task, -1.0), *work, *paid], 0.0)
    return free
