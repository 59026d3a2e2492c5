# SPDX-License-Identifier: Apache-2.0
"""The compiled core of `syclsched.planning.transfers`: each task in turn, after the copies it needs.

Of each array it is known in which spaces it has a block, as a list through the blocks, and since when the block holds
the present value: a count that goes up with everything that is written or copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import compiled, inlined, lean
from syclsched.planning.steps import BARRIER, COPY, HOST_CALL, LAUNCH, MODES, Codes, Flags, Floats, Ints

NOTHING = -1

#: Ways from space to space: there is none, one link, or one to the host's memory and one from there.
NO_WAY, DIRECT, BY_HOST = 0, 1, 2

#: What `Made.counts` counts.
STEPS, USES, BLOCKS, MEMORIES, CLOCK = 0, 1, 2, 3, 4

_READS = np.array([mode.reads for mode in MODES])
_WRITES = np.array([mode.writes for mode in MODES])
_READ = next(code for code, mode in enumerate(MODES) if mode.reads and not mode.writes)
_WRITE = next(code for code, mode in enumerate(MODES) if mode.writes and not mode.reads)


class Setting(NamedTuple):
    """What is given: tasks in global order, devices, spaces, links, arrays."""

    #: By position in the global order; the lane is its number on the device.
    task: Ints
    device: Ints
    lane: Ints
    duration_s: Floats  # by position, too
    barrier: Flags  # by task
    #: See `GraphRecord`.
    access_starts: Ints
    access_array: Ints
    access_mode: Codes
    #: Of each device: its space, whether it has a copy lane, whether it is the host.
    home: Ints
    copy_lane: Flags
    on_host: Flags
    #: Ragged: the spaces each device reaches.
    reach_starts: Ints
    reach: Ints
    tenant: Ints  # the first device that computes in each space, or `NOTHING`
    way: Ints  # `NO_WAY`, `DIRECT` or `BY_HOST`
    #: Of links.
    latency_s: Floats
    bytes_per_s: Floats
    host: int  # the host's memory
    nbytes: Ints  # size of each array
    #: The array that each is a segment of, and its rows there; itself if it is none.
    whole: Ints
    first_row: Ints
    end_row: Ints
    in_parts: Flags  # whether an array is a segment of another
    lanes: int  # more than there are numbers of lanes on any device
    reached: Ints  # the space whose devices use an array in the host's memory, or `NOTHING`


class Made(NamedTuple):
    """What is made, with room for as much as there can be."""

    #: Of each step; a lane is ``device * lanes + number``, the last number standing for the copy lane; where what it
    #: touches ends.
    kind: Ints
    lane: Ints
    task: Ints
    nbytes: Ints
    way: Ints
    duration_s: Floats
    ends: Ints
    #: What steps touch, and how.
    block: Ints
    mode: Codes
    #: Of each block: what it is of, the next of the same array, and since when it holds a value.
    block_array: Ints
    block_space: Ints
    block_next: Ints
    since: Ints
    block_memory: Ints  # the memory of each block
    #: Of each memory, as of blocks.
    memory_array: Ints
    memory_space: Ints
    memory_next: Ints
    #: Of each array; `NOTHING` for none.
    first_block: Ints
    first_memory: Ints
    written: Ints  # since when the present value is; 0 for one that was there from the start
    next_touch: Ints  # the first of the touches of each array to come
    chosen: Ints  # the space of each array that a task touches
    counts: Ints  # how much there is: `STEPS` and so on


class Touching(NamedTuple):
    """Ragged by array: the positions of those that touch it, their home spaces, and how."""

    starts: Ints
    position: Ints
    home: Ints
    mode: Codes


@compiled
def touches_by_array(s: Setting, arrays: int) -> Touching:
    """Return who touches each array, in global order."""
    count = len(s.access_array)
    starts = np.zeros(arrays + 1, np.int64)
    for array in s.access_array:
        starts[array + 1] += 1
    starts = np.cumsum(starts)
    fill, made = (
        starts[:-1].copy(),
        Touching(starts, np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint8)),
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
def place_tasks(s: Setting, m: Made, t: Touching) -> tuple[int, int]:
    """Make the steps of all tasks."""
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
                # Room first, as when memory is short.
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
def block_of(s: Setting, m: Made, array: int, space: int) -> int:
    """Return the block of an array in a space, a new one if it has none."""
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
def holders(m: Made, arrays: Ints) -> Ints:
    """Return for each of some arrays the block that has held its present value for longest."""
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
def _find(m: Made, array: int, space: int) -> int:
    block = m.first_block[array]
    while block != NOTHING and m.block_space[block] != space:
        block = m.block_next[block]
    return int(block)


@inlined
def _holds(m: Made, array: int, space: int) -> bool:
    """Return whether the present value of an array is in a space."""
    block = _find(m, array, space)
    return block != NOTHING and m.since[block] >= m.written[array]


@inlined
def _space_to_read(s: Setting, m: Made, device: int, array: int) -> int:
    """Return the first space in which a device can read an array as things are, its home before others."""
    if s.reached[array] == s.home[device] and _holds(m, array, s.host):
        return s.host
    if _holds(m, array, s.home[device]):
        return int(s.home[device])
    for place in range(s.reach_starts[device], s.reach_starts[device + 1]):
        if _holds(m, array, s.reach[place]):
            return int(s.reach[place])
    return NOTHING


@inlined
def _space_to_write(s: Setting, m: Made, t: Touching, position: int, array: int) -> int:
    """Return where the next reader wants an array, if the device reaches that space; else its home."""
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
def _seconds(s: Setting, source: int, destination: int, nbytes: int) -> float:
    """Return what a copy takes, over one link or two; infinity if there is no way."""
    if s.way[source, destination] == DIRECT:
        return float(s.latency_s[source, destination] + nbytes / s.bytes_per_s[source, destination])
    if s.way[source, destination] == NO_WAY:
        return np.inf
    up_s = s.latency_s[source, s.host] + nbytes / s.bytes_per_s[source, s.host]
    return float(up_s + (s.latency_s[s.host, destination] + nbytes / s.bytes_per_s[s.host, destination]))


@inlined
def _source(s: Setting, m: Made, array: int, destination: int) -> int:
    """Return the space from which an array gets to another soonest; of equals the one that has held it for longest."""
    best, best_s, block = NOTHING, np.inf, m.first_block[array]
    while block != NOTHING:
        if m.since[block] >= m.written[array]:
            seconds = _seconds(s, m.block_space[block], destination, s.nbytes[array])
            if best == NOTHING or seconds < best_s or (seconds == best_s and m.since[block] < m.since[best]):
                best, best_s = block, seconds
        block = m.block_next[block]
    return int(m.block_space[best])


@compiled
def _bring_together(s: Setting, m: Made, t: Touching, position: int, first: int) -> tuple[int, int]:
    """Choose a space for all segments of one array that a task touches, from the first on; copy what is missing there.

    Return two spaces between which there is no way, or `NOTHING` twice.
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
def _space_for(s: Setting, m: Made, device: int, read: Ints) -> int:
    """Return the space within a device's reach to which the least has to be copied; its own, if none is better."""
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
def _copy(s: Setting, m: Made, position: int, arrays: Ints, source: int, destination: int) -> None:
    """Copy an array, or segments of one that follow each other."""
    nbytes = 0
    for array in arrays:
        nbytes += s.nbytes[array]
    if s.way[source, destination] == BY_HOST:
        _hop(s, m, position, arrays, nbytes, source, s.host)
        _hop(s, m, position, arrays, nbytes, s.host, destination)
    else:
        _hop(s, m, position, arrays, nbytes, source, destination)


@lean
def _hop(s: Setting, m: Made, position: int, arrays: Ints, nbytes: int, source: int, destination: int) -> None:
    """Copy over one link."""
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
def _copy_lane(s: Setting, position: int, source: int, destination: int) -> int:
    """Use the consumer's queue if it lives in the destination, else a device of the source's space.

    Where a separate copy lane is of no use, the copy goes on the very lane that needs it: nothing has to wait.
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
def _work(s: Setting, m: Made, position: int) -> None:
    """Make the step of a task, whose copies are made."""
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
