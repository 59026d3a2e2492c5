# SPDX-License-Identifier: Apache-2.0
"""Lower bounds on the makespan of a scheduling problem, valid for every policy.

Each bound is a relaxation that holds with and without contention: contention only delays copies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.relaxation import relaxation_s
from syclsched.scheduling.rows import arcs
from syclsched.scheduling.tables import NOTHING, Floats, Ints, Tables, frozen

#: The LP relaxation has a variable for each flow and pair of devices; larger programmes are not built.
LP_VARIABLES = 20_000

#: Up to this size the LP takes a few hundredths of a second, so that plans can carry its bound.
CHEAP_LP_VARIABLES = 1_000

#: Work limit of the search for the area bound's multipliers: tasks times devices times rounds.
_AREA_WORK, _AREA_ROUNDS = 20_000_000, 200
#: Most steps of the bounds of chains with copies; of larger problems, equally fast devices are taken as one.
_ARC_WORK = 200_000_000


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """Lower bounds on the makespan of a problem, in seconds."""

    path_s: float  # longest chain of tasks, each on its fastest device, with free copies
    #: All work divided at will among the lanes of unrelated devices; also of the inner tasks only, plus the least times
    #: before and after them.
    area_s: float
    #: With m lanes, some lane runs k + 1 of the k * m + 1 longest tasks: the shortest of these, each at its fastest.
    count_s: float
    release_s: float  # the latest release, and the longest chain from it
    #: Longest chain with copies: every item comes from the device that can deliver it first; copies of wanted results
    #: count.
    transfer_s: float
    #: Linear programme of assignment, chains with copies, and work together; None for large problems, for those of
    #: medium size without scipy, and where one device runs all tasks, as it then says no more than the others.
    lp_s: float | None = None

    @property
    def best_s(self) -> float:
        """The largest bound: the one that makespans are compared with."""
        return max(getattr(self, field.name) or 0.0 for field in fields(self))

    def gap(self, makespan_s: float) -> float:
        """Return by which share of the best bound a makespan exceeds it: 0 if it is optimal, else an upper limit."""
        if self.best_s <= 0.0:
            return 0.0 if makespan_s <= 0.0 else float("inf")
        return max(0.0, makespan_s / self.best_s - 1.0)


def lower_bound(problem: Problem, *, lp: bool = True) -> LowerBounds:
    """Return all lower bounds on the makespan of a problem."""
    if _arc_work(problem) > _ARC_WORK:
        problem, lp = _with_merged_devices(problem), False
    tables = problem.tables
    if not len(problem):
        return LowerBounds(0.0, 0.0, 0.0, 0.0, _transfer_s(tables, *_heads_and_tails(tables)))
    fastest = tables.seconds.min(axis=1)[tables.kind]
    path, _ = _chains(tables.pred_start, tables.pred_task, fastest, np.zeros(len(fastest)))
    released, _ = _chains(tables.pred_start, tables.pred_task, fastest, tables.release_s)
    heads, tails = _heads_and_tails(tables)
    lp_s = None
    several = np.count_nonzero(np.isfinite(tables.seconds).any(axis=0)) > 1
    if lp and several and _arc_work(problem) <= LP_VARIABLES:
        lp_s = relaxation_s(tables, heads, tails, _hops(tables, *_least_copies(tables)))
    return LowerBounds(
        path_s=float(path.max()),
        area_s=_area_s(tables, heads, tails),
        count_s=_count_s(fastest, int(np.diff(tables.device_start)[np.isfinite(tables.seconds).any(axis=0)].sum())),
        release_s=float(released.max()),
        transfer_s=_transfer_s(tables, heads, tails),
        lp_s=lp_s,
    )


def plan_bound_s(problem: Problem) -> float:
    """Return the bound that plans carry, and to which all shown gaps refer.

    Plans have two liberties that timetables lack: a task that reuses an array's name in another space need not wait for
    the earlier tasks, and a copy may start from another copy instead of from the origin.
    """
    if _arc_work(problem) > _ARC_WORK:
        problem = _with_merged_devices(problem)
    return lower_bound(_relaxed(problem), lp=_arc_work(problem) <= CHEAP_LP_VARIABLES).best_s


def quick_bound_s(problem: Problem) -> float:
    """Return the best of the cheap bounds: chains with copies, and the area and the number of all tasks."""
    if _arc_work(problem) > _ARC_WORK:
        problem = _with_merged_devices(problem)
    tables = problem.tables
    if not len(problem):
        return lower_bound(problem, lp=False).best_s
    used = np.isfinite(tables.seconds).any(axis=0)  # with a single such device, the area bound is exact
    tasks = np.bincount(tables.kind, minlength=len(tables.seconds))
    area_s, _ = area_multipliers(tables.seconds[:, used], tasks, np.diff(tables.device_start)[used], rounds=60)
    count_s = _count_s(tables.seconds.min(axis=1)[tables.kind], int(np.diff(tables.device_start)[used].sum()))
    return max(area_s, count_s, _transfer_s(tables, *_heads_and_tails(tables)))


def area_multipliers(seconds: Floats, tasks: Ints, lanes: Ints, rounds: int = _AREA_ROUNDS) -> tuple[float, Floats]:
    """Return the area bound of tasks on unrelated devices, and the worth of a lane-second on each device.

    ``seconds`` has a row for each kind of task, ``tasks`` their number.
    The bound is the optimum of the linear programme that divides tasks among devices at will, found by its Lagrangian
    dual, ``max over m of sum over tasks of min over devices of m[d] * seconds[t, d]`` with ``sum m * lanes = 1``, by
    multiplicative weights. Every ``m`` gives a valid bound, so it need not converge.
    """
    used = np.flatnonzero(np.isfinite(seconds).any(axis=0))
    if len(used) == 1:  # nothing is divided
        alone = np.full(seconds.shape[1], 1.0 / lanes[used[0]])
        return float(seconds[:, used[0]] @ tasks) * float(alone[0]), alone
    rows, which = _distinct_rows(seconds)
    bounds_s, worth = _multiplied(rows, np.bincount(which, tasks, len(rows))[None, :], lanes, rounds)
    return float(bounds_s[0]), worth[0]


# --- inside ---------------------------------------------------------------------------------------


def _multiplied(seconds: Floats, tasks: Floats | Ints, lanes: Ints, rounds: int) -> tuple[Floats, Floats]:
    """Return `area_multipliers` of several sets, of which each has so many tasks of every kind: (S, K), of (K, D)."""
    sets, devices = len(tasks), seconds.shape[1]
    worth = np.ones((sets, devices))
    best, best_worth = np.zeros(sets), worth / lanes.sum()
    kinds, first = np.arange(len(seconds)), devices * np.arange(sets)[:, None]
    # With one device, the first round finds the optimum.
    for k in range(1 if devices == 1 else max(8, min(rounds, _AREA_WORK // max(1, seconds.size)))):
        worth = np.maximum(worth / (worth * lanes).sum(axis=1, keepdims=True), 1e-12)
        choice = (worth[:, None, :] * seconds).argmin(axis=2)
        chosen_s = seconds[kinds, choice] * tasks
        load = np.bincount((first + choice).ravel(), chosen_s.ravel(), sets * devices).reshape(sets, devices)
        bound = (worth * load).sum(axis=1) / (worth * lanes).sum(axis=1)
        better = bound > best
        best[better], best_worth[better] = bound[better], worth[better]
        time_s = load / lanes
        most = time_s.max(axis=1, keepdims=True)
        if not most.any():
            break
        worth = worth * np.exp(0.5 / np.sqrt(k + 1.0) * (time_s / np.where(most > 0.0, most, 1.0) - 1.0))
    return best, best_worth


def _distinct_rows(rows: Floats) -> tuple[Floats, Ints]:
    """Return the different rows in lexicographic order, and which each row is, as `numpy.unique` slowly does."""
    order = np.lexsort(rows.T[::-1])
    rows = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    which = np.empty(len(rows), dtype=np.int64)
    which[order] = np.cumsum(new) - 1
    return rows[new], which


def _relaxed(problem: Problem) -> Problem:
    """Return a problem without the arcs that plans may ignore, whose copies may take any route."""
    tables = problem.tables
    changed: dict[str, Any] = {}
    if len(problem.reuse_arcs):
        count, kept = len(problem), np.ones(len(tables.pred_task), dtype=bool)
        kept[problem.reuse_arcs] = False
        after = np.repeat(np.arange(count), np.diff(tables.pred_start))[kept]
        changed |= arcs(count, tables.pred_task[kept], after, tables.pred_bytes[kept])
    # Least latency and least slope over all routes, separately: no relayed copy takes less than both together.
    latency_s, s_per_byte = (
        _closure(tables.latency_s),
        _closure(np.where(np.isinf(tables.latency_s), np.inf, tables.s_per_byte)),
    )
    changed |= {"latency_s": latency_s, "s_per_byte": np.where(np.isinf(s_per_byte), 0.0, s_per_byte)}
    return replace(problem, tables=frozen(tables._replace(**changed)))


def _arc_work(problem: Problem) -> int:
    """Return the number of steps of the bounds of chains with copies."""
    return len(problem.tables.read_item) * len(problem.devices) ** 2


def _with_merged_devices(problem: Problem) -> Problem:
    """Return a problem in which devices that are equally fast at all tasks are one, with the lanes of all.

    Spaces that the same merged devices reach are merged, too: data moves among them at once, and to others by the
    fastest way. So no plan takes more time than before.
    """
    tables = problem.tables
    seconds, which = _distinct_rows(np.ascontiguousarray(tables.seconds.T))
    reaching = np.zeros((len(problem.spaces), len(seconds)))
    reaching[tables.reach_space, np.repeat(which, np.diff(tables.reach_start))] = 1.0
    reached, space = _distinct_rows(reaching)
    spaces = [np.flatnonzero(reached[:, k]) for k in range(len(seconds))]
    ends = np.lexsort((space,))
    first = np.searchsorted(space[ends], np.arange(len(reached)))
    merged = [
        np.minimum.reduceat(np.minimum.reduceat(way[np.ix_(ends, ends)], first, axis=0), first, axis=1)
        for way in (tables.latency_s, np.where(np.isinf(tables.latency_s), np.inf, tables.s_per_byte))
    ]
    changed = {
        "seconds": np.ascontiguousarray(seconds.T),
        "device_start": np.concatenate(([0], np.cumsum(np.bincount(which, np.diff(tables.device_start))))).astype(int),
        "reach_start": np.concatenate(([0], np.cumsum([len(each) for each in spaces]))),
        "reach_space": np.concatenate(spaces),
        "machine_start": np.array([0, len(seconds)]),
        "space_machine": np.zeros(len(reached), np.int64),
        "latency_s": merged[0],
        "s_per_byte": np.where(np.isinf(merged[1]), 0.0, merged[1]),
        "channel": np.full((len(reached), len(reached), 2), NOTHING),
        "item_space": np.where(tables.item_space == NOTHING, NOTHING, space[tables.item_space]),
        "want_space": space[tables.want_space],
        "capacity_bytes": np.bincount(space, tables.capacity_bytes),
    }
    names = tuple([problem.spaces[n] for n in ends[first]])
    return replace(problem, spaces=names, tables=frozen(tables._replace(**changed)))


def _closure(lengths: Floats) -> Floats:
    """Return the shortest paths between all pairs (Floyd and Warshall 1962)."""
    best = lengths.copy()
    np.fill_diagonal(best, 0.0)
    for k in range(len(best)):
        np.minimum(best, best[:, k, None] + best[None, k, :], out=best)
    return best


@compiled
def _chains(pred_start: Ints, pred_task: Ints, seconds: Floats, release_s: Floats) -> tuple[Floats, Floats]:
    """Return the earliest finish and start of each task, with unlimited devices."""
    finish, start = np.zeros(seconds.size), np.zeros(seconds.size)
    for task in range(seconds.size):
        begin = release_s[task]
        for k in range(pred_start[task], pred_start[task + 1]):
            begin = max(begin, finish[pred_task[k]])
        start[task], finish[task] = begin, begin + seconds[task]
    return finish, start


def _least_copies(tables: Tables) -> tuple[Floats, Floats]:
    """Return lower bounds on latency and slope of copies from a space into the reach of a device."""
    spaces, devices = tables.latency_s.shape[0], len(tables.reach_start) - 1
    latency, slope = np.full((spaces, devices), np.inf), np.full((spaces, devices), np.inf)
    for device in range(devices):
        reached = tables.reach_space[tables.reach_start[device] : tables.reach_start[device + 1]]
        latency[:, device] = tables.latency_s[:, reached].min(axis=1)
        slope[:, device] = tables.s_per_byte[:, reached].min(axis=1)
        latency[reached, device] = slope[reached, device] = 0.0
    return latency, slope


@compiled
def _heads(
    tables_seconds: Floats,
    release_s: Floats,
    pred_start: Ints,
    pred_task: Ints,
    read_start: Ints,
    read_item: Ints,
    producer: Ints,
    item_space: Ints,
    nbytes: Floats,
    from_space: tuple[Floats, Floats],
    hop: tuple[Floats, Floats],
    nearest: tuple[Floats, Floats],
) -> Floats:
    """Return the earliest start of each task on each device, every predecessor on the device that is best for it."""
    count, devices = tables_seconds.shape
    heads, best_s = np.zeros((count, devices)), np.full(count, np.inf)
    for task in range(count):
        begin = release_s[task]
        for k in range(pred_start[task], pred_start[task + 1]):
            begin = max(begin, best_s[pred_task[k]])
        for device in range(devices):
            heads[task, device] = begin
        for k in range(read_start[task], read_start[task + 1]):
            item = read_item[k]
            if nbytes[item] == 0.0:
                continue
            maker = producer[item]
            for device in range(devices):
                if maker < 0:
                    origin = item_space[item]
                    least = from_space[0][origin, device] + nbytes[item] * from_space[1][origin, device]
                    heads[task, device] = max(heads[task, device], least)
                    continue
                least = heads[maker, device] + tables_seconds[maker, device]
                least += hop[0][device, device] + nbytes[item] * hop[1][device, device]
                # Of many equal devices none is reached sooner from another.
                if least > best_s[maker] + nearest[0][device] + nbytes[item] * nearest[1][device]:
                    for other in range(devices):
                        made = heads[maker, other] + tables_seconds[maker, other]
                        least = min(least, made + hop[0][other, device] + nbytes[item] * hop[1][other, device])
                heads[task, device] = max(heads[task, device], least)
        for device in range(devices):
            best_s[task] = min(best_s[task], heads[task, device] + tables_seconds[task, device])
    return heads


@compiled
def _tails(
    seconds: Floats,
    succ_start: Ints,
    succ_task: Ints,
    read_start: Ints,
    read_item: Ints,
    producer: Ints,
    nbytes: Floats,
    hop: tuple[Floats, Floats],
    nearest: tuple[Floats, Floats],
) -> Floats:
    """Return the least time from the finish of each task on each device to the end."""
    count, devices = seconds.shape
    tails, best_s = np.zeros((count, devices)), np.full(count, np.inf)
    for task in range(count - 1, -1, -1):
        after = 0.0
        for k in range(succ_start[task], succ_start[task + 1]):
            after = max(after, best_s[succ_task[k]])
        for device in range(devices):
            tails[task, device] = max(tails[task, device], after)
            best_s[task] = min(best_s[task], seconds[task, device] + tails[task, device])
        # All readers of this task's results are done: push this task's tail to the producers of its inputs.
        for k in range(read_start[task], read_start[task + 1]):
            item = read_item[k]
            maker = producer[item]
            if maker < 0 or nbytes[item] == 0.0:
                continue
            for device in range(devices):
                least = hop[0][device, device] + nbytes[item] * hop[1][device, device]
                least += seconds[task, device] + tails[task, device]
                if least > best_s[task] + nearest[0][device] + nbytes[item] * nearest[1][device]:
                    for other in range(devices):
                        way = hop[0][device, other] + nbytes[item] * hop[1][device, other]
                        least = min(least, way + seconds[task, other] + tails[task, other])
                tails[maker, device] = max(tails[maker, device], least)
    return tails


def _hops(tables: Tables, latency: Floats, slope: Floats) -> tuple[Floats, Floats]:
    """Return lower bounds on latency and slope of copies of items made on one device to another device."""
    devices = len(tables.reach_start) - 1
    # An item made on a device lies in a space that the device reaches: its home, or where an update finds the item.
    hops = tuple(
        np.array(
            [
                way[tables.reach_space[tables.reach_start[d] : tables.reach_start[d + 1]]].min(axis=0)
                for d in range(devices)
            ]
        ).reshape(devices, devices)
        for way in (latency, slope)
    )
    return np.ascontiguousarray(hops[0]), np.ascontiguousarray(hops[1])


def _heads_and_tails(tables: Tables) -> tuple[Floats, Floats]:
    """Return the earliest start of each task on each device, and the least time from its finish to the end."""
    latency, slope = _least_copies(tables)
    hop = _hops(tables, latency, slope)
    elsewhere = [np.where(np.eye(len(way), dtype=bool), np.inf, way) for way in hop]
    seconds = tables.task_seconds()
    heads = _heads(
        seconds,
        tables.release_s,
        tables.pred_start,
        tables.pred_task,
        tables.read_start,
        tables.read_item,
        tables.item_producer,
        tables.item_space,
        tables.item_bytes,
        (latency, slope),
        hop,
        (elsewhere[0].min(axis=0), elsewhere[1].min(axis=0)),
    )
    tails = _tails(
        seconds,
        tables.succ_start,
        tables.succ_task,
        tables.read_start,
        tables.read_item,
        tables.item_producer,
        tables.item_bytes,
        hop,
        (elsewhere[0].min(axis=1), elsewhere[1].min(axis=1)),
    )
    return heads, tails


def _transfer_s(tables: Tables, heads: Floats, tails: Floats) -> float:
    """Return the longest chain with copies, wanted results included."""
    through = (heads + tables.task_seconds() + tails).min(axis=1, initial=np.inf)
    best = float(through.max(initial=0.0))
    for item, wanted in zip(tables.want_item.tolist(), tables.want_space.tolist(), strict=True):
        nbytes, maker = tables.item_bytes[item], int(tables.item_producer[item])
        copy_s = tables.latency_s[:, wanted] + nbytes * tables.s_per_byte[:, wanted]
        copy_s[wanted] = 0.0
        if nbytes == 0.0:
            copy_s[:] = 0.0
        if maker == NOTHING:
            best = max(best, float(copy_s[tables.item_space[item]]))
            continue
        reached_s = np.minimum.reduceat(copy_s[tables.reach_space], tables.reach_start[:-1])
        best = max(best, float((heads[maker] + tables.seconds[tables.kind[maker]] + reached_s).min()))
    return best


def _count_s(fastest: Floats, lanes: int) -> float:
    """Return the bound by the number of tasks that some lane must run; ``fastest`` has shape (T,)."""
    longest = np.sort(fastest)[::-1]
    most = np.arange(1, (len(longest) - 1) // lanes + 1)  # k
    sums = np.concatenate(([0.0], np.cumsum(longest)))
    last = most * lanes + 1  # so many of the longest tasks, of which some lane runs k + 1
    return float((sums[last] - sums[last - most - 1]).max(initial=0.0))


def _area_s(tables: Tables, heads: Floats, tails: Floats) -> float:
    """Return the area bound, of all tasks and of the tasks between a head and a tail."""
    lanes = np.diff(tables.device_start)
    able = np.isfinite(tables.seconds)[tables.kind]
    head = np.where(able, heads, np.inf).min(axis=1)
    tail = np.where(able, tails, np.inf).min(axis=1)
    around_s, sets = [0.0], [np.ones(len(head), dtype=bool)]
    if able.size <= _AREA_WORK // 400:
        for first in np.unique(np.quantile(head, [0.0, 0.02, 0.1])):
            for last in np.unique(np.quantile(tail, [0.0, 0.02, 0.1])):
                inner = (head >= first) & (tail >= last)
                if (first > 0.0 or last > 0.0) and inner.any():
                    around_s.append(first + last)
                    sets.append(inner)
    used = able.any(axis=0)
    rows, which = _distinct_rows(tables.seconds[:, used])
    kind = which[tables.kind]
    tasks = np.stack([np.bincount(kind, inner, len(rows)) for inner in sets])
    bounds_s, _ = _multiplied(rows, tasks, lanes[used], _AREA_ROUNDS)
    return float((np.array(around_s) + bounds_s).max())
