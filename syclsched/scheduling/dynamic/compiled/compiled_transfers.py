# SPDX-License-Identifier: Apache-2.0
"""Data transfers in compiled code: copies, dependencies, and whether a task can be submitted yet.

As in the engine's data manager, a task's data is copied to the lane's space when the task is given to the lane. A task
or copy that depends on commands for which its lane cannot wait (of another context, or host functions) is held until
these have completed.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.data_directory import (
    ARRAY,
    BEFORE,
    CONTEXT,
    COPIES,
    COPY_BEFORE,
    COPY_FOR,
    COPY_FROM,
    COPY_PIECE,
    COPY_TO,
    DIRECT_S,
    FIRST_COPY,
    HOST_SPACE,
    NBYTES,
    ORIGIN,
    PIECE,
    READERS,
    READS,
    SPACE,
    VALID,
    WRITER_LANE,
    WRITER_PLACE,
    WRITES,
    DataDirectory,
)  # fmt: skip
from syclsched.scheduling.dynamic.compiled.operations import copy_s
from syclsched.scheduling.dynamic.compiled.run_state import N_COMMANDS, NOW, RunState
from syclsched.scheduling.tables import NOTHING, Ints

# Without slices: these take long to compile.


@lean
def try_submit(state: RunState, task: int, lane: int) -> bool:
    """Submit a task to a lane, with the copies that it needs; return False if some command must complete first."""
    places = state.places
    _clear_column(places.lanes, BEFORE)
    for n in range(state.pred_start[task], state.pred_start[task + 1]):
        command = state.pred_task[n]
        _depend_on(places.lanes, BEFORE, state.lane[command], state.place[command])
    first, end = places.touch_start[task], places.touch_start[task + 1]
    if first < end:
        _choose_spaces(places, first, end, state.known.device_of[lane])
        resident = True
        for n in range(first, end):
            piece, space = places.touches[n, PIECE], places.touches[n, SPACE]
            if places.touches[n, READS] and not places.directory[piece, space, VALID]:
                resident &= _fetch(state, task, piece, space, lane)
        if not resident:
            return False
        for n in range(first, end):
            piece, space = places.touches[n, PIECE], places.touches[n, SPACE]
            _depend_on_users(places, BEFORE, piece, space, places.touches[n, WRITES])
    if _needs_completion(places.lanes, state.done, BEFORE, lane):
        return False
    _record_submission(state, task, lane, BEFORE)
    when_s = state.start_s[task] + state.estimate_s[task]
    for n in range(first, end):
        piece, space = places.touches[n, PIECE], places.touches[n, SPACE]
        if places.touches[n, WRITES]:
            for other in range(places.links.shape[0]):
                places.directory[piece, other, VALID] = 0
            _record_write(places, piece, space, lane, state.place[task], when_s)
            places.pieces[piece, ORIGIN] = space
        else:
            places.directory[piece, space, READERS + lane] = state.place[task]
    return True


@lean
def _record_submission(state: RunState, command: int, lane: int, column: int) -> None:
    """Record the submission of a command to a lane, and the commands on other lanes that it waits for.

    For each other lane this is the last predecessor, unless it has completed or this lane has waited for it already.
    """
    place, count = state.submitted[lane], 0
    state.lane[command], state.place[command] = lane, place
    state.flight[lane, place] = command
    state.submitted[lane] = place + 1
    lanes = len(state.submitted)
    for other in range(lanes):
        latest = state.places.lanes[other, column]
        state.waits[command, lanes + other] = latest
        if other == lane or latest < state.ordered[lane, other] or latest < state.done[other]:
            continue
        state.waits[command, count] = state.flight[other, latest]
        state.ordered[lane, other] = latest + 1
        count += 1
    state.waits_count[command] = count
    state.started[state.counters[N_COMMANDS]] = command
    state.counters[N_COMMANDS] += 1


@lean
def _fetch(state: RunState, task: int, piece: int, space: int, lane: int) -> bool:
    """Submit a copy of a piece to a space; return False if some command must complete first, or a second hop is due."""
    places = state.places
    source, target, best_s = NOTHING, space, np.inf
    for other in range(places.links.shape[0]):
        if places.directory[piece, other, VALID] and places.links[other, space, DIRECT_S] < best_s:
            source, best_s = other, places.links[other, space, DIRECT_S]
    if source == NOTHING:  # staged in host memory
        target, source = places.counters[HOST_SPACE], places.pieces[piece, ORIGIN]
    on = places.copy_lane[source, target, lane]
    _clear_column(places.lanes, COPY_BEFORE)
    _depend_on_users(places, COPY_BEFORE, piece, source, 0)
    _depend_on_users(places, COPY_BEFORE, piece, target, 1)
    number = places.counters[COPIES]
    if number == len(places.copies) or _needs_completion(places.lanes, state.done, COPY_BEFORE, on):
        return False
    command = places.counters[FIRST_COPY] + number
    places.counters[COPIES] = number + 1
    _record_submission(state, command, on, COPY_BEFORE)
    places.copies[number, COPY_PIECE], places.copies[number, COPY_FOR] = piece, task
    places.copies[number, COPY_FROM], places.copies[number, COPY_TO] = source, target
    places.copy_s[number, 0] = max(state.scalars[NOW], places.available_s[piece, source])
    places.copy_s[number, 1] = places.copy_s[number, 0] + copy_s(places, piece, source, target)
    places.directory[piece, source, READERS + on] = state.place[command]
    _record_write(places, piece, target, on, state.place[command], places.copy_s[number, 1])
    return bool(target == space)


@lean
def _choose_spaces(places: DataDirectory, first: int, end: int, device: int) -> None:
    """Choose a space for each array: the one with the fewest bytes to copy, the home on ties."""
    home = places.reaches[device, places.links.shape[0]]
    for n in range(first, end):
        array = places.pieces[places.touches[n, PIECE], ARRAY]
        best, least = home, np.inf
        for k in range(places.links.shape[0]):
            space = (home + k) % places.links.shape[0]
            if least > 0.0 and places.reaches[device, space]:
                missing = 0.0
                for m in range(first, end):
                    piece = places.touches[m, PIECE]
                    mine = places.touches[m, READS] and places.pieces[piece, ARRAY] == array
                    if mine and not places.directory[piece, space, VALID]:
                        missing += max(places.pieces[piece, NBYTES], 1)
                if missing < least:
                    best, least = space, missing
        places.touches[n, SPACE] = best


@lean
def _record_write(places: DataDirectory, piece: int, space: int, lane: int, place: int, when_s: float) -> None:
    places.directory[piece, space, VALID] = 1
    places.directory[piece, space, WRITER_LANE], places.directory[piece, space, WRITER_PLACE] = lane, place
    for reader in range(len(places.lanes)):
        places.directory[piece, space, READERS + reader] = NOTHING
    places.available_s[piece, space] = when_s


@lean
def _clear_column(lanes: Ints, column: int) -> None:
    for lane in range(len(lanes)):
        lanes[lane, column] = NOTHING


@lean
def _depend_on(lanes: Ints, column: int, lane: int, place: int) -> None:
    if lane != NOTHING:
        lanes[lane, column] = max(lanes[lane, column], place)


@lean
def _depend_on_users(places: DataDirectory, column: int, piece: int, space: int, writes: int) -> None:
    """Add the predecessors of a read, or of a write, of a piece in a space."""
    lanes, directory = places.lanes, places.directory
    _depend_on(lanes, column, directory[piece, space, WRITER_LANE], directory[piece, space, WRITER_PLACE])
    for lane in range(len(lanes) if writes else 0):
        lanes[lane, column] = max(lanes[lane, column], directory[piece, space, READERS + lane])


@lean
def _needs_completion(lanes: Ints, done: Ints, column: int, lane: int) -> bool:
    """Return whether a predecessor must have completed because the lane cannot wait for it by itself."""
    context, needed = lanes[lane, CONTEXT], False
    for other in range(len(lanes)):
        if lanes[other, column] >= done[other] and (other != lane or context == NOTHING):
            other_context = lanes[other, CONTEXT]
            needed |= other_context == NOTHING or (context != NOTHING and other_context != context)
    return bool(needed)
