# SPDX-License-Identifier: Apache-2.0
"""Updates of a compiled run state: tasks become ready, are bound, started and completed."""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.compiled_transfers import try_submit
from syclsched.scheduling.dynamic.compiled.data_directory import HELD, HELD_ON, LAST
from syclsched.scheduling.dynamic.compiled.operations import seconds
from syclsched.scheduling.dynamic.compiled.run_state import (
    DECIDED,
    DEVIATION,
    LANE,
    NOW,
    READY,
    SORTS_QUEUES,
    STARTED,
    STARTS,
    TASK,
    RunState,
)
from syclsched.scheduling.dynamic.drift import record_duration
from syclsched.scheduling.tables import NOTHING, Ints


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
    device = board.known.device_of[lane]
    board.ahead_s[lane] -= board.estimate_s[task]
    if board.is_host[lane]:
        _release(board, task)
    if measured_s >= 0.0:
        board.scalars[DEVIATION] = record_duration(
            board.drift, board.known.kind[task], device, measured_s, board.known.seconds[task, device]
        )


@lean
def _make_ready(board: RunState, task: int) -> None:
    """Insert a task into the ready tasks, after those of its level."""
    count, level = board.counters[READY], board.known.level[task]
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if board.known.level[board.ready[middle]] <= level:
            low = middle + 1
        else:
            high = middle
    for position in range(count, low, -1):
        board.ready[position] = board.ready[position - 1]
    board.ready[low] = task
    board.counters[READY] = count + 1


@lean
def carry_out(board: RunState) -> None:
    """Carry out the decisions of a policy, in order."""
    for n in range(board.counters[DECIDED]):
        task, lane = board.decided[n, TASK], board.decided[n, LANE]
        _take(board, task)
        if board.decided[n, STARTS]:
            _start(board, task, lane)
        else:
            _bind(board, task, lane)


@lean
def _take(board: RunState, task: int) -> None:
    """Remove a task from the ready tasks or from a lane's queue."""
    lane, position = board.bound[task], 0
    if lane == NOTHING:
        while board.ready[position] != task:
            position += 1
        board.counters[READY] -= 1
        for n in range(position, board.counters[READY]):
            board.ready[n] = board.ready[n + 1]
        return
    board.bound[task] = NOTHING
    while board.queue[lane, position] != task:
        position += 1
    board.queued[lane] -= 1
    for n in range(position, board.queued[lane]):
        board.queue[lane, n] = board.queue[lane, n + 1]
    board.queued_s[lane] -= board.known.seconds[task, board.known.device_of[lane]]
    if board.queued[lane] == 0:
        board.queued_s[lane] = 0.0


@lean
def _bind(board: RunState, task: int, lane: int) -> None:
    """Insert a task into a lane's queue: after those of its level, or at the end."""
    count = board.queued[lane]
    place = count
    if board.counters[SORTS_QUEUES]:
        while place > 0 and board.known.level[board.queue[lane, place - 1]] > board.known.level[task]:
            board.queue[lane, place] = board.queue[lane, place - 1]
            place -= 1
    board.queue[lane, place] = task
    board.queued[lane] = count + 1
    board.queued_s[lane] += board.known.seconds[task, board.known.device_of[lane]]
    board.bound[task] = lane


@lean
def rebind_queued(board: RunState) -> None:
    """Bind queued tasks again, to their newly planned lanes."""
    count = 0
    for lane in range(len(board.known.device_of)):
        for n in range(board.queued[lane]):
            board.unbound[count] = board.queue[lane, n]
            count += 1
        board.queued[lane] = 0
        board.queued_s[lane] = 0.0
    for n in range(count):
        _bind(board, board.unbound[n], board.known.planned[board.unbound[n]])


@lean
def _start(board: RunState, task: int, lane: int) -> None:
    """Start a task on a lane: submit it and release its successors, or hold it until it can be submitted."""
    places, device = board.places, board.known.device_of[lane]
    estimate_s = seconds(board, task, device) if board.known.seconds[task, device] > 0.0 else 0.0
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
