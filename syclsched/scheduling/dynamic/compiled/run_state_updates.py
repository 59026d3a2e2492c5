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
def release_sources(state: RunState) -> None:
    """Make the tasks without predecessors ready."""
    for task in range(len(state.waiting)):
        if state.waiting[task] == 0:
            _make_ready(state, task)


@lean
def complete(state: RunState, counts: Ints, start_ns: Ints, end_ns: Ints, now_s: float) -> None:
    """Record the completion of the next commands of each lane, with their start and end times."""
    for lane in range(len(counts)):
        if counts[lane]:
            for _ in range(counts[lane]):
                command = state.flight[lane, state.done[lane]]
                state.done[lane] += 1
                if command < len(state.waiting):
                    _end(state, command, lane, (end_ns[command] - start_ns[command]) * 1e-9)
            if state.done[lane] == state.submitted[lane] and not state.places.lanes[lane, HELD_ON]:
                state.ahead_s[lane] = 0.0
            state.until_s[lane] = now_s + state.ahead_s[lane] if state.ahead_s[lane] > 0.0 else 0.0


@lean
def _end(state: RunState, task: int, lane: int, measured_s: float) -> None:
    device = state.known.device_of[lane]
    state.ahead_s[lane] -= state.estimate_s[task]
    if state.is_host[lane]:
        _release(state, task)
    if measured_s >= 0.0:
        state.scalars[DEVIATION] = record_duration(
            state.drift, state.known.kind[task], device, measured_s, state.known.seconds[task, device]
        )


@lean
def _make_ready(state: RunState, task: int) -> None:
    """Insert a task into the ready tasks, after those of its level."""
    count, level = state.counters[READY], state.known.level[task]
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if state.known.level[state.ready[middle]] <= level:
            low = middle + 1
        else:
            high = middle
    for position in range(count, low, -1):
        state.ready[position] = state.ready[position - 1]
    state.ready[low] = task
    state.counters[READY] = count + 1


@lean
def carry_out(state: RunState) -> None:
    """Carry out the decisions of a policy, in order."""
    for n in range(state.counters[DECIDED]):
        task, lane = state.decided[n, TASK], state.decided[n, LANE]
        _take(state, task)
        if state.decided[n, STARTS]:
            _start(state, task, lane)
        else:
            _bind(state, task, lane)


@lean
def _take(state: RunState, task: int) -> None:
    """Remove a task from the ready tasks or from a lane's queue."""
    lane, position = state.bound[task], 0
    if lane == NOTHING:
        while state.ready[position] != task:
            position += 1
        state.counters[READY] -= 1
        for n in range(position, state.counters[READY]):
            state.ready[n] = state.ready[n + 1]
        return
    state.bound[task] = NOTHING
    while state.queue[lane, position] != task:
        position += 1
    state.queued[lane] -= 1
    for n in range(position, state.queued[lane]):
        state.queue[lane, n] = state.queue[lane, n + 1]
    state.queued_s[lane] -= state.known.seconds[task, state.known.device_of[lane]]
    if state.queued[lane] == 0:
        state.queued_s[lane] = 0.0


@lean
def _bind(state: RunState, task: int, lane: int) -> None:
    """Insert a task into a lane's queue: after those of its level, or at the end."""
    count = state.queued[lane]
    place = count
    if state.counters[SORTS_QUEUES]:
        while place > 0 and state.known.level[state.queue[lane, place - 1]] > state.known.level[task]:
            state.queue[lane, place] = state.queue[lane, place - 1]
            place -= 1
    state.queue[lane, place] = task
    state.queued[lane] = count + 1
    state.queued_s[lane] += state.known.seconds[task, state.known.device_of[lane]]
    state.bound[task] = lane


@lean
def rebind_queued(state: RunState) -> None:
    """Bind queued tasks again, to their newly planned lanes."""
    count = 0
    for lane in range(len(state.known.device_of)):
        for n in range(state.queued[lane]):
            state.unbound[count] = state.queue[lane, n]
            count += 1
        state.queued[lane] = 0
        state.queued_s[lane] = 0.0
    for n in range(count):
        _bind(state, state.unbound[n], state.known.planned[state.unbound[n]])


@lean
def _start(state: RunState, task: int, lane: int) -> None:
    """Start a task on a lane: submit it and release its successors, or hold it until it can be submitted."""
    places, device = state.places, state.known.device_of[lane]
    estimate_s = seconds(state, task, device) if state.known.seconds[task, device] > 0.0 else 0.0
    state.lane[task] = lane
    state.estimate_s[task] = estimate_s
    state.start_s[task] = max(state.scalars[NOW], state.until_s[lane])
    state.until_s[lane] = state.start_s[task] + estimate_s
    state.ahead_s[lane] += estimate_s
    places.lanes[lane, LAST] = task
    if try_submit(state, task, lane):
        _submitted(state, task, lane)
    else:
        places.held[places.counters[HELD]] = task
        places.counters[HELD] += 1
        places.lanes[lane, HELD_ON] += 1


@lean
def retry_held(state: RunState) -> None:
    """Try again to submit the held tasks, in order."""
    places = state.places
    count, kept = places.counters[HELD], 0
    for n in range(count):
        task = places.held[n]
        lane = state.lane[task]
        if try_submit(state, task, lane):
            places.lanes[lane, HELD_ON] -= 1
            _submitted(state, task, lane)
        else:
            places.held[kept] = task
            kept += 1
    places.counters[HELD] = kept


@lean
def _submitted(state: RunState, task: int, lane: int) -> None:
    state.counters[STARTED] += 1
    if not state.is_host[lane]:
        _release(state, task)


@lean
def _release(state: RunState, task: int) -> None:
    """Make the tasks ready whose last predecessor was this task."""
    for n in range(state.succ_start[task], state.succ_start[task + 1]):
        successor = state.succ_task[n]
        state.waiting[successor] -= 1
        if state.waiting[successor] == 0:
            state.released_by[successor] = state.lane[task]
            _make_ready(state, successor)
