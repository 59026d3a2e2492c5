# SPDX-License-Identifier: Apache-2.0
"""Operations by which rules of dynamic policies read a run's state and add decisions, each in two forms.

Estimates follow `PolicyState`, whose methods are their Python forms. On a `RunState` no device has failed, and data can
be copied to every device.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.data_directory import (
    HELD_ON,
    LAST,
    LATENCY_S,
    NBYTES,
    ORIGIN,
    PIECE,
    READS,
    S_PER_BYTE,
    VALID,
    DataDirectory,
)
from syclsched.scheduling.dynamic.compiled.run_state import (
    AHEAD_S,
    DECIDED,
    DEVIATION,
    FEWEST,
    LANE,
    MOST,
    NOW,
    READY,
    STARTS,
    TASK,
    RunState,
)
from syclsched.scheduling.dynamic.policy_state import OVERDUE, Decision, PolicyState
from syclsched.scheduling.dynamic.rule_policy import operation
from syclsched.scheduling.tables import NOTHING

# --- ready tasks, lanes and their queues ----------------------------------------------------------


@operation(lambda state: len(state.ready))
def ready_count(state: RunState) -> int:
    """Return the number of ready tasks; ``state.ready`` has them by level."""
    return int(state.counters[READY])


@operation(lambda state, device: state.ready_on[device] > 0)
def is_any_ready(state: RunState, device: int) -> bool:
    """Return whether a device may be able to run a ready task."""
    return bool(state.counters[READY] > 0)


@operation(lambda state, lane: state.lanes[lane].running == NOTHING)
def is_open(state: RunState, lane: int) -> bool:
    """Return whether a lane can take more tasks."""
    count = state.submitted[lane] - state.done[lane] + state.places.lanes[lane, HELD_ON]
    if count >= state.scalars[MOST]:
        return False
    return bool(count < state.scalars[FEWEST] or state.ahead_s[lane] < state.scalars[AHEAD_S])


@operation(lambda state, lane: len(state.lanes[lane].queue))
def queue_length(state: RunState, lane: int) -> int:
    """Return the number of tasks in a lane's queue."""
    return int(state.queued[lane])


@operation(lambda state, lane, position: state.lanes[lane].queue[position])
def queued_task(state: RunState, lane: int, position: int) -> int:
    """Return a task in a lane's queue."""
    return int(state.queue[lane, position])


@operation(lambda state, lane: state.lanes[lane].ahead[0])
def next_planned(state: RunState, lane: int) -> int:
    """Return the first task planned for a lane that has not started; there must be one."""
    while state.lane[state.order[state.order_at[lane]]] >= 0:
        state.order_at[lane] += 1
    return int(state.order[state.order_at[lane]])


# --- estimates ------------------------------------------------------------------------------------


@operation(lambda state: state.deviation)
def deviation(state: RunState) -> float:
    """Return the deviation of the finished tasks from their estimates."""
    return float(state.scalars[DEVIATION])


@operation(lambda state: bool(state.gone))
def has_failures(state: RunState) -> bool:
    """Return whether a device has failed."""
    return False


@operation(PolicyState.can_run)
def can_run(state: RunState, task: int, device: int) -> bool:
    """Return whether a device can run a ready task and its data can be copied there."""
    return bool(state.known.seconds[task, device] < np.inf)


@operation(PolicyState.seconds)
def seconds(state: RunState, task: int, device: int) -> float:
    """Return the estimated seconds of a task on a device, corrected by measurements; infinity where it cannot run."""
    factor = state.drift.of_kind[state.known.kind[task], device]
    if factor == 0.0:
        factor = state.drift.of_device[device]
    return float(state.known.seconds[task, device] * factor)


@operation(PolicyState.busy_s)
def busy_s(state: RunState, lane: int) -> float:
    """Return when a lane should have finished its submitted tasks; now for an idle one."""
    now_s = state.scalars[NOW]
    if state.until_s[lane] > now_s:
        return float(state.until_s[lane])
    last = state.places.lanes[lane, LAST]
    if is_open(state, lane) or last == NOTHING:
        return float(now_s)
    return float(now_s + OVERDUE * seconds(state, last, state.known.device_of[lane]))


@operation(PolicyState.free_s)
def free_s(state: RunState, lane: int) -> float:
    """Return when a lane should have finished its submitted and queued tasks."""
    return busy_s(state, lane) + float(state.queued_s[lane] * state.drift.of_device[state.known.device_of[lane]])


@lean
def copy_s(places: DataDirectory, piece: int, source: int, destination: int) -> float:
    """Return the seconds of a copy of a piece."""
    nbytes = places.pieces[piece, NBYTES]
    if source == destination or nbytes == 0.0:
        return 0.0
    return float(places.links[source, destination, LATENCY_S] + nbytes * places.links[source, destination, S_PER_BYTE])


@lean
def _fastest_copy_s(places: DataDirectory, piece: int, device: int) -> float:
    """Return the seconds of the fastest copy of a piece from its origin to a space that a device reaches."""
    best_s = np.inf
    for space in range(places.links.shape[0]):
        if places.reaches[device, space]:
            best_s = min(best_s, copy_s(places, piece, places.pieces[piece, ORIGIN], space))
    return float(best_s)


@operation(PolicyState.transfer_s)
def transfer_s(state: RunState, task: int, device: int) -> float:
    """Return the seconds of the copies that a ready task still needs on a device; infinity without a route."""
    places, total_s = state.places, 0.0
    for n in range(places.touch_start[task], places.touch_start[task + 1]):
        piece, is_valid = places.touches[n, PIECE], False
        for space in range(places.links.shape[0]):
            is_valid |= places.reaches[device, space] and places.directory[piece, space, VALID]
        if places.touches[n, READS] and not is_valid:
            total_s += _fastest_copy_s(places, piece, device)
    return float(total_s)


@operation(PolicyState.arrival_s)
def arrival_s(state: RunState, task: int, device: int) -> float:
    """Return when all data of a ready task should be on a device, if missing data is fetched now."""
    places, now_s = state.places, state.scalars[NOW]
    last_s = now_s
    for n in range(places.touch_start[task], places.touch_start[task + 1]):
        if not places.touches[n, READS]:
            continue
        piece = places.touches[n, PIECE]
        first_s = np.inf
        for space in range(places.links.shape[0]):
            if places.reaches[device, space] and places.directory[piece, space, VALID]:
                first_s = min(first_s, places.available_s[piece, space])
        if first_s == np.inf:
            made_s = max(now_s, places.available_s[piece, places.pieces[piece, ORIGIN]])
            first_s = made_s + _fastest_copy_s(places, piece, device)
        last_s = max(last_s, first_s)
    return float(last_s)


@operation(PolicyState.resident_bytes)
def resident_bytes(state: RunState, task: int, device: int) -> float:
    """Return the bytes of a ready task's inputs that a device can read now."""
    places, total = state.places, 0.0
    for n in range(places.touch_start[task], places.touch_start[task + 1]):
        piece, resident = places.touches[n, PIECE], False
        for space in range(places.links.shape[0]):
            resident |= (
                places.reaches[device, space]
                and places.directory[piece, space, VALID]
                and places.available_s[piece, space] <= state.scalars[NOW]
            )
        if resident and places.touches[n, READS]:
            total += places.pieces[piece, NBYTES]
    return float(total)


@operation(PolicyState.shares_memory)
def shares_memory(state: RunState, device: int, other: int) -> bool:
    """Return whether a device can address the home space of another."""
    places = state.places
    return bool(places.reaches[device, places.reaches[other, places.links.shape[0]]])


# --- decisions ------------------------------------------------------------------------------------


@operation(lambda state, task: task in [decision[0] for decision in state.decisions])
def is_decided(state: RunState, task: int) -> bool:
    """Return whether a decision about a task has been added."""
    found = False
    for n in range(state.counters[DECIDED]):
        found |= state.decided[n, TASK] == task
    return found


@operation(lambda state, task, lane: state.decisions.append(Decision(task, lane, True)))
def start(state: RunState, task: int, lane: int) -> None:
    """Add the decision to start a task on a lane, which must be open."""
    _decide(state, task, lane, 1)


@operation(lambda state, task, lane: state.decisions.append(Decision(task, lane, False)))
def bind(state: RunState, task: int, lane: int) -> None:
    """Add the decision to put a task into a lane's queue."""
    _decide(state, task, lane, 0)


@lean
def _decide(state: RunState, task: int, lane: int, starts: int) -> None:
    count = state.counters[DECIDED]
    state.decided[count, TASK], state.decided[count, LANE], state.decided[count, STARTS] = task, lane, starts
    state.counters[DECIDED] = count + 1
