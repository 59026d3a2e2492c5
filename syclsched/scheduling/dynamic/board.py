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
    """A run: T tasks, L lanes, P of which are for tasks, D devices, and S things to submit, tasks first."""

    seconds: Floats  # estimates
    #: As in `Known`; ``planned`` is `NOTHING` without a plan.
    kind: Ints
    level: Ints
    planned: Ints
    device_of: Ints  # the device of each of the lanes that tasks run on, which come first
    is_host: Flags  # whether it is the host's: what comes after its tasks waits for their end
    #: Dependencies; predecessors may be things that are no tasks.
    succ_start: Ints
    succ_task: Ints
    pred_start: Ints
    pred_task: Ints
    drift: Drift  # what was measured
    places: Places  # where data is
    #: How many predecessors are yet to be submitted, and on which lane the last one was.
    waiting: Ints
    released_by: Ints
    ready: Ints  # the first ``counters[READY]`` can start: by level, then in the order in which they became ready
    queue: Ints  # tasks bound to each lane
    queued: Ints  # how many
    #: Estimated seconds of what is queued, of what the lane was given, and when that should end.
    queued_s: Floats
    ahead_s: Floats
    until_s: Floats
    order: Ints  # where there is a plan, the tasks of each lane by level, lane by lane
    #: The first of each lane that was not started, and where the lane's end.
    order_at: Ints
    order_end: Ints
    #: Where each thing was submitted, and its place there; `NOTHING` before. A task that is held back has a lane, but
    #: no place.
    lane: Ints
    place: Ints
    #: What each task that was started was believed to take, and when it was believed to start.
    estimate_s: Floats
    start_s: Floats
    #: How many things were given to each lane, and how many of these have completed.
    given: Ints
    done: Ints
    flight: Ints  # what was given to each lane, by place
    ordered: Ints  # up to which place of another lane each lane has waited
    #: What each thing waits for on other lanes; and then up to which place of each lane it comes after what is there,
    #: `NOTHING` for none.
    waits: Ints
    waits_count: Ints  # how many
    started: Ints  # things in the order in which they were started
    unbound: Ints  # to work in: what is to be bound anew
    choice: Ints  # to work in: what each lane is to start
    counters: Ints  # see `READY`
    scalars: Floats  # see `NOW`


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
    """Return the board of a run that has not begun."""
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
