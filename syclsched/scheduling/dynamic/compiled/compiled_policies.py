# SPDX-License-Identifier: Apache-2.0
"""Compiled dynamic policies on a `RunState`: many decisions in one call."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.compiled_transfers import (
    arrival_s,
    resident_bytes,
    shares_memory,
    transfer_s,
)
from syclsched.scheduling.dynamic.compiled.run_state import BOUND, DEVIATION, NOW, READY, STARTED, RunState
from syclsched.scheduling.dynamic.compiled.run_state_updates import (
    bind,
    busy_s,
    complete,
    free_s,
    is_open,
    retry_held,
    seconds,
    start,
    take_queued,
    take_ready,
)
from syclsched.scheduling.tables import NOTHING, Ints

#: Numbers of the policies.
CENTRAL, LOCALITY, STEALING, HYBRID = range(4)

#: Number of tasks of another lane's queue that an idle lane examines.
_STEAL_WINDOW = 16


def advance(board: RunState, policy: int, now_s: float) -> int:
    """Start the tasks that the policy wants started now; return the number of tasks started in the run."""
    return turn(board, policy, _NO_COMPLETIONS, _NO_COMPLETIONS, _NO_COMPLETIONS, now_s)


def turn(board: RunState, policy: int, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do `complete` and then `advance` in one call."""
    return _TURN[policy](board, counts, start_ns, end_ns, now_s)


@lean
def _from_central_queue(board: RunState) -> bool:
    # All lanes choose before any starts: tasks that become ready by a start are for the next round.
    choice, progress = board.choice, False
    for lane in range(len(board.device_of)):
        choice[lane] = NOTHING
        if not is_open(board, lane):
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
            take_ready(board, position)
            start(board, choice[lane], lane)
            progress = True
    return progress


@lean
def _is_chosen(board: RunState, task: int, lanes: int) -> bool:
    """Return whether one of the first ``lanes`` lanes has chosen a task."""
    found = False
    for lane in range(lanes):
        found |= board.choice[lane] == task
    return found


@lean
def _by_locality(board: RunState) -> bool:
    position = 0
    while position < board.counters[READY]:
        task = board.ready[position]
        best, best_s = NOTHING, np.inf
        for lane in range(len(board.device_of)):
            device = board.device_of[lane]
            if board.seconds[task, device] < np.inf:
                end_s = free_s(board, lane) + seconds(board, task, device) + transfer_s(board.places, task, device)
                if end_s < best_s:
                    best, best_s = lane, end_s
        if best == NOTHING:
            position += 1
            continue
        take_ready(board, position)
        bind(board, task, best, True)
    return _start_first(board)


@lean
def _start_first(board: RunState) -> bool:
    progress = False
    for lane in range(len(board.device_of)):
        if is_open(board, lane) and board.queued[lane]:
            task = take_queued(board, lane, _most_resident(board, lane))
            start(board, task, lane)
            progress = True
    return progress


@lean
def _most_resident(board: RunState, lane: int) -> int:
    """Return the position in a lane's queue of the most urgent task with the most resident data."""
    device, now_s = board.device_of[lane], board.scalars[NOW]
    best, most = 0, -1.0
    for position in range(board.queued[lane]):
        task = board.queue[lane, position]
        if board.level[task] != board.level[board.queue[lane, 0]]:
            break
        resident = resident_bytes(board.places, task, device, now_s)
        if resident > most:
            best, most = position, resident
    return best


@lean
def _by_stealing(board: RunState) -> bool:
    position = 0
    while position < board.counters[READY]:
        task = board.ready[position]
        home = board.released_by[task]
        if home == NOTHING or board.seconds[task, board.device_of[home]] == np.inf:
            home, least = NOTHING, 0
            for lane in range(len(board.device_of)):
                length = board.queued[lane] + (0 if is_open(board, lane) else 1)
                if board.seconds[task, board.device_of[lane]] < np.inf and (home == NOTHING or length < least):
                    home, least = lane, length
        if home == NOTHING:
            position += 1
            continue
        take_ready(board, position)
        bind(board, task, home, False)
    choice, progress = board.choice, False
    for lane in range(len(board.device_of)):
        choice[lane] = NOTHING
        if is_open(board, lane):
            position = board.queued[lane] - 1
            while position >= 0 and _is_chosen(board, board.queue[lane, position], lane):
                position -= 1
            choice[lane] = board.queue[lane, position] if position >= 0 else _steal_from(board, lane)
    for lane in range(len(board.device_of)):
        if choice[lane] != NOTHING:
            _remove_queued(board, choice[lane])
            start(board, choice[lane], lane)
            progress = True
    return progress


@lean
def _remove_queued(board: RunState, task: int) -> None:
    """Remove a task from the queue that holds it."""
    for lane in range(len(board.device_of)):
        for position in range(board.queued[lane]):
            if board.queue[lane, position] == task:
                take_queued(board, lane, position)
                return


@lean
def _steal_from(board: RunState, thief: int) -> int:
    """Return a task that a lane can steal from the longest queue, not chosen yet; -1 for none."""
    device = board.device_of[thief]
    best, stolen = NOTHING, NOTHING
    for lane in range(len(board.device_of)):
        if lane == thief or (best != NOTHING and not _is_better(board, lane, best, device)):
            continue
        for position in range(board.queued[lane]):
            task = board.queue[lane, position]
            if board.seconds[task, device] < np.inf and not _is_chosen(board, task, thief):
                best, stolen = lane, task
                break
    return int(stolen)


@lean
def _is_better(board: RunState, lane: int, other: int, device: int) -> bool:
    if board.queued[lane] != board.queued[other]:
        return bool(board.queued[lane] > board.queued[other])
    mine, others = board.device_of[lane], board.device_of[other]
    if (mine == device) != (others == device):
        return bool(mine == device)
    return shares_memory(board.places, device, mine) and not shares_memory(board.places, device, others)


@lean
def _by_plan(board: RunState) -> bool:
    for position in range(board.counters[READY]):
        task = board.ready[position]
        bind(board, task, board.planned[task], True)
    board.counters[READY] = 0
    left = board.scalars[DEVIATION] > board.scalars[BOUND]
    progress = False
    for lane in range(len(board.device_of)):
        if not is_open(board, lane) or not board.queued[lane]:
            continue
        while board.order_at[lane] < board.order_end[lane] and board.lane[board.order[board.order_at[lane]]] >= 0:
            board.order_at[lane] += 1
        if left or board.queue[lane, 0] == board.order[board.order_at[lane]]:
            task = take_queued(board, lane, 0)
            start(board, task, lane)
            progress = True
    if progress or not left:
        return progress
    for thief in range(len(board.device_of)):
        if is_open(board, thief):
            victim, position = _find_steal(board, thief)
            if victim != NOTHING:
                task = take_queued(board, victim, position)
                start(board, task, thief)
                return True
    return False


@lean
def _find_steal(board: RunState, thief: int) -> tuple[int, int]:
    """Return lane and position of the first planned task that another lane should finish before its own lane."""
    best, best_position, first = NOTHING, 0, NOTHING
    device = board.device_of[thief]
    for victim in range(len(board.device_of)):
        end_s = busy_s(board, victim)
        for position in range(min(board.queued[victim], _STEAL_WINDOW)):
            task = board.queue[victim, position]
            if first != NOTHING and board.level[task] > board.level[first]:
                break
            end_s += seconds(board, task, board.device_of[victim])
            if board.seconds[task, device] == np.inf:
                continue
            # The thief has room in its lookahead, but may have commands in flight.
            begin_s = max(busy_s(board, thief), arrival_s(board.places, task, device, board.scalars[NOW]))
            if begin_s + seconds(board, task, device) < end_s:
                best, best_position, first = victim, position, task
                break
    return best, best_position


@lean
def turn_central(board: RunState, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do `turn` for the central queue; for compiled callers."""
    complete(board, counts, start_ns, end_ns, now_s)
    board.scalars[NOW] = now_s
    retry_held(board)
    while _from_central_queue(board):
        pass
    return int(board.counters[STARTED])


@lean
def turn_locality(board: RunState, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do `turn` for locality; for compiled callers."""
    complete(board, counts, start_ns, end_ns, now_s)
    board.scalars[NOW] = now_s
    retry_held(board)
    while _by_locality(board):
        pass
    return int(board.counters[STARTED])


@lean
def turn_stealing(board: RunState, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do `turn` for work stealing; for compiled callers."""
    complete(board, counts, start_ns, end_ns, now_s)
    board.scalars[NOW] = now_s
    retry_held(board)
    while _by_stealing(board):
        pass
    return int(board.counters[STARTED])


@lean
def turn_hybrid(board: RunState, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> int:
    """Do `turn` for the hybrid policy; for compiled callers."""
    complete(board, counts, start_ns, end_ns, now_s)
    board.scalars[NOW] = now_s
    retry_held(board)
    while _by_plan(board):
        pass
    return int(board.counters[STARTED])


#: By policy. Compiled separately, as a run needs only one.
_TURN = {CENTRAL: turn_central, LOCALITY: turn_locality, STEALING: turn_stealing, HYBRID: turn_hybrid}

#: No completions.
_NO_COMPLETIONS = np.zeros(0, np.int64)
