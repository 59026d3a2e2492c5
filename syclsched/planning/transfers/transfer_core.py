# SPDX-License-Identifier: Apache-2.0
"""Compiled core of `syclsched.planning.transfers.transfers`: places the tasks in order, each after the copies it needs.

The blocks of an array are a linked list. Each block records when it got the value it holds, by a counter that increases
with every write and copy: a block is current if that is not before the array's last write.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import compiled, inlined, lean
from syclsched.planning.draft import BARRIER, COPY, HOST_CALL, LAUNCH, MODES, Codes, Flags, Floats, Ints

NOTHING = -1

#: Routes between spaces: none, one link, or two links through the host's memory.
NO_WAY, DIRECT, BY_HOST = 0, 1, 2

#: Indices into `ShapeDtype.counts`.
STEPS, USES, BLOCKS, MEMORIES, CLOCK = 0, 1, 2, 3, 4

_READS = np.array([mode.reads for mode in MODES])
_WRITES = np.array([mode.writes for mode in MODES])
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
    tenant: Ints  # the first compute device of each space, or `NOTHING`
    #: By source and destination space: the route (`NO_WAY`, `DIRECT` or `BY_HOST`) and the direct link.
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
    #: Of each block: its array and space, the next block of that array, and when it got its value (`CLOCK`).
    block_array: Ints
    block_space: Ints
    block_next: Ints
    since: Ints
    block_memory: Ints
    #: Of each memory: its array and space, and the next memory of that array.
    memory_array: Ints
    memory_space: Ints
    memory_next: Ints
    #: Of each array: heads of the linked lists; `NOTHING` if empty.
    first_block: Ints
    first_memory: Ints
    written: Ints  # when its current value was written; 0 for initial values
    next_touch: Ints  # its first access to come, as an index into `ArrayAccesses`
    chosen: Ints  # space of each access of the current task
    counts: Ints  # see `STEPS` and the following


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
def place_tasks(s: TransferInputs, m: TransferState, t: ArrayAccesses) -> tuple[int, int]:
    """Add the steps of all tasks; return two spaces without a route between them, or `NOTHING` twice."""
    for position in range(len(s.task)):
        task, device = s.task[position], s.device[position]
        begin, end = s.access_starts[task], s.access_starts[task + 1]
        m.chosen[: end - begin] = NOTHING
        for access in range(begin, end):
            array = s.access_array[access]
            if s.in_parts[array] and m.chosen[access - begin] == NOTHING:
                source, space = _bring_together(s, m, t, position, access)
                if source != NOTHING:
                    return source, space
        for access in range(begin, end):
            array = s.access_array[access]
            if m.chosen[access - begin] != NOTHING:
                continue
            if not _READS[s.access_mode[access]]:
                m.chosen[access - begin] = _space_to_write(s, m, t, position, array)
                continue
            space = _space_to_read(s, m, device, array)
            if space == NOTHING:
                # Allocate first, as in `syclsched.planning.memory.eviction`.
                space = s.host if s.reached[array] == s.home[device] else s.home[device]
                block_of(s, m, array, space)
                source = _source(s, m, array, space)
                if s.way[source, space] == NO_WAY:
                    return source, space
                _copy(s, m, position, np.full(1, array), source, space)
            m.chosen[access - begin] = space
        _work(s, m, position)
    return NOTHING, NOTHING


@lean
def block_of(s: TransferInputs, m: TransferState, array: int, space: int) -> int:
    """Return the block of an array in a space; create it if needed."""
    found = _find(m, array, space)
    if found != NOTHING:
        return found
    block = m.counts[BLOCKS]
    m.counts[BLOCKS] += 1
    m.block_array[block], m.block_space[block], m.since[block] = array, space, NOTHING
    m.block_next[block] = m.first_block[array]
    m.first_block[array] = block
    whole = s.whole[array]
    memory = m.first_memory[whole]
    while memory != NOTHING and m.memory_space[memory] != space:
        memory = m.memory_next[memory]
    if memory == NOTHING:
        memory = m.counts[MEMORIES]
        m.counts[MEMORIES] += 1
        m.memory_array[memory], m.memory_space[memory] = whole, space
        m.memory_next[memory] = m.first_memory[whole]
        m.first_memory[whole] = memory
    m.block_memory[block] = memory
    return int(block)


@compiled
def holders(m: TransferState, arrays: Ints) -> Ints:
    """Return for each of some arrays the block that has held its current value for longest."""
    found = np.full(len(arrays), NOTHING, np.int64)
    for place, array in enumerate(arrays):
        block = m.first_block[array]
        while block != NOTHING:
            best = found[place]
            if m.since[block] >= m.written[array] and (best == NOTHING or m.since[block] < m.since[best]):
                found[place] = block
            block = m.block_next[block]
    return found


# --- inside ---------------------------------------------------------------------------------------


@inlined
def _find(m: TransferState, array: int, space: int) -> int:
    block = m.first_block[array]
    while block != NOTHING and m.block_space[block] != space:
        block = m.block_next[block]
    return int(block)


@inlined
def _holds(m: TransferState, array: int, space: int) -> bool:
    """Return whether the current value of an array is in a space."""
    block = _find(m, array, space)
    return block != NOTHING and m.since[block] >= m.written[array]


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


@inlined
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
            if _READS[t.mode[touch]]:
                for place in range(first, end):
                    if s.reach[place] == t.home[touch]:
                        return int(s.reach[place])
            if _WRITES[t.mode[touch]]:
                break
    return int(s.home[device])


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
def _source(s: TransferInputs, m: TransferState, array: int, destination: int) -> int:
    """Return the space from which a copy arrives soonest; on a tie, the one that has held the value for longest."""
    best, best_s, block = NOTHING, np.inf, m.first_block[array]
    while block != NOTHING:
        if m.since[block] >= m.written[array]:
            seconds = _seconds(s, m.block_space[block], destination, s.nbytes[array])
            if best == NOTHING or seconds < best_s or (seconds == best_s and m.since[block] < m.since[best]):
                best, best_s = block, seconds
        block = m.block_next[block]
    return int(m.block_space[best])


@compiled
def _bring_together(
    s: TransferInputs, m: TransferState, t: ArrayAccesses, position: int, first: int
) -> tuple[int, int]:
    """Choose one space for all segments of an array that a task touches, and copy the missing ones there.

    Return two spaces without a route between them, or `NOTHING` twice.
    """
    task, device = s.task[position], s.device[position]
    begin, end = s.access_starts[task], s.access_starts[task + 1]
    whole = s.whole[s.access_array[first]]
    read = np.empty(end - first, np.int64)
    count = 0
    for access in range(first, end):
        array = s.access_array[access]
        if s.in_parts[array] and s.whole[array] == whole and _READS[s.access_mode[access]]:
            read[count] = array
            count += 1
    read = read[:count]
    if count:
        space = _space_for(s, m, device, read)
    else:
        space = _space_to_write(s, m, t, position, s.access_array[first])
    for access in range(first, end):
        array = s.access_array[access]
        if s.in_parts[array] and s.whole[array] == whole:
            m.chosen[access - begin] = space
    block_of(s, m, s.access_array[first], space)
    missing, count = np.empty(len(read), np.int64), 0
    for array in read:
        if not _holds(m, array, space):
            missing[count] = array
            count += 1
    missing = missing[:count]
    missing = missing[np.argsort(s.first_row[missing], kind="mergesort")]
    source = np.empty(count, np.int64)
    for place in range(count):
        source[place] = _source(s, m, missing[place], space)
    run = 0
    for place in range(len(missing)):
        if s.way[source[place], space] == NO_WAY:
            return int(source[place]), int(space)
        last = place + 1 == len(missing)
        if last or source[place + 1] != source[run] or s.end_row[missing[place]] != s.first_row[missing[place + 1]]:
            _copy(s, m, position, missing[run : place + 1], source[run], space)
            run = place + 1
    return NOTHING, NOTHING


@lean
def _space_for(s: TransferInputs, m: TransferState, device: int, read: Ints) -> int:
    """Return the reachable space with the fewest bytes to copy; the device's own on a tie."""
    best, fewest = s.home[device], NOTHING
    for place in range(s.reach_starts[device] - 1, s.reach_starts[device + 1]):
        space = s.home[device] if place < s.reach_starts[device] else s.reach[place]
        missing = 0
        for array in read:
            if not _holds(m, array, space):
                missing += s.nbytes[array]
        if fewest == NOTHING or missing < fewest:
            best, fewest = space, missing
    return int(best)


@lean
def _copy(s: TransferInputs, m: TransferState, position: int, arrays: Ints, source: int, destination: int) -> None:
    """Add the copy of an array, or of adjacent segments of one."""
    nbytes = 0
    for array in arrays:
        nbytes += s.nbytes[array]
    if s.way[source, destination] == BY_HOST:
        _hop(s, m, position, arrays, nbytes, source, s.host)
        _hop(s, m, position, arrays, nbytes, s.host, destination)
    else:
        _hop(s, m, position, arrays, nbytes, source, destination)


@lean
def _hop(
    s: TransferInputs, m: TransferState, position: int, arrays: Ints, nbytes: int, source: int, destination: int
) -> None:
    """Add a copy over one link."""
    step = m.counts[STEPS]
    m.counts[STEPS] += 1
    for array in arrays:
        use = m.counts[USES]
        m.counts[USES] += 2
        m.block[use], m.mode[use] = block_of(s, m, array, source), _READ
        block = block_of(s, m, array, destination)
        m.block[use + 1], m.mode[use + 1] = block, _WRITE
        if m.since[block] < m.written[array]:
            m.counts[CLOCK] += 1
            m.since[block] = m.counts[CLOCK]
    m.kind[step], m.task[step] = COPY, s.task[position]
    m.lane[step] = _copy_lane(s, position, source, destination)
    m.nbytes[step] = nbytes
    m.way[step] = source * len(s.way) + destination
    m.duration_s[step] = s.latency_s[source, destination] + nbytes / s.bytes_per_s[source, destination]
    m.ends[step] = m.counts[USES]


@lean
def _copy_lane(s: TransferInputs, position: int, source: int, destination: int) -> int:
    """Return the lane of a copy: the consumer's if it lives in the destination, else one of the source's space.

    On a device without a copy lane, the copy runs on the lane that needs it, so that nothing has to wait for it.
    """
    device = s.device[position]
    owner = device
    if s.on_host[device] or s.home[device] != destination:
        if s.tenant[destination] != NOTHING:
            owner = s.tenant[destination]
        elif s.on_host[device] or s.home[device] != source:
            owner = s.tenant[source]
    number = s.lanes - 1
    if not s.copy_lane[owner]:
        number = s.lane[position] if owner == device else 0
    return int(owner * s.lanes + number)


@inlined
def _work(s: TransferInputs, m: TransferState, position: int) -> None:
    """Add the step of a task whose copies have been added."""
    task, device = s.task[position], s.device[position]
    begin, end = s.access_starts[task], s.access_starts[task + 1]
    step = m.counts[STEPS]
    m.counts[STEPS] += 1
    for access in range(begin, end):
        use = m.counts[USES]
        m.counts[USES] += 1
        m.block[use] = block_of(s, m, s.access_array[access], m.chosen[access - begin])
        m.mode[use] = s.access_mode[access]
        m.next_touch[s.access_array[access]] += 1
    kind = HOST_CALL if s.on_host[device] else LAUNCH
    m.kind[step] = BARRIER if s.barrier[task] else kind
    m.lane[step], m.task[step] = device * s.lanes + s.lane[position], task
    m.nbytes[step], m.way[step] = 0, NOTHING
    m.duration_s[step] = s.duration_s[position]
    m.ends[step] = m.counts[USES]
    for access in range(begin, end):
        array = s.access_array[access]
        if _WRITES[s.access_mode[access]]:
            m.counts[CLOCK] += 1
            m.written[array] = m.since[_find(m, array, m.chosen[access - begin])] = m.counts[CLOCK]
