# SPDX-License-Identifier: Apache-2.0
"""Pipelining: a schedule for endless repetition of a graph with a short initiation interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.core.orders import time_order
from syclsched.scheduling.objectives.aims import minimize
from syclsched.scheduling.objectives.constrained_search import policy_timetables, search
from syclsched.scheduling.objectives.modulo import Operations, earliest, fit
from syclsched.scheduling.objectives.pipelined_schedule import PipelinedSchedule
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.search.constrained.evaluator import ConstrainedEvaluator
from syclsched.scheduling.search.constrained.state import LISTED, ConstrainedState
from syclsched.scheduling.search.meter import Clock
from syclsched.scheduling.tables import NOTHING, Floats, Ints
from syclsched.scheduling.timetable import Copies, Timetable

#: Relative growth of the tried intervals over the bound.
GROWTH = (0.0, 1e-4, 1e-3, 3e-3, *(1.01**k - 1.0 for k in range(1, 140)))

#: Relative precision of the least interval of circuits.
_PRECISION = 1e-10


def pipeline(
    problem: Problem,
    *,
    timetables: Sequence[Timetable] = (),
    steps: int | None = None,
    budget_s: float | None = None,
    clock: Clock | None = None,
    seed: int = 0,
) -> PipelinedSchedule:
    """Return a schedule for running a graph repeatedly, with the shortest interval that is found.

    Search for an assignment with the least load of the busiest processor or channel; return the best modulo schedule of
    it and of the given timetables.
    """
    given = list(timetables) or policy_timetables(problem)
    found = search(
        problem, minimize("throughput"), timetables=given, steps=steps, budget_s=budget_s, clock=clock, seed=seed
    )
    made = [modulo_schedule(problem, timetable) for timetable in (found.timetable, *given)]
    return min(made, key=lambda schedule: (schedule.interval_s, schedule.makespan_s))


def modulo_schedule(problem: Problem, timetable: Timetable) -> PipelinedSchedule:
    """Return the schedule with the shortest interval that is found for a timetable's assignment."""
    tables = problem.tables
    order = time_order(tables, timetable.start_s, timetable.finish_s)
    state, carried = _steady_state(problem, order, np.array(timetable.processor, np.int64))
    ops, copies, rank_s = _operations(problem, state, carried)
    position = np.empty(len(rank_s), np.int64)
    position[ops.order] = np.arange(len(rank_s))
    by_rank = np.lexsort((position, rank_s))
    most_s = max(float(state.load_s.max(initial=0.0)), float(ops.seconds.max(initial=0.0)))
    bound_s = max(most_s, _circuits_s(ops, most_s))
    for interval_s in [*(bound_s * (1.0 + growth) for growth in GROWTH), _serial_interval_s(ops)]:
        for packed in (False, True):
            fits, begin_s = fit(ops, by_rank, len(state.load_s), interval_s, packed)
            if fits:
                return _schedule(state, ops, copies, begin_s, interval_s, bound_s)
    raise PolicyError("no interval is long enough", where="modulo schedule")


# --- inside ---------------------------------------------------------------------------------------


def _steady_state(problem: Problem, order: Ints, processor: Ints) -> tuple[ConstrainedState, list[tuple[int, int]]]:
    """Return the steady state of successive iterations, and the (first, last) items carried from one to the next."""
    tables = problem.tables
    last = np.arange(len(tables.item_bytes))
    for row in np.flatnonzero(tables.make_replaces != NOTHING)[::-1].tolist():
        last[tables.make_replaces[row]] = last[tables.make_item[row]]
    inputs = np.flatnonzero(tables.item_producer == NOTHING)
    carried = [(int(item), int(last[item])) for item in inputs if last[item] != item]
    evaluator = ConstrainedEvaluator(problem)
    input_space = tables.item_space.copy()
    for _ in range(len(problem.spaces) + 2):
        item_space = input_space.copy()
        item_space.flags.writeable = False
        evaluator.set_tables(tables._replace(item_space=item_space))
        evaluator.load(order, processor)
        origin = evaluator.state.origin
        moved = False
        for item, final in carried:
            moved = moved or input_space[item] != origin[final]
            input_space[item] = origin[final]
        if not moved:
            return evaluator.state, carried
    raise PolicyError(
        "the arrays updated in place change their memory space in every generation", where="modulo schedule"
    )


def _operations(
    problem: Problem, s: ConstrainedState, carried: list[tuple[int, int]]
) -> tuple[Operations, Ints, Floats]:
    """Return tasks and copies as operations, (item, destination) of the copies, and a priority time for each."""
    t, tasks = problem.tables, len(problem)
    final = dict(carried)
    listed = problem.has_channels
    edges: list[tuple[int, int, float, int]] = []
    early_s = t.release_s.tolist()
    seconds = t.seconds[t.kind, s.device].tolist()
    resource = [(int(p), NOTHING) for p in s.processor]
    rank = s.start_s.tolist()
    number: dict[tuple[int, int], int] = {}

    def made_by(item: int) -> tuple[int, int]:
        """Return the task that makes an item (`NOTHING` for a new input), and the number of iterations between."""
        if item in final:
            return int(t.item_producer[final[item]]), 1
        return int(t.item_producer[item]), 0

    def copy(item: int, space: int) -> int:
        """Return the operation that copies an item to a space."""
        if (item, space) not in number:
            number[item, space] = op = len(seconds)
            seconds.append(problem.copy_seconds(float(t.item_bytes[item]), int(s.origin[item]), space))
            early_s.append(0.0)
            one, other = t.channel[s.origin[item], space].tolist()
            ports = sorted((p + len(s.free_s) if p >= 0 else NOTHING for p in (one, other)), reverse=True)
            resource.append((ports[0], ports[1]))
            rank.append(max(0.0, float(s.arrival_s[item, space]) - seconds[op]))
            maker, distance = made_by(item)
            if maker >= 0:
                edges.append((maker, op, seconds[maker], distance))
        return number[item, space]

    def require(item: int, space: int, reader: int) -> None:
        """Make a task wait for an item in a space."""
        away = space != s.origin[item] and t.item_bytes[item] > 0.0
        maker, distance = made_by(item)
        if away and listed:
            op = copy(item, space)
            edges.append((op, reader, seconds[op], 0))
            return
        copy_s = problem.copy_seconds(float(t.item_bytes[item]), int(s.origin[item]), space) if away else 0.0
        if maker >= 0:
            edges.append((maker, reader, seconds[maker] + copy_s, distance))
        else:
            early_s[reader] = max(early_s[reader], copy_s)

    for task in range(tasks):
        before = t.pred_task[t.pred_start[task] : t.pred_start[task + 1]].tolist()
        edges += [(first, task, seconds[first], 0) for first in before]
        for row in range(t.read_start[task], t.read_start[task + 1]):
            require(int(t.read_item[row]), int(s.read_space[row]), task)
    wanted = [(int(i), int(w)) for i, w in zip(t.want_item, t.want_space, strict=True)]
    if listed:
        for item, space in wanted:
            if space != s.origin[item] and t.item_bytes[item] > 0.0:
                copy(item, space)
    edges += _overwrite_edges(problem, s, carried, seconds, number)
    edges.sort(key=lambda edge: edge[0])
    sources = np.array([edge[0] for edge in edges], np.int64)
    # A copy is sorted after the producer of its item and before the next task.
    sort_key = [(task, 0) for task in range(tasks)]
    sort_key += [(NOTHING if item in final else int(t.item_producer[item]), 1) for item, _ in number]
    order = sorted(range(len(sort_key)), key=sort_key.__getitem__)
    # Rounding can put the time of a copy, computed back from its end, before its producer's or after its reader's.
    after: dict[int, list[int]] = {}
    for first, second, _, distance in edges:
        if distance == 0:
            after.setdefault(first, []).append(second)
    for op in order:
        for later in after.get(op, ()):
            rank[later] = max(rank[later], rank[op])
    ops = Operations(
        np.array(seconds, np.float64), np.array(early_s, np.float64),
        np.array(resource, np.int64).reshape(len(seconds), 2),
        np.searchsorted(sources, np.arange(len(seconds) + 1)).astype(np.int64),
        np.array([edge[1] for edge in edges], np.int64), np.array([edge[2] for edge in edges], np.float64),
        np.array([edge[3] for edge in edges], np.int64),
        np.array(order, np.int64),
    )  # fmt: skip
    return ops, np.array([*number], np.int64).reshape(len(number), 2), np.array(rank, np.float64)


def _overwrite_edges(
    problem: Problem,
    s: ConstrainedState,
    carried: list[tuple[int, int]],
    seconds: list[float],
    copies: dict[tuple[int, int], int],
) -> list[tuple[int, int, float, int]]:
    """Return the edges from readers and copies of a carried item to its overwriter in the next iteration."""
    t = problem.tables
    rows = np.flatnonzero(t.make_replaces != NOTHING)
    maker = dict(zip(t.make_replaces[rows].tolist(), t.item_producer[t.make_item[rows]].tolist(), strict=True))
    reader = np.repeat(np.arange(len(problem)), np.diff(t.read_start))
    edges = []
    for first, final in carried:
        writer = maker[first]
        users = [*reader[t.read_item == final].tolist(), *(op for (item, _), op in copies.items() if item == final)]
        edges += [(user, writer, seconds[user], 1) for user in users]
        for space in t.want_space[t.want_item == final].tolist():
            if not problem.has_channels:
                copy_s = problem.copy_seconds(float(t.item_bytes[final]), int(s.origin[final]), space)
                last = int(t.item_producer[final])
                edges.append((last, writer, seconds[last] + copy_s, 1))
    return edges


def _circuits_s(ops: Operations, most_s: float) -> float:
    """Return the least interval that is long enough for every circuit of dependencies, at least the largest load."""
    if not ops.distance.any():
        return 0.0
    low, high = most_s, _serial_interval_s(ops)
    if most_s > 0.0 and earliest(ops, most_s)[0]:
        return most_s
    while high - low > _PRECISION * high:
        middle = (low + high) / 2.0
        if earliest(ops, middle)[0]:
            high = middle
        else:
            low = middle
    return high


def _serial_interval_s(ops: Operations) -> float:
    """Return an interval long enough for each iteration to wait for the previous one."""
    return float(ops.early_s.max(initial=0.0) + ops.seconds.sum() + ops.lag_s.sum())


def _schedule(
    s: ConstrainedState, ops: Operations, copies: Ints, begin_s: Floats, interval_s: float, bound_s: float
) -> PipelinedSchedule:
    tasks = len(s.order)
    listed = None
    if s.copying[LISTED]:
        when_s = begin_s[tasks:]
        listed = Copies(
            copies[:, 0].copy(),
            s.origin[copies[:, 0]],
            copies[:, 1].copy(),
            when_s.copy(),
            when_s + ops.seconds[tasks:],
        )
    return PipelinedSchedule(
        s.processor.copy(), begin_s[:tasks].copy(), ops.seconds[:tasks].copy(), interval_s, listed, bound_s
    )
