# SPDX-License-Identifier: Apache-2.0
"""Updates of a compiled run state: tasks become ready, are bound, started and completed; and lane estimates."""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.compiled_transfers import try_submit
from syclsched.scheduling.dynamic.compiled.data_directory import HELD, HELD_ON, LAST
from syclsched.scheduling.dynamic.compiled.run_state import (
    AHEAD_S,
    DEVIATION,
    FEWEST,
    MOST,
    NOW,
    READY,
    STARTED,
    RunState,
)
from syclsched.scheduling.dynamic.drift import record_duration
from syclsched.scheduling.tables import NOTHING, Ints

#: An overdue task is expected to take this share of its estimate longer.
_OVERDUE = 0.5


@lean
def release_sources(board: RunState) -> None:
    """Make the tasks without predecessors ready."""
    for task in range(len(board.waiting)):
        if board.waiting[task] == 0:
            _make_ready(board, task)


@lean
def complete(board: RunState, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> None:
    """Record the completion of the next commands of each lane, with their start and end times."""
    for lane in range(len(counts)):
        if counts[lane]:
            for _ in range(counts[lane]):
                command = board.flight[lane, board.done[lane]]
                board.done[lane] += 1
                if command < len(board.waiting):
                    _end(board, command, lane, (end_ns[command] - start_ns[command]) * 1e-9)
            if board.done[lane] == board.given[lane] and not board.places.lanes[lane, HELD_ON]:
                board.ahead_s[lane] = 0.0
            board.until_s[lane] = now_s + board.ahead_s[lane] if board.ahead_s[lane] > 0.0 else 0.0


@lean
def _end(board: RunState, task: int, lane: int, measured_s: float) -> None:
    device = board.device_of[lane]
    board.ahead_s[lane] -= board.estimate_s[task]
    if board.is_host[lane]:
        _release(board, task)
    if measured_s >= 0.0:
        board.scalars[DEVIATION] = record_duration(
            board.drift, board.kind[task], device, measured_s, board.seconds[task, device]
        )


@lean
def seconds(board: RunState, task: int, device: int) -> float:
    """Return the estimated seconds of a task on a device, corrected by measurements."""
    factor = board.drift.of_kind[board.kind[task], device]
    if factor == 0.0:
        factor = board.drift.of_device[device]
    return float(board.seconds[task, device] * factor)


@lean
def is_open(board: RunState, lane: int) -> bool:
    """Return whether a lane can take more tasks."""
    count = board.given[lane] - board.done[lane] + board.places.lanes[lane, HELD_ON]
    if count >= board.scalars[MOST]:
        return False
    return bool(count < board.scalars[FEWEST] or board.ahead_s[lane] < board.scalars[AHEAD_S])


@lean
def busy_s(board: RunState, lane: int) -> float:
    """Return when a lane should have finished its submitted tasks."""
    now_s = board.scalars[NOW]
    if board.until_s[lane] > now_s:
        return float(board.until_s[lane])
    if is_open(board, lane):
        return float(now_s)
    last = board.places.lanes[lane, LAST]
    if last == NOTHING:
        return float(now_s)
    return float(now_s + _OVERDUE * seconds(board, last, board.device_of[lane]))


@lean
def free_s(board: RunState, lane: int) -> float:
    """Return when a lane should have finished its submitted and queued tasks."""
    return busy_s(board, lane) + float(board.queued_s[lane] * board.drift.of_device[board.device_of[lane]])


@lean
def _make_ready(board: RunState, task: int) -> None:
    """Insert a task into the ready tasks, after those of its level."""
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
def take_ready(board: RunState, position: int) -> None:
    """Remove a task from the ready tasks."""
    count = board.counters[READY]
    for n in range(position, count - 1):
        board.ready[n] = board.ready[n + 1]
    board.counters[READY] = count - 1


@lean
def bind(board: RunState, task: int, lane: int, by_level: bool) -> None:
    """Insert a task into a lane's queue: after those of its level, or at the end."""
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
def rebind_queued(board: RunState) -> None:
    """Bind queued tasks again, to their newly planned lanes."""
    count = 0
    for lane in range(len(board.device_of)):
        for n in range(board.queued[lane]):
            board.unbound[count] = board.queue[lane, n]
            count += 1
        board.queued[lane] = 0
        board.queued_s[lane] = 0.0
    for n in range(count):
        bind(board, board.unbound[n], board.planned[board.unbound[n]], True)


@lean
def take_queued(board: RunState, lane: int, position: int) -> int:
    """Remove a task from a lane's queue, and return it."""
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
def start(board: RunState, task: int, lane: int) -> None:
    """Start a task on a lane: submit it and release its successors, or hold it until it can be submitted."""
    places, device = board.places, board.device_of[lane]
    estimate_s = seconds(board, task, device) if board.seconds[task, device] > 0.0 else 0.0
    board.lane[task] = lane
    board.estimate_s[task] = estimate_s
    board.start_s[task] = max(board.scalars[NOW], board.until_s[lane])
    board.until_s[lane] = board.start_s[task] + estimate_s
    board.ahead_s[lane] += estimate_s
    places.lanes[lane, LAST] = task
    if try_submit(board, task, lane):
        _submitted(board, task, lane)
    else:
        places.held[places.counters[HELD]] = task
        places.counters[HELD] += 1
        places.lanes[lane, HELD_ON] += 1


@lean
def retry_held(board: RunState) -> None:
    """Try again to submit the held tasks, in order."""
    places = board.places
    count, kept = places.counters[HELD], 0
    for n in range(count):
        task = places.held[n]
        lane = board.lane[task]
        if try_submit(board, task, lane):
            places.lanes[lane, HELD_ON] -= 1
            _submitted(board, task, lane)
        else:
            places.held[kept] = task
            kept += 1
    places.counters[HELD] = kept


@lean
def _submitted(board: RunState, task: int, lane: int) -> None:
    board.counters[STARTED] += 1
    if not board.is_host[lane]:
        _release(board, task)


@lean
def _release(board: RunState, task: int) -> None:
    """Make the tasks ready whose last predecessor was this task."""
    for n in range(board.succ_start[task], board.succ_start[task + 1]):
        successor = board.succ_task[n]
        board.waiting[successor] -= 1
        if board.waiting[successor] == 0:
            board.released_by[successor] = board.lane[task]
            _make_ready(board, successor)
