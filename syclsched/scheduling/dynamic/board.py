# SPDX-License-Identifier: Apache-2.0
"""The dynamic policies, compiled, for runs whose data is all in one memory space: many decisions in one call.

`State` and the policies' own `decide` say what is decided; this decides the same where no data has to be moved, on flat
arrays, and works out what each task waits for. Tests hold both to the same decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.drift import Drift, new_drift, note
from syclsched.scheduling.dynamic.state import Known
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats, Ints

Flags = np.ndarray[Any, np.dtype[np.bool_]]

#: Which policy decides.
CENTRAL, LOCALITY, STEALING, HYBRID = range(4)

#: Places of `Board.counters`: ready tasks, and tasks that were started.
READY, STARTED = range(2)
#: Places of `Board.scalars`: the time, the deviation so far, the bound from which a plan is left; then the lookahead.
NOW, DEVIATION, BOUND, AHEAD_S, FEWEST, MOST = range(6)

#: A task that has run longer than it should is expected to take this share of its estimate more.
_OVERDUE = 0.5
#: How many tasks of another lane's queue an idle lane looks at.
_LOOK_AT = 16


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
    is_host : ndarray of bool, shape (P,)
        Whether it is the host's: what comes after its tasks waits for their end.
    succ_start, succ_task, pred_start, pred_task : ndarray of int64
        Dependencies; predecessors may be things that are no tasks.
    drift : Drift
        What was measured.
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
        Where each thing was submitted, and its place there; `NOTHING` before.
    estimate_s, start_s : ndarray of float64, shape (T,)
        What each task that was started was believed to take, and when it was believed to start.
    given, done : ndarray of int64, shape (L,)
        How many things were given to each lane, and how many of these have completed.
    flight : ndarray of int64, shape (L, S)
        What was given to each lane, by place.
    ordered : ndarray of int64, shape (L, L)
        Up to which place of another lane each lane has waited.
    waits : ndarray of int64, shape (T, L)
        What each task waits for on other lanes.
    waits_count : ndarray of int64, shape (T,)
        How many.
    started : ndarray of int64, shape (T,)
        Tasks in the order in which they were started.
    unbound : ndarray of int64, shape (T,)
        To work in: what is to be bound anew.
    choice : ndarray of int64, shape (P,)
        To work in: what each lane is to start.
    counters : ndarray of int64, shape (2,)
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


@lean
def begin(board: Board) -> None:
    """Let the tasks be ready that wait for no other."""
    for task in range(len(board.waiting)):
        if board.waiting[task] == 0:
            _arrive(board, task)


def advance(board: Board, policy: int, now_s: float) -> int:
    """Start what the policy wants started now; return how many tasks have been started since the run began.

    Parameters
    ----------
    board : Board
        Changed.
    policy : int
        `CENTRAL`, `LOCALITY`, `STEALING` or `HYBRID`.
    now_s : float
        The time.
    """
    return turn(board, policy, _NONE, _NONE, _NONE, now_s)


def turn(board: Board, policy: int, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do what `complete` does, then what `advance` does, in one call; parameters and result are theirs."""
    return _TURN[policy](board, counts, start_ns, end_ns, now_s)


@lean
def complete(board: Board, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> None:
    """Note that the next things of each lane have completed, and when they began and ended.

    Parameters
    ----------
    board : Board
        Changed.
    counts : ndarray of int64, shape (L,)
        How many on which lane.
    start_ns, end_ns : ndarray of int64, shape (S,)
        By thing, on its device's clock; a thing that ended before it began was not measured.
    now_s : float
        The time.
    """
    for lane in range(len(counts)):
        if counts[lane]:
            for _ in range(counts[lane]):
                thing = board.flight[lane, board.done[lane]]
                board.done[lane] += 1
                if thing < len(board.waiting):
                    _end(board, thing, lane, (end_ns[thing] - start_ns[thing]) * 1e-9)
            if board.done[lane] == board.given[lane]:
                board.ahead_s[lane] = 0.0
            board.until_s[lane] = now_s + board.ahead_s[lane] if board.ahead_s[lane] > 0.0 else 0.0


@lean
def _end(board: Board, task: int, lane: int, measured_s: float) -> None:
    device = board.device_of[lane]
    board.ahead_s[lane] -= board.estimate_s[task]
    if board.is_host[lane]:
        _release(board, task)
    if measured_s >= 0.0:
        board.scalars[DEVIATION] = note(board.drift, board.kind[task], device, measured_s, board.seconds[task, device])


# --- the policies ---------------------------------------------------------------------------------


@lean
def _from_central_queue(board: Board) -> bool:
    # All lanes choose before any starts: what a start makes ready is for the next round.
    choice, progress = board.choice, False
    for lane in range(len(board.device_of)):
        choice[lane] = NOTHING
        if not _is_open(board, lane):
            continue
        for position in range(board.counters[READY]):
            task = board.ready[position]
            if board.seconds[task, board.device_of[lane]] < np.inf and not _is_chosen(board, task, lane):
                choice[lane] = task
                break
    for lane in range(len(board.device_of)):
        if choice[lane] != NOTHING:
            position = 0
            while board.ready[position] != choice[lane]:
                position += 1
            _take_ready(board, position)
            _start(board, choice[lane], lane)
            progress = True
    return progress


@lean
def _is_chosen(board: Board, task: int, lanes: int) -> bool:
    """Return whether one of the first lanes has chosen a task."""
    found = False
    for lane in range(lanes):
        found |= board.choice[lane] == task
    return found


@lean
def _by_locality(board: Board) -> bool:
    position = 0
    while position < board.counters[READY]:
        task = board.ready[position]
        best, best_s = NOTHING, np.inf
        for lane in range(len(board.device_of)):
            device = board.device_of[lane]
            if board.seconds[task, device] < np.inf:
                end_s = _free_s(board, lane) + _seconds(board, task, device)
                if end_s < best_s:
                    best, best_s = lane, end_s
        if best == NOTHING:
            position += 1
            continue
        _take_ready(board, position)
        _bind(board, task, best, True)
    return _start_first(board)


@lean
def _start_first(board: Board) -> bool:
    progress = False
    for lane in range(len(board.device_of)):
        if _is_open(board, lane) and board.queued[lane]:
            task = _take_queued(board, lane, 0)
            _start(board, task, lane)
            progress = True
    return progress


@lean
def _by_stealing(board: Board) -> bool:
    position = 0
    while position < board.counters[READY]:
        task = board.ready[position]
        home = board.released_by[task]
        if home == NOTHING or board.seconds[task, board.device_of[home]] == np.inf:
            home, least = NOTHING, 0
            for lane in range(len(board.device_of)):
                length = board.queued[lane] + (0 if _is_open(board, lane) else 1)
                if board.seconds[task, board.device_of[lane]] < np.inf and (home == NOTHING or length < least):
                    home, least = lane, length
        if home == NOTHING:
            position += 1
            continue
        _take_ready(board, position)
        _bind(board, task, home, False)
    choice, progress = board.choice, False
    for lane in range(len(board.device_of)):
        choice[lane] = NOTHING
        if _is_open(board, lane):
            position = board.queued[lane] - 1
            while position >= 0 and _is_chosen(board, board.queue[lane, position], lane):
                position -= 1
            choice[lane] = board.queue[lane, position] if position >= 0 else _loot(board, lane)
    for lane in range(len(board.device_of)):
        if choice[lane] != NOTHING:
            _take_out(board, choice[lane])
            _start(board, choice[lane], lane)
            progress = True
    return progress


@lean
def _take_out(board: Board, task: int) -> None:
    """Take a task out of the queue that it is in."""
    for lane in range(len(board.device_of)):
        for position in range(board.queued[lane]):
            if board.queue[lane, position] == task:
                _take_queued(board, lane, position)
                return


@lean
def _loot(board: Board, thief: int) -> int:
    """Return a task of the longest queue that has one for a lane, not chosen yet; all share memory here."""
    device = board.device_of[thief]
    best, looted = NOTHING, NOTHING
    for lane in range(len(board.device_of)):
        if lane == thief or (best != NOTHING and not _is_better(board, lane, best, device)):
            continue
        for position in range(board.queued[lane]):
            task = board.queue[lane, position]
            if board.seconds[task, device] < np.inf and not _is_chosen(board, task, thief):
                best, looted = lane, task
                break
    return int(looted)


@lean
def _is_better(board: Board, lane: int, other: int, device: int) -> bool:
    if board.queued[lane] != board.queued[other]:
        return bool(board.queued[lane] > board.queued[other])
    return bool(board.device_of[lane] == device and board.device_of[other] != device)


@lean
def _by_plan(board: Board) -> bool:
    for position in range(board.counters[READY]):
        task = board.ready[position]
        _bind(board, task, board.planned[task], True)
    board.counters[READY] = 0
    left = board.scalars[DEVIATION] > board.scalars[BOUND]
    progress = False
    for lane in range(len(board.device_of)):
        if not _is_open(board, lane) or not board.queued[lane]:
            continue
        while board.order_at[lane] < board.order_end[lane] and board.place[board.order[board.order_at[lane]]] >= 0:
            board.order_at[lane] += 1
        if left or board.queue[lane, 0] == board.order[board.order_at[lane]]:
            task = _take_queued(board, lane, 0)
            _start(board, task, lane)
            progress = True
    if progress or not left:
        return progress
    for thief in range(len(board.device_of)):
        if _is_open(board, thief):
            victim, position = _first_to_take(board, thief)
            if victim != NOTHING:
                task = _take_queued(board, victim, position)
                _start(board, task, thief)
                return True
    return False


@lean
def _first_to_take(board: Board, thief: int) -> tuple[int, int]:
    """Return lane and position of the first task by the plan that a lane should end earlier than its own lane."""
    best, best_position, first = NOTHING, 0, NOTHING
    device = board.device_of[thief]
    for victim in range(len(board.device_of)):
        end_s = _busy_s(board, victim)
        for position in range(min(board.queued[victim], _LOOK_AT)):
            task = board.queue[victim, position]
            if first != NOTHING and board.level[task] > board.level[first]:
                break
            end_s += _seconds(board, task, board.device_of[victim])
            if board.seconds[task, device] == np.inf:
                continue
            # The thief has less than enough, but may have something.
            if _busy_s(board, thief) + _seconds(board, task, device) < end_s:
                best, best_position, first = victim, position, task
                break
    return best, best_position


@lean
def turn_central(board: Board, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do what `turn` does, by one policy; for compiled callers."""
    complete(board, counts, start_ns, end_ns, now_s)
    board.scalars[NOW] = now_s
    while _from_central_queue(board):
        pass
    return int(board.counters[STARTED])


@lean
def turn_locality(board: Board, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do what `turn` does, by one policy; for compiled callers."""
    complete(board, counts, start_ns, end_ns, now_s)
    board.scalars[NOW] = now_s
    while _by_locality(board):
        pass
    return int(board.counters[STARTED])


@lean
def turn_stealing(board: Board, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do what `turn` does, by one policy; for compiled callers."""
    complete(board, counts, start_ns, end_ns, now_s)
    board.scalars[NOW] = now_s
    while _by_stealing(board):
        pass
    return int(board.counters[STARTED])


@lean
def turn_hybrid(board: Board, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do what `turn` does, by one policy; for compiled callers."""
    complete(board, counts, start_ns, end_ns, now_s)
    board.scalars[NOW] = now_s
    while _by_plan(board):
        pass
    return int(board.counters[STARTED])


#: By policy: compiled apart, as a run needs one of them.
_TURN = {CENTRAL: turn_central, LOCALITY: turn_locality, STEALING: turn_stealing, HYBRID: turn_hybrid}

#: Nothing has completed.
_NONE = np.zeros(0, np.int64)


# --- the state ------------------------------------------------------------------------------------


@lean
def _seconds(board: Board, task: int, device: int) -> float:
    factor = board.drift.of_kind[board.kind[task], device]
    if factor == 0.0:
        factor = board.drift.of_device[device]
    return float(board.seconds[task, device] * factor)


@lean
def _is_open(board: Board, lane: int) -> bool:
    """Return whether a lane can be given more."""
    count = board.given[lane] - board.done[lane]
    if count >= board.scalars[MOST]:
        return False
    return bool(count < board.scalars[FEWEST] or board.ahead_s[lane] < board.scalars[AHEAD_S])


@lean
def _busy_s(board: Board, lane: int) -> float:
    now_s = board.scalars[NOW]
    if board.until_s[lane] > now_s:
        return float(board.until_s[lane])
    if _is_open(board, lane):
        return float(now_s)
    last = board.flight[lane, board.given[lane] - 1]
    if last >= len(board.waiting):
        return float(now_s)
    return float(now_s + _OVERDUE * _seconds(board, last, board.device_of[lane]))


@lean
def _free_s(board: Board, lane: int) -> float:
    return _busy_s(board, lane) + float(board.queued_s[lane] * board.drift.of_device[board.device_of[lane]])


@lean
def _arrive(board: Board, task: int) -> None:
    """Put a task among those that can start, behind those of its level."""
    count, level = board.counters[READY], board.level[task]
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if board.level[board.ready[middle]] <= level:
            low = middle + 1
        else:
            high = middle
    for position in range(count, low, -1):
        board.ready[position] = board.ready[position - 1]
    board.ready[low] = task
    board.counters[READY] = count + 1


@lean
def _take_ready(board: Board, position: int) -> None:
    count = board.counters[READY]
    for n in range(position, count - 1):
        board.ready[n] = board.ready[n + 1]
    board.counters[READY] = count - 1


@lean
def _bind(board: Board, task: int, lane: int, by_level: bool) -> None:
    """Put a task into a lane's queue: behind those of its level, or at the end."""
    count = board.queued[lane]
    place = count
    if by_level:
        while place > 0 and board.level[board.queue[lane, place - 1]] > board.level[task]:
            board.queue[lane, place] = board.queue[lane, place - 1]
            place -= 1
    board.queue[lane, place] = task
    board.queued[lane] = count + 1
    board.queued_s[lane] += board.seconds[task, board.device_of[lane]]


@lean
def bind_anew(board: Board) -> None:
    """Bind what is bound to a lane, and was not started, as it is planned now."""
    count = 0
    for lane in range(len(board.device_of)):
        for n in range(board.queued[lane]):
            board.unbound[count] = board.queue[lane, n]
            count += 1
        board.queued[lane] = 0
        board.queued_s[lane] = 0.0
    for n in range(count):
        _bind(board, board.unbound[n], board.planned[board.unbound[n]], True)


@lean
def _take_queued(board: Board, lane: int, position: int) -> int:
    task = board.queue[lane, position]
    count = board.queued[lane]
    for n in range(position, count - 1):
        board.queue[lane, n] = board.queue[lane, n + 1]
    board.queued[lane] = count - 1
    board.queued_s[lane] -= board.seconds[task, board.device_of[lane]]
    if count == 1:
        board.queued_s[lane] = 0.0
    return int(task)


@lean
def _start(board: Board, task: int, lane: int) -> None:
    """Give a task to a lane, work out what it waits for, and let those be ready that came after it."""
    device = board.device_of[lane]
    place = board.given[lane]
    board.lane[task], board.place[task] = lane, place
    board.flight[lane, place] = task
    board.given[lane] = place + 1
    seconds = _seconds(board, task, device) if board.seconds[task, device] > 0.0 else 0.0
    board.estimate_s[task] = seconds
    board.start_s[task] = max(board.scalars[NOW], board.until_s[lane])
    board.until_s[lane] = board.start_s[task] + seconds
    board.ahead_s[lane] += seconds
    _wait(board, task, lane)
    board.started[board.counters[STARTED]] = task
    board.counters[STARTED] += 1
    if not board.is_host[lane]:
        _release(board, task)


@lean
def _wait(board: Board, task: int, lane: int) -> None:
    """Work out what a task waits for: of each other lane the last, unless that is done, or was waited for before."""
    count = 0
    for n in range(board.pred_start[task], board.pred_start[task + 1]):
        before = board.pred_task[n]
        other, place = board.lane[before], board.place[before]
        if other == lane or place < board.ordered[lane, other] or place < board.done[other]:
            continue
        k = 0
        while k < count and board.lane[board.waits[task, k]] != other:
            k += 1
        if k == count or board.place[board.waits[task, k]] < place:
            board.waits[task, k] = before
            count = max(count, k + 1)
    for k in range(count):
        before = board.waits[task, k]
        board.ordered[lane, board.lane[before]] = board.place[before] + 1
    board.waits_count[task] = count


@lean
def _release(board: Board, task: int) -> None:
    """Let those be ready for which a task was the last to wait for."""
    for n in range(board.succ_start[task], board.succ_start[task + 1]):
        after = board.succ_task[n]
        board.waiting[after] -= 1
        if board.waiting[after] == 0:
            board.released_by[after] = board.lane[task]
            _arrive(board, after)


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
    """
    tables, tasks, processors = problem.tables, len(problem), len(known.device_of)
    pairs = [(task, thing) for task, listed in enumerate(before) for thing in listed]
    after = np.concatenate((np.repeat(np.arange(tasks), np.diff(tables.pred_start)), [t for t, _ in pairs]))
    earlier = np.concatenate((tables.pred_task, [thing for _, thing in pairs])).astype(np.int64)
    by_task = np.argsort(after.astype(np.int64), kind="stable")
    pred_start = np.zeros(tasks + 1, np.int64)
    np.cumsum(np.bincount(after.astype(np.int64), minlength=tasks), out=pred_start[1:])
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
        is_host=np.array(is_host, np.bool_),
        succ_start=tables.succ_start.copy(),
        succ_task=tables.succ_task.copy(),
        pred_start=pred_start,
        pred_task=earlier[by_task],
        drift=new_drift(np.array(known.seconds, np.float64).reshape(tasks, -1), max(known.kind, default=0) + 1),
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
        waits=np.zeros((tasks, lanes), np.int64),
        waits_count=np.zeros(tasks, np.int64),
        started=np.zeros(tasks, np.int64),
        unbound=np.zeros(tasks, np.int64),
        choice=np.zeros(processors, np.int64),
        counters=np.zeros(2, np.int64),
        scalars=np.array([0.0, 0.0, bound, ahead_s, float(fewest), float(most)]),
    )
