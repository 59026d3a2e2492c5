# SPDX-License-Identifier: Apache-2.0
"""Entry points of policies into the compiled list-scheduling core: they return timetables or raise errors."""

from __future__ import annotations

import math

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.core.channels import copy_results
from syclsched.scheduling.core.completion import make_ready_tasks, place_by_completion
from syclsched.scheduling.core.greedy import make_heaps, place_best_pairs
from syclsched.scheduling.core.insertion import place_in_order
from syclsched.scheduling.core.lookahead_placement import place_looking_ahead
from syclsched.scheduling.core.orders import list_order, positions
from syclsched.scheduling.core.partial_schedule import PartialSchedule, make_partial_schedule
from syclsched.scheduling.core.ranks import mean_seconds, upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Floats, Ints
from syclsched.scheduling.timetable import Copies, Timetable

_NO_TASKS = np.empty(0, np.int64)
_NO_OFFSETS = np.empty((0, 0))


def mean_upward_ranks(problem: Problem) -> Floats:
    """Return the upward ranks of HEFT, with mean seconds and mean copies."""
    return upward_ranks(problem.tables, mean_seconds(problem.tables), *problem.mean_copy_line())


def in_order(
    problem: Problem,
    order: Ints,
    *,
    pinned: Ints = _NO_TASKS,
    follows: Ints = _NO_TASKS,
    offset_s: Floats = _NO_OFFSETS,
    by_start: bool = False,
) -> Timetable:
    """Schedule tasks in an order, each on the processor where it finishes first, with insertion."""
    state = make_partial_schedule(problem.tables)
    weight = 0.0 if by_start else 1.0
    stuck = place_in_order(state, order, pinned, follows, offset_s, weight)
    return _timetable(problem, stuck, state)


def by_rank(problem: Problem, *ranks: Floats) -> Ints:
    """Return the order of tasks by falling rank in which every task follows its predecessors."""
    return list_order(problem.tables, positions(problem.tables, *ranks))


def looking_ahead(problem: Problem, ranks: Floats) -> Timetable:
    """Schedule tasks by falling rank, each on the processor that gives the earliest finish of its last successor."""
    tables, state = problem.tables, make_partial_schedule(problem.tables)
    places = positions(tables, ranks)
    rows = np.repeat(np.arange(len(problem)), np.diff(tables.succ_start))
    followers = tables.succ_task[np.lexsort([places[tables.succ_task], rows])]
    order = list_order(tables, places)
    stuck = place_looking_ahead(state, order, tables.succ_start, followers, np.empty(len(problem.devices)), _NO_OFFSETS)
    return _timetable(problem, stuck, state)


def best_pairs(problem: Problem, merit_s: Floats, *ranks: Floats) -> Timetable:
    """Schedule the best pair of ready task and device until all tasks are placed, without insertion."""
    tables, state = problem.tables, make_partial_schedule(problem.tables)
    heaps, waiting = make_heaps(len(problem), len(problem.devices)), np.diff(tables.pred_start)
    places = positions(tables, *ranks)
    stuck = place_best_pairs(state, heaps, waiting, tables.succ_start, tables.succ_task, places, merit_s)
    return _timetable(problem, stuck, state)


def by_completion(problem: Problem, *, sufferage: bool) -> Timetable:
    """Schedule ready tasks by their best completion times, without insertion."""
    tables, state = problem.tables, make_partial_schedule(problem.tables)
    ready, waiting = make_ready_tasks(len(problem), len(problem.devices)), np.diff(tables.pred_start)
    places = positions(tables)
    stuck = place_by_completion(state, ready, waiting, tables.succ_start, tables.succ_task, places, sufferage)
    return _timetable(problem, stuck, state)


# --- inside ---------------------------------------------------------------------------------------


def _timetable(problem: Problem, stuck: int, state: PartialSchedule) -> Timetable:
    if stuck >= 0:
        raise _unreachable(problem, stuck)
    slots, data, network = state
    copies = None
    if problem.has_channels:
        copy_results(data, network, problem.tables.want_item, problem.tables.want_space)
        count = int(network.counts[0])
        copies = Copies(*network.what[:count].T.copy(), *network.when_s[:count].T.copy())
    return Timetable(slots.processor, slots.start_s, slots.finish_s, copies)


def _unreachable(problem: Problem, task: int) -> PolicyError:
    row = problem.tables.seconds[problem.tables.kind[task]].tolist()
    able = [name for name, seconds in zip(problem.devices, row, strict=True) if seconds < math.inf]
    return PolicyError(
        f"its data cannot be brought to any device that can run it ({', '.join(able) or 'there is none'})",
        where=f"task {problem.names[task]!r}",
        hint="Describe links from the other memory spaces to these devices' spaces, or through the host's memory",
    )
