# SPDX-License-Identifier: Apache-2.0
"""Copies of arrays and segments between memory spaces, and the evictions they need where memory is limited."""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.model.access import MODES
from syclsched.model.platform_parts.routes import NOTHING
from syclsched.planning.draft import COPY
from syclsched.planning.transfers.future_accesses import is_only_here
from syclsched.planning.transfers.rematerialisation import drop_if_cheaper
from syclsched.planning.transfers.residency import admit, drop
from syclsched.planning.transfers.transfer_state import (
    CLOCK,
    STEPS,
    USES,
    LimitedMemory,
    TransferInputs,
    TransferState,
    block_of,
    copy_seconds,
    holds,
)

_READ = next(code for code, mode in enumerate(MODES) if mode.reads and not mode.writes)
_WRITE = next(code for code, mode in enumerate(MODES) if mode.writes and not mode.reads)


@lean
def make_room(s: TransferInputs, m: TransferState, k: LimitedMemory, position: int, array: int, space: int) -> None:
    """Allocate an array in a space for a task; evict other arrays if memory is short.

    The value of an evicted array is saved to the host's memory if it is live and nowhere else.
    """
    victim = admit(s, m, k, position, array, space)
    while victim != NOTHING:
        unsaved = 0
        for piece in range(k.first_piece[victim], k.end_piece[victim]):
            if is_only_here(m, k, piece, space):
                m.missing[unsaved] = piece
                unsaved += 1
        if unsaved and not drop_if_cheaper(s, m, k, victim, space):
            _make_room_on_host(s, m, k, position, m.missing[0])
            copy_missing(s, m, k, position, unsaved, s.host)
        _leave(s, m, k, victim, space)
        victim = admit(s, m, k, position, array, space)


@lean
def copy_missing(
    s: TransferInputs, m: TransferState, k: LimitedMemory | None, position: int, count: int, destination: int
) -> None:
    """Copy the first of the ``missing`` arrays to a space: adjacent segments from the same space at once."""
    for place in range(count):
        m.source[place] = _source(s, m, m.missing[place], destination)
    stop = NOTHING
    for start in range(count):
        if start < stop:
            continue
        stop = start + 1
        while (
            stop < count
            and m.source[stop] == m.source[start]
            and s.end_row[m.missing[stop - 1]] == s.first_row[m.missing[stop]]
        ):
            stop += 1
        _copy(s, m, k, position, start, stop, m.source[start], destination)


@lean
def add_step(m: TransferState, lane: int, task: int) -> int:
    """Add a step whose uses have been added."""
    step = m.counts[STEPS]
    m.counts[STEPS] += 1
    m.lane[step], m.task[step], m.ends[step] = lane, task, m.counts[USES]
    return int(step)


# --- inside ---------------------------------------------------------------------------------------


@lean
def _source(s: TransferInputs, m: TransferState, array: int, destination: int) -> int:
    """Return the space from which a copy arrives soonest; on a tie, the one that has held the value for longest."""
    best, best_s = NOTHING, 0.0
    for space in range(len(s.stop)):
        if holds(m, array, space):
            space_s = copy_seconds(s, space, destination, s.nbytes[array])
            sooner = best == NOTHING or space_s < best_s
            if sooner or (space_s == best_s and m.since[array, space] < m.since[array, best]):
                best, best_s = space, space_s
    return best


@lean
def _copy(
    s: TransferInputs,
    m: TransferState,
    k: LimitedMemory | None,
    position: int,
    first: int,
    end: int,
    source: int,
    destination: int,
) -> None:
    """Add the copy of a missing array, or of adjacent segments of one, over one link or two."""
    if s.stop[source, destination] == NOTHING:
        m.no_way[0], m.no_way[1] = source, destination
        return
    while source != destination:
        stop = s.stop[source, destination]
        if k is not None and stop == s.host:
            _make_room_on_host(s, m, k, position, m.missing[first])
        nbytes = 0
        for place in range(first, end):
            array = m.missing[place]
            nbytes += s.nbytes[array]
            use = m.counts[USES]
            m.counts[USES] += 2
            m.block[use], m.mode[use] = block_of(s, m, array, source), _READ
            m.block[use + 1], m.mode[use + 1] = block_of(s, m, array, stop), _WRITE
            if not holds(m, array, stop):
                m.counts[CLOCK] += 1
                m.since[array, stop] = m.counts[CLOCK]
        step = add_step(m, _copy_lane(s, position, source, stop), s.task[position])
        m.kind[step] = COPY
        m.nbytes[step], m.way[step] = nbytes, source * len(s.stop) + stop
        m.duration_s[step] = s.latency_s[source, stop] + nbytes / s.bytes_per_s[source, stop]
        source = stop


@lean
def _copy_lane(s: TransferInputs, position: int, source: int, destination: int) -> int:
    """Return the lane of a copy: the copy lane of its owner; see `CopyOwners`.

    On a device without a copy lane, the copy runs on the lane that needs it, so that nothing has to wait for it.
    """
    owner = s.near[s.device[position], destination]
    for further in (s.near[s.device[position], source], s.living[source], s.living[destination]):
        owner = further if owner == NOTHING else owner
    number = s.lanes - 1
    if not s.copy_lane[owner]:
        number = s.lane[position] if owner == s.device[position] else 0
    return int(owner * s.lanes + number)


@lean
def _make_room_on_host(s: TransferInputs, m: TransferState, k: LimitedMemory, position: int, array: int) -> None:
    """Allocate an array in the host's memory; nothing that exists only there is evicted unless it is recomputed."""
    victim = admit(s, m, k, position, array, s.host)
    while victim != NOTHING:
        if is_only_here(m, k, victim, s.host):
            drop_if_cheaper(s, m, k, victim, s.host)
        _leave(s, m, k, victim, s.host)
        victim = admit(s, m, k, position, array, s.host)


@lean
def _leave(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int, space: int) -> None:
    """Take an array's value out of a space, and free its memory there."""
    for piece in range(k.first_piece[array], k.end_piece[array]):
        m.since[piece, space] = NOTHING
    drop(s, m, k, array, space)
