# SPDX-License-Identifier: Apache-2.0
"""What data has to do with where a task runs: what copies take, what they wait for, and when a task can be submitted.

The rules are those of `syclsched.scheduling.dynamic.state.State` for what is believed, and for what is done those of
the engine's `Bringer`: a task's data is brought to its space when it is given to a lane, and a task or a copy that
comes after something its lane cannot wait for (work of another context, functions of the host) is held until that has
completed.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.board import NOW, THINGS, Board
from syclsched.scheduling.dynamic.places import (
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
    LATENCY_S,
    NBYTES,
    ORIGIN,
    PIECE,
    READERS,
    READS,
    S_PER_BYTE,
    SPACE,
    VALID,
    WRITER_LANE,
    WRITER_PLACE,
    WRITES,
    Places,
)  # fmt: skip
from syclsched.scheduling.tables import NOTHING, Ints

# --- what is believed -----------------------------------------------------------------------------


@lean
def copy_s(places: Places, piece: int, source: int, destination: int) -> float:
    """Return the seconds of a copy of a piece."""
    nbytes = places.pieces[piece, NBYTES]
    if source == destination or nbytes == 0.0:
        return 0.0
    return float(places.links[source, destination, LATENCY_S] + nbytes * places.links[source, destination, S_PER_BYTE])


@lean
def _shortest_s(places: Places, piece: int, device: int) -> float:
    """Return the seconds of a copy of a piece from where it was made to where it is soonest on a device."""
    best_s = np.inf
    for space in range(places.links.shape[0]):
        if places.reaches[device, space]:
            best_s = min(best_s, copy_s(places, piece, places.pieces[piece, ORIGIN], space))
    return float(best_s)


@lean
def _is_within_reach(places: Places, piece: int, device: int) -> bool:
    found = False
    for space in range(places.links.shape[0]):
        found |= places.reaches[device, space] and places.directory[piece, space, VALID]
    return bool(found)


@lean
def transfer_s(places: Places, task: int, device: int) -> float:
    """Return the seconds of the copies that a ready task still needs on a device."""
    total_s = 0.0
    for n in range(places.touch_start[task], places.touch_start[task + 1]):
        piece = places.touches[n, PIECE]
        if places.touches[n, READS] and not _is_within_reach(places, piece, device):
            total_s += _shortest_s(places, piece, device)
    return float(total_s)


@lean
def arrival_s(places: Places, task: int, device: int, now_s: float) -> float:
    """Return when all data of a ready task should be on a device, if what is missing is fetched now."""
    last_s = now_s
    for n in range(places.touch_start[task], places.touch_start[task + 1]):
        if not places.touches[n, READS]:
            continue
        piece = places.touches[n, PIECE]
        first_s = np.inf
        for space in range(places.links.shape[0]):
            if places.reaches[device, space] and places.directory[piece, space, VALID]:
                first_s = min(first_s, places.there_s[piece, space])
        if first_s == np.inf:
            made_s = max(now_s, places.there_s[piece, places.pieces[piece, ORIGIN]])
            first_s = made_s + _shortest_s(places, piece, device)
        last_s = max(last_s, first_s)
    return float(last_s)


@lean
def resident_bytes(places: Places, task: int, device: int, now_s: float) -> float:
    """Return how much of a ready task's data a device can read now."""
    total = 0.0
    for n in range(places.touch_start[task], places.touch_start[task + 1]):
        piece, there = places.touches[n, PIECE], False
        for space in range(places.links.shape[0]):
            there |= (
                places.reaches[device, space]
                and places.directory[piece, space, VALID]
                and places.there_s[piece, space] <= now_s
            )
        if there and places.touches[n, READS]:
            total += places.pieces[piece, NBYTES]
    return float(total)


@lean
def shares(places: Places, device: int, other: int) -> bool:
    """Return whether a device addresses the memory of another."""
    return bool(places.reaches[device, places.reaches[other, places.links.shape[0]]])


# --- what is done ---------------------------------------------------------------------------------
# Without slices: they are compiled for long.


@lean
def attempt(board: Board, task: int, lane: int) -> bool:
    """Give a task its place on a lane, and have its data brought; return False if something must complete first."""
    places = board.places
    _begin(places.lanes, BEFORE)
    for n in range(board.pred_start[task], board.pred_start[task + 1]):
        thing = board.pred_task[n]
        _come_after(places.lanes, BEFORE, board.lane[thing], board.place[thing])
    first, end = places.touch_start[task], places.touch_start[task + 1]
    if first < end:
        _choose_spaces(places, first, end, board.device_of[lane])
        brought = True
        for n in range(first, end):
            piece, space = places.touches[n, PIECE], places.touches[n, SPACE]
            if places.touches[n, READS] and not places.directory[piece, space, VALID]:
                brought &= _fetch(board, task, piece, space, lane)
        if not brought:
            return False
        for n in range(first, end):
            piece, space = places.touches[n, PIECE], places.touches[n, SPACE]
            _come_after_users(places, BEFORE, piece, space, places.touches[n, WRITES])
    if _is_far(places.lanes, board.done, BEFORE, lane):
        return False
    give(board, task, lane, BEFORE)
    when_s = board.start_s[task] + board.estimate_s[task]
    for n in range(first, end):
        piece, space = places.touches[n, PIECE], places.touches[n, SPACE]
        if places.touches[n, WRITES]:
            for other in range(places.links.shape[0]):
                places.directory[piece, other, VALID] = 0
            _written(places, piece, space, lane, board.place[task], when_s)
            places.pieces[piece, ORIGIN] = space
        else:
            places.directory[piece, space, READERS + lane] = board.place[task]
    return True


@lean
def give(board: Board, thing: int, lane: int, column: int) -> None:
    """Give something to a lane, and work out what it waits for.

    Of each other lane that is the last it comes after, unless it is done, or was waited for before on this lane.
    """
    place, count = board.given[lane], 0
    board.lane[thing], board.place[thing] = lane, place
    board.flight[lane, place] = thing
    board.given[lane] = place + 1
    lanes = len(board.given)
    for other in range(lanes):
        latest = board.places.lanes[other, column]
        board.waits[thing, lanes + other] = latest
        if other == lane or latest < board.ordered[lane, other] or latest < board.done[other]:
            continue
        board.waits[thing, count] = board.flight[other, latest]
        board.ordered[lane, other] = latest + 1
        count += 1
    board.waits_count[thing] = count
    board.started[board.counters[THINGS]] = thing
    board.counters[THINGS] += 1


@lean
def _fetch(board: Board, task: int, piece: int, space: int, lane: int) -> bool:
    """Have a piece copied to a space; return False if something must complete before it is under way there."""
    places = board.places
    source, target, best_s = NOTHING, space, np.inf
    for other in range(places.links.shape[0]):
        if places.directory[piece, other, VALID] and places.links[other, space, DIRECT_S] < best_s:
            source, best_s = other, places.links[other, space, DIRECT_S]
    if source == NOTHING:  # by way of the host
        target, source = places.counters[HOST_SPACE], places.pieces[piece, ORIGIN]
    on = places.copy_lane[source, target, lane]
    _begin(places.lanes, COPY_BEFORE)
    _come_after_users(places, COPY_BEFORE, piece, source, 0)
    _come_after_users(places, COPY_BEFORE, piece, target, 1)
    number = places.counters[COPIES]
    if number == len(places.copies) or _is_far(places.lanes, board.done, COPY_BEFORE, on):
        return False
    thing = places.counters[FIRST_COPY] + number
    places.counters[COPIES] = number + 1
    give(board, thing, on, COPY_BEFORE)
    places.copies[number, COPY_PIECE], places.copies[number, COPY_FOR] = piece, task
    places.copies[number, COPY_FROM], places.copies[number, COPY_TO] = source, target
    places.copy_s[number, 0] = max(board.scalars[NOW], places.there_s[piece, source])
    places.copy_s[number, 1] = places.copy_s[number, 0] + copy_s(places, piece, source, target)
    places.directory[piece, source, READERS + on] = board.place[thing]
    _written(places, piece, target, on, board.place[thing], places.copy_s[number, 1])
    return bool(target == space)


@lean
def _choose_spaces(places: Places, first: int, end: int, device: int) -> None:
    """Set the space of each touch: one for all of an array, to which least has to be copied, the home of equals."""
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
def _written(places: Places, piece: int, space: int, lane: int, place: int, when_s: float) -> None:
    places.directory[piece, space, VALID] = 1
    places.directory[piece, space, WRITER_LANE], places.directory[piece, space, WRITER_PLACE] = lane, place
    for reader in range(len(places.lanes)):
        places.directory[piece, space, READERS + reader] = NOTHING
    places.there_s[piece, space] = when_s


@lean
def _begin(lanes: Ints, column: int) -> None:
    for lane in range(len(lanes)):
        lanes[lane, column] = NOTHING


@lean
def _come_after(lanes: Ints, column: int, lane: int, place: int) -> None:
    if lane != NOTHING:
        lanes[lane, column] = max(lanes[lane, column], place)


@lean
def _come_after_users(places: Places, column: int, piece: int, space: int, writes: int) -> None:
    """Note what comes before a reading of a piece in a space, or a writing."""
    lanes, directory = places.lanes, places.directory
    _come_after(lanes, column, directory[piece, space, WRITER_LANE], directory[piece, space, WRITER_PLACE])
    for lane in range(len(lanes) if writes else 0):
        lanes[lane, column] = max(lanes[lane, column], directory[piece, space, READERS + lane])


@lean
def _is_far(lanes: Ints, done: Ints, column: int, lane: int) -> bool:
    """Return whether something must have completed that a lane cannot wait for by itself."""
    context, far = lanes[lane, CONTEXT], False
    for other in range(len(lanes)):
        if lanes[other, column] >= done[other] and (other != lane or context == NOTHING):
            its = lanes[other, CONTEXT]
            far |= its == NOTHING or (context != NOTHING and its != context)
    return bool(far)
