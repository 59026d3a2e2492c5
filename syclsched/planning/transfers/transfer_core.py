# SPDX-License-Identifier: Apache-2.0
"""Compiled core of `syclsched.planning.transfers.transfers`: places the tasks in order, each after the copies it needs.

Each block records when it got the value it holds, by a counter that increases with every write and copy: a block is
current if that is not before the array's last write.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import compiled, inlined, lean
from syclsched.model.access import MODES
from syclsched.planning.draft import BARRIER, COPY, HOST_CALL, LAUNCH, Codes, Flags, Floats, Ints
from syclsched.planning.transfers.copy_lanes import BY_HOST, DIRECT, NO_WAY, NOTHING

#: Indices into `TransferState.counts`.
STEPS, USES, BLOCKS, MEMORIES, CLOCK = 0, 1, 2, 3, 4

READS = np.array([mode.reads for mode in MODES])
WRITES = np.array([mode.writes for mode in MODES])
_READ = next(code for code, mode in enumerate(MODES) if mode.reads and not mode.writes)
_WRITE = next(code for code, mode in enumerate(MODES) if mode.writes and not mode.reads)


class TransferInputs(NamedTuple):
    """Input of the pass: tasks in global order, devices, spaces, links, arrays."""

    #: Of each task, by position in the global order; ``lane`` is the lane's number on its device.
    task: Ints
    device: Ints
    lane: Ints
    duration_s: Floats
    barrier: Flags  # by index of the task in the graph
    #: See `GraphRecord`.
    access_starts: Ints
    access_array: Ints
    access_mode: Codes
    #: Of each device: its own space, whether it has a copy lane, whether it is the host.
    home: Ints
    copy_lane: Flags
    on_host: Flags
    #: Ragged: the spaces each device reaches.
    reach_starts: Ints
    reach: Ints
    owner: Ints  # see `copy_owners`
    #: See `CopyRoutes`.
    way: Ints
    latency_s: Floats
    bytes_per_s: Floats
    host: int  # index of the host's memory
    nbytes: Ints  # size of each array
    #: Of each array: the array it is a segment of (or itself), and its rows there.
    whole: Ints
    first_row: Ints
    end_row: Ints
    in_parts: Flags  # whether an array is a segment of another
    lanes: int  # stride of lane codes: the most lanes on a device, plus one for its copy lane
    reached: Ints  # of each array: the space whose devices access it in the host's memory, or `NOTHING`


class TransferState(NamedTuple):
    """State and output of the pass, preallocated for the largest possible size."""

    #: Of each step; a lane's code is ``device * lanes + number``, the last number being the copy lane; ``ends`` is the
    #: end of its uses.
    kind: Ints
    lane: Ints
    task: Ints
    nbytes: Ints
    way: Ints
    duration_s: Floats
    ends: Ints
    #: Uses of the steps: block and access mode.
    block: Ints
    mode: Codes
    #: Of each block: its array, space and memory.
    block_array: Ints
    block_space: Ints
    block_memory: Ints
    #: Of each memory: its array and space.
    memory_array: Ints
    memory_space: Ints
    #: By array and space: the block and the memory there, or `NOTHING`, and when the block got its value (`CLOCK`).
    block_at: Ints
    memory_at: Ints
    since: Ints
    written: Ints  # of each array: when its current value was written; 0 for initial values
    next_touch: Ints  # of each array: its first access to come, as an index into `ArrayAccesses`
    chosen: Ints  # space of each access of the current task
    #: Scratch: the arrays that a task lacks, and the spaces they come from.
    missing: Ints
    source: Ints
    counts: Ints  # see `STEPS` and the following
    no_way: Ints  # source and destination of a copy that has no route, or `NOTHING` twice


class ArrayAccesses(NamedTuple):
    """Accesses to each array, ragged: the accessing task's position, its device's own space, and the mode."""

    starts: Ints
    position: Ints
    home: Ints
    mode: Codes


@compiled
def touches_by_array(s: TransferInputs, arrays: int) -> ArrayAccesses:
    """Return the accesses to each array, in global order."""
    count = len(s.access_array)
    starts = np.zeros(arrays + 1, np.int64)
    for array in s.access_array:
        starts[array + 1] += 1
    starts = np.cumsum(starts)
    fill, made = (
        starts[:-1].copy(),
        ArrayAccesses(starts, np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint8)),
    )
    for position in range(len(s.task)):
        task = s.task[position]
        for access in range(s.access_starts[task], s.access_starts[task + 1]):
            place = fill[s.access_array[access]]
            fill[s.access_array[access]] += 1
            made.position[place] = position
            made.home[place] = s.home[s.device[position]]
            made.mode[place] = s.access_mode[access]
    return made


@compiled
def place_tasks(s: TransferInputs, m: TransferState, t: ArrayAccesses) -> None:
    """Add the steps of all tasks, until a copy has no route."""
    for position in range(len(s.task)):
        task, device = s.task[position], s.device[position]
        begin, end = s.access_starts[task], s.access_starts[task + 1]
        for access in range(begin, end):
            m.chosen[access - begin] = NOTHING
        for access in range(begin, end):
            if s.in_parts[s.access_array[access]] and m.chosen[access - begin] == NOTHING:
                _bring_together(s, m, t, position, access)
        for access in range(begin, end):
            array, space = s.access_array[access], m.chosen[access - begin]
            if space == NOTHING and not READS[s.access_mode[access]]:
                space = _space_to_write(s, m, t, position, array)
            elif space == NOTHING:
                space = _space_to_read(s, m, device, array)
                if space == NOTHING:
                    space = s.host if s.reached[array] == s.home[device] else s.home[device]
                    m.missing[access - begin] = array
                    _copy(s, m, position, access - begin, access - begin + 1, _source(s, m, array, space), space)
            m.chosen[access - begin] = space
        _work(s, m, position)
        if m.no_way[0] != NOTHING:
            return


@lean
def block_of(s: TransferInputs, m: TransferState, array: int, space: int) -> int:
    """Return the block of an array in a space; create it if needed."""
    if m.block_at[array, space] != NOTHING:
        return int(m.block_at[array, space])
    block = m.counts[BLOCKS]
    m.counts[BLOCKS] += 1
    m.block_array[block], m.block_space[block] = array, space
    whole = s.whole[array]
    memory = m.memory_at[whole, space]
    if memory == NOTHING:
        memory = m.counts[MEMORIES]
        m.counts[MEMORIES] += 1
        m.memory_array[memory], m.memory_space[memory] = whole, space
        m.memory_at[whole, space] = memory
    m.block_memory[block] = memory
    m.block_at[array, space] = block
    return int(block)


# --- inside ---------------------------------------------------------------------------------------


@inlined
def _holds(m: TransferState, array: int, space: int) -> bool:
    """Return whether the current value of an array is in a space."""
    return bool(m.since[array, space] >= m.written[array])


@inlined
def _seconds(s: TransferInputs, source: int, destination: int, nbytes: int) -> float:
    """Return the duration of a copy over one link or two; infinity if there is no route."""
    if s.way[source, destination] == DIRECT:
        return float(s.latency_s[source, destination] + nbytes / s.bytes_per_s[source, destination])
    if s.way[source, destination] == NO_WAY:
        return np.inf
    up_s = s.latency_s[source, s.host] + nbytes / s.bytes_per_s[source, s.host]
    return float(up_s + (s.latency_s[s.host, destination] + nbytes / s.bytes_per_s[s.host, destination]))


@inlined
def _space_to_read(s: TransferInputs, m: TransferState, device: int, array: int) -> int:
    """Return the space where a device can read an array without a copy, its own first; `NOTHING` if none."""
    if s.reached[array] == s.home[device] and _holds(m, array, s.host):
        return s.host
    if _holds(m, array, s.home[device]):
        return int(s.home[device])
    for place in range(s.reach_starts[device], s.reach_starts[device + 1]):
        if _holds(m, array, s.reach[place]):
            return int(s.reach[place])
    return NOTHING


@lean
def _space_to_write(s: TransferInputs, m: TransferState, t: ArrayAccesses, position: int, array: int) -> int:
    """Return the space the next reader wants, if the device reaches it; else the device's own."""
    device = s.device[position]
    if s.reached[array] == s.home[device]:
        return s.host
    first, end = s.reach_starts[device], s.reach_starts[device + 1]
    if end - first > 1:
        for touch in range(m.next_touch[array], t.starts[array + 1]):
            if t.position[touch] == position:
                continue
            if READS[t.mode[touch]]:
                for place in range(first, end):
                    if s.reach[place] == t.home[touch]:
                        return int(s.reach[place])
            if WRITES[t.mode[touch]]:
                break
    return int(s.home[device])


@lean
def _source(s: TransferInputs, m: TransferState, array: int, destination: int) -> int:
    """Return the space from which a copy arrives soonest; on a tie, the one that has held the value for longest."""
    best, best_s = NOTHING, 0.0
    for space in range(len(s.way)):
        if _holds(m, array, space):
            space_s = _seconds(s, space, destination, s.nbytes[array])
            sooner = best == NOTHING or space_s < best_s
            if sooner or (space_s == best_s and m.since[array, space] < m.since[array, best]):
                best, best_s = space, space_s
    return best


@lean
def _bring_together(s: TransferInputs, m: TransferState, t: ArrayAccesses, position: int, first: int) -> None:
    """Choose one space for all segments of an array that a task touches, and copy the missing ones there."""
    task = s.task[position]
    begin, end = s.access_starts[task], s.access_starts[task + 1]
    whole = s.whole[s.access_array[first]]
    space = _space_for(s, m, t, position, first)
    count = 0
    for access in range(first, end):
        if s.whole[s.access_array[access]] == whole:
            m.chosen[access - begin] = space
    for access in range(first, end):
        array = s.access_array[access]
        if s.whole[array] == whole and READS[s.access_mode[access]] and not _holds(m, array, space):
            place = count
            while place and m.missing[place - 1] > array:  # in the order of their rows
                m.missing[place] = m.missing[place - 1]
                place -= 1
            m.missing[place] = array
            count += 1
    for place in range(count):
        m.source[place] = _source(s, m, m.missing[place], space)
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
        _copy(s, m, position, start, stop, m.source[start], space)


@inlined
def _space_for(s: TransferInputs, m: TransferState, t: ArrayAccesses, position: int, first: int) -> int:
    """Return the reachable space with the fewest bytes of an array's segments to copy; the device's own on a tie."""
    task, device = s.task[position], s.device[position]
    array = s.access_array[first]
    best, fewest = s.home[device], NOTHING
    for place in range(s.reach_starts[device] - 1, s.reach_starts[device + 1]):
        space = s.home[device] if place < s.reach_starts[device] else s.reach[place]
        missing_bytes, reads = 0, False
        for access in range(first, s.access_starts[task + 1]):
            other = s.access_array[access]
            if s.whole[other] == s.whole[array] and READS[s.access_mode[access]]:
                reads = True
                if not _holds(m, other, space):
                    missing_bytes += s.nbytes[other]
        if not reads:
            return _space_to_write(s, m, t, position, array)
        if fewest == NOTHING or missing_bytes < fewest:
            best, fewest = space, missing_bytes
    return int(best)


# --- copies ---------------------------------------------------------------------------------------


@lean
def _copy(
    s: TransferInputs, m: TransferState, position: int, first: int, end: int, source: int, destination: int
) -> None:
    """Add the copy of a missing array, or of adjacent segments of one, over one link or two."""
    if s.way[source, destination] == NO_WAY:
        m.no_way[0], m.no_way[1] = source, destination
    while source != destination:
        stop = s.host if s.way[source, destination] == BY_HOST else destination
        nbytes = 0
        for place in range(first, end):
            array = m.missing[place]
            nbytes += s.nbytes[array]
            use = m.counts[USES]
            m.counts[USES] += 2
            m.block[use], m.mode[use] = block_of(s, m, array, source), _READ
            m.block[use + 1], m.mode[use + 1] = block_of(s, m, array, stop), _WRITE
            if not _holds(m, array, stop):
                m.counts[CLOCK] += 1
                m.since[array, stop] = m.counts[CLOCK]
        step = _step(m, _copy_lane(s, position, source, stop), s.task[position])
        m.kind[step] = COPY
        m.nbytes[step], m.way[step] = nbytes, source * len(s.way) + stop
        m.duration_s[step] = s.latency_s[source, stop] + nbytes / s.bytes_per_s[source, stop]
        source = stop


@lean
def _copy_lane(s: TransferInputs, position: int, source: int, destination: int) -> int:
    """Return the lane of a copy: the copy lane of its owner.

    On a device without a copy lane, the copy runs on the lane that needs it, so that nothing has to wait for it.
    """
    owner = s.owner[s.device[position], source, destination]
    number = s.lanes - 1
    if not s.copy_lane[owner]:
        number = s.lane[position] if owner == s.device[position] else 0
    return int(owner * s.lanes + number)


@inlined
def _work(s: TransferInputs, m: TransferState, position: int) -> None:
    """Add the step of a task whose copies have been added."""
    task, device = s.task[position], s.device[position]
    begin, end = s.access_starts[task], s.access_starts[task + 1]
    for access in range(begin, end):
        use = m.counts[USES]
        m.counts[USES] += 1
        m.block[use] = block_of(s, m, s.access_array[access], m.chosen[access - begin])
        m.mode[use] = s.access_mode[access]
        m.next_touch[s.access_array[access]] += 1
    step = _step(m, device * s.lanes + s.lane[position], task)
    m.kind[step] = BARRIER if s.barrier[task] else HOST_CALL if s.on_host[device] else LAUNCH
    m.nbytes[step], m.way[step] = 0, NOTHING
    m.duration_s[step] = s.duration_s[position]
    for access in range(begin, end):
        array = s.access_array[access]
        if WRITES[s.access_mode[access]]:
            m.counts[CLOCK] += 1
            m.written[array] = m.since[array, m.chosen[access - begin]] = m.counts[CLOCK]


@inlined
def _step(m: TransferState, lane: int, task: int) -> int:
    """Add a step whose uses have been added."""
    step = m.counts[STEPS]
    m.counts[STEPS] += 1
    m.lane[step], m.task[step], m.ends[step] = lane, task, m.counts[USES]
    return int(step)
