# SPDX-License-Identifier: Apache-2.0
"""A run under a dynamic policy as flat arrays, for compiled code.

What is done to a board is in `moves`, what policies decide in `compiled_policies`. `State` and the policies' own
`decide` say what is decided: tests hold both to the same decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from syclsched.scheduling.dynamic.drift import Drift, new_drift
from syclsched.scheduling.dynamic.known import rows as _rows
from syclsched.scheduling.dynamic.places import Places, Spread, new_places
from syclsched.scheduling.dynamic.state import Known
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats, Ints

Flags = np.ndarray[Any, np.dtype[np.bool_]]

#: Places of `Board.counters`: ready tasks, tasks that were started, and things with the copies for them.
READY, STARTED, THINGS = range(3)
#: Places of `Board.scalars`: the time, the deviation so far, the bound from which a plan is left; then the lookahead.
NOW, DEVIATION, BOUND, AHEAD_S, FEWEST, MOST = range(6)


class Board(NamedTuple):
    """A run: T tasks, L lanes, P of which are for tasks, D devices, and S things to submit, tasks first.

    Parameters
    ----------
    seconds : ndarray of float64, shape (T, D)
        Estimates.
    kind, level, planned : ndarray of int64, shape (T,)
        As in `Known`; ``planned`` is `NOTHING` without a plan.
    device_of : ndarray of int64, shape (P,)
        The device of each of the lanes that tasks run on, which come first.
    is_host : ndarray of bool, shape (L,)
        Whether it is the host's: what comes after its tasks waits for their end.
    succ_start, succ_task, pred_start, pred_task : ndarray of int64
        Dependencies; predecessors may be things that are no tasks.
    drift : Drift
        What was measured.
    places : Places
        Where data is.
    waiting, released_by : ndarray of int64, shape (T,)
        How many predecessors are yet to be submitted, and on which lane the last one was.
    ready : ndarray of int64, shape (T,)
        The first ``counters[READY]`` can start: by level, then in the order in which they became ready.
    queue : ndarray of int64, shape (P, T)
        Tasks bound to each lane.
    queued : ndarray of int64, shape (P,)
        How many.
    queued_s, ahead_s, until_s : ndarray of float64, shape (P,), (L,), (L,)
        Estimated seconds of what is queued, of what the lane was given, and when that should end.
    order : ndarray of int64, shape (T,)
        Where there is a plan, the tasks of each lane by level, lane by lane.
    order_at, order_end : ndarray of int64, shape (P,)
        The first of each lane that was not started, and where the lane's end.
    lane, place : ndarray of int64, shape (S,)
        Where each thing was submitted, and its place there; `NOTHING` before. A task that is held back has a lane, but
        no place.
    estimate_s, start_s : ndarray of float64, shape (T,)
        What each task that was started was believed to take, and when it was believed to start.
    given, done : ndarray of int64, shape (L,)
        How many things were given to each lane, and how many of these have completed.
    flight : ndarray of int64, shape (L, S)
        What was given to each lane, by place.
    ordered : ndarray of int64, shape (L, L)
        Up to which place of another lane each lane has waited.
    waits : ndarray of int64, shape (S, 2 L)
        What each thing waits for on other lanes; and then up to which place of each lane it comes after what is there,
        `NOTHING` for none.
    waits_count : ndarray of int64, shape (S,)
        How many.
    started : ndarray of int64, shape (S,)
        Things in the order in which they were started.
    unbound : ndarray of int64, shape (T,)
        To work in: what is to be bound anew.
    choice : ndarray of int64, shape (P,)
        To work in: what each lane is to start.
    counters : ndarray of int64, shape (3,)
        See `READY`.
    scalars : ndarray of float64, shape (6,)
        See `NOW`.
    """

    seconds: Floats
    kind: Ints
    level: Ints
    planned: Ints
    device_of: Ints
    is_host: Flags
    succ_start: Ints
    succ_task: Ints
    pred_start: Ints
    pred_task: Ints
    drift: Drift
    places: Places
    waiting: Ints
    released_by: Ints
    ready: Ints
    queue: Ints
    queued: Ints
    queued_s: Floats
    ahead_s: Floats
    until_s: Floats
    order: Ints
    order_at: Ints
    order_end: Ints
    lane: Ints
    place: Ints
    estimate_s: Floats
    start_s: Floats
    given: Ints
    done: Ints
    flight: Ints
    ordered: Ints
    waits: Ints
    waits_count: Ints
    started: Ints
    unbound: Ints
    choice: Ints
    counters: Ints
    scalars: Floats


def new_board(
    problem: Problem,
    known: Known,
    *,
    lanes: int,
    things: int,
    is_host: Sequence[bool],
    bound: float,
    lookahead: tuple[int, int, float],
    before: Sequence[Sequence[int]],
    contexts: Sequence[int] = (),
    spread: Spread | None = None,
    after: Sequence[Sequence[int]] | None = None,
    copies_from: int = 0,
) -> Board:
    """Return the board of a run that has not begun.

    Parameters
    ----------
    problem : Problem
        Made of the graph.
    known : Known
        By the policy.
    lanes, things : int
        How many lanes there are, the problem's processors first, and how many things are submitted, its tasks first.
    is_host : sequence of bool
        Whether each processor is the host's.
    bound : float
        From which deviation a plan is left.
    lookahead : (int, int, float)
        Fewest and most tasks that a lane has ahead, and seconds.
    before : sequence of sequence of int
        For each task the things besides tasks that it comes after.
    contexts : sequence of int, optional
        Of each lane: lanes of different ones cannot wait for each other; `NOTHING` for the host's. One for all if not
        given.
    spread : Spread, optional
        The data, if it is not all in one space.
    after : sequence of sequence of int, optional
        With ``spread``: for each task those that it comes after whatever it touches, in the place of all before it.
    copies_from : int, optional
        The first thing that is a copy made for ``spread``.
    """
    tables, tasks, processors = problem.tables, len(problem), len(known.device_of)
    earlier_tasks = _rows(tables.pred_start, tables.pred_task) if after is None else after
    listed = [[*earlier_tasks[task], *before[task]] for task in range(tasks)]
    pred_start = np.concatenate(([0], np.cumsum([len(things_before) for things_before in listed]))).astype(np.int64)
    earlier = np.array([thing for things_before in listed for thing in things_before], np.int64)
    lane_is_host = np.zeros(lanes, np.bool_)
    lane_is_host[:processors] = is_host
    if not contexts:
        contexts = [NOTHING if host else 0 for host in lane_is_host]
    planned = np.full(tasks, NOTHING) if known.planned is None else np.array(known.planned, np.int64)
    level = np.array(known.level, np.int64)
    order = np.lexsort((np.arange(tasks), level, planned)).astype(np.int64)
    ends = np.searchsorted(planned[order], np.arange(processors), side="right")
    fewest, most, ahead_s = lookahead
    return Board(
        seconds=np.array(known.seconds, np.float64).reshape(tasks, -1),
        kind=np.array(known.kind, np.int64),
        level=level,
        planned=planned,
        device_of=np.array(known.device_of, np.int64),
        is_host=lane_is_host,
        succ_start=tables.succ_start.copy(),
        succ_task=tables.succ_task.copy(),
        pred_start=pred_start,
        pred_task=earlier,
        drift=new_drift(np.array(known.seconds, np.float64).reshape(tasks, -1), max(known.kind, default=0) + 1),
        places=new_places(known, spread, lanes=lanes, first_copy=copies_from, contexts=contexts),
        waiting=np.diff(tables.pred_start).astype(np.int64),
        released_by=np.full(tasks, NOTHING),
        ready=np.zeros(tasks, np.int64),
        queue=np.zeros((processors, tasks), np.int64),
        queued=np.zeros(processors, np.int64),
        queued_s=np.zeros(processors),
        ahead_s=np.zeros(lanes),
        until_s=np.zeros(lanes),
        order=order,
        order_at=np.searchsorted(planned[order], np.arange(processors)).astype(np.int64),
        order_end=ends.astype(np.int64),
        lane=np.full(things, NOTHING),
        place=np.full(things, NOTHING),
        estimate_s=np.zeros(tasks),
        start_s=np.zeros(tasks),
        given=np.zeros(lanes, np.int64),
        done=np.zeros(lanes, np.int64),
        flight=np.zeros((lanes, things), np.int64),
        ordered=np.zeros((lanes, lanes), np.int64),
        waits=np.full((things, 2 * lanes), NOTHING),
        waits_count=np.zeros(things, np.int64),
        started=np.zeros(things, np.int64),
        unbound=np.zeros(tasks, np.int64),
        choice=np.zeros(processors, np.int64),
        counters=np.zeros(3, np.int64),
        scalars=np.array([0.0, 0.0, bound, ahead_s, float(fewest), float(most)]),
    )


def bytes_between(problem: Problem) -> Floats:
    """Return for each pair of tasks, in the order of successors, the bytes that the later reads of the earlier."""
    tables, tasks = problem.tables, len(problem)
    reader = np.repeat(np.arange(tasks), np.diff(tables.read_start))
    maker = tables.item_producer[tables.read_item]
    made = maker >= 0
    pairs, where = np.unique(maker[made] * tasks + reader[made], return_inverse=True)
    nbytes = np.bincount(where.reshape(-1), weights=tables.item_bytes[tables.read_item[made]], minlength=len(pairs))
    wanted = np.repeat(np.arange(tasks), np.diff(tables.succ_start)) * tasks + tables.succ_task
    if not len(pairs):
        return np.zeros(len(wanted))
    found = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    return np.where(pairs[found] == wanted, nbytes[found], 0.0)
