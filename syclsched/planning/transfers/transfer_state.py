# SPDX-License-Identifier: Apache-2.0
"""Input, state and output of the compiled pass that places tasks and copies, and its blocks of memory.

Each block records when it got the value it holds, by a counter that increases with every write and copy: a block is
current if that is not before the array's last write.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from syclsched.compiled import compiled, lean
from syclsched.model.platform_parts.routes import NOTHING
from syclsched.planning.draft import Codes, Flags, Floats, Ints

#: Indices into `TransferState.counts`.
STEPS, USES, BLOCKS, MEMORIES, CLOCK = range(5)

#: Indices into `LimitedMemory.counts`: the current position (see `future_accesses`); the current run of a task; the
#: last mark in ``seen``; extra reads that were ever used, and the first unused one; whether a larger state is needed;
#: and what the last estimate left in ``needed``: how many arrays, and until when.
NOW, RUN, MARK, EXTRA, UNUSED, FULL, NEEDED, UNTIL = range(8)

#: In place of the first of the reads that a dropped value added.
NO_READS: Final = -2

#: Capacity of a space with unknown capacity.
UNLIMITED: Final = 1 << 62


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
    #: See `CopyOwners`.
    near: Ints
    living: Ints
    #: See `Routes`.
    stop: Ints
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
    again: Ints
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
    #: Scratch: the arrays to copy, and the spaces they come from.
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


class LimitedMemory(NamedTuple):
    """Further input and state where spaces have capacities; functions get None in its place where memory suffices."""

    touches: ArrayAccesses
    #: Of each space: its capacity, and the bytes held there, by what the current task uses, and by statuses.
    capacity: Ints
    held: Ints
    used: Ints
    status_held: Ints
    foreign: int  # number of memories that are the user's own: they count towards no capacity and are never freed
    remaking: bool  # whether values may be recomputed
    #: Of each whole array: its segments, or itself, as a range of arrays, and its place by size and name.
    first_piece: Ints
    end_piece: Ints
    rank: Ints
    by_rank: Ints
    has_status: Flags  # of each whole array: whether it, or a segment of it, is a status, which is never evicted
    #: Of each array: whether it is a status, whether its last value is needed after the run, and whether it can be
    #: recomputed.
    is_status: Flags
    lasting: Flags
    temporary: Flags
    repeatable: Flags  # of each task: whether it can run again
    again: Ints  # of each task: how many times it has run again
    #: By whole array and space: the run of a task that used it last, and its newest key in the heap of candidates for
    #: eviction (see `residency`).
    in_use: Ints
    newest: Ints
    #: Of each space: the heap and its size. Older keys of an array in it are void.
    heap: Ints
    heap_size: Ints
    maker: Ints  # of each array: position of the task that wrote it, or `NOTHING`
    #: Reads that are not in the schedule, as lists: of each array the first one by position, of each dropped value the
    #: first one that it added (`NOTHING` if it was not dropped, `NO_READS` if it added none); of each read its
    #: position, its array, and the next one in either list.
    first_extra: Ints
    given_up: Ints
    extra_position: Ints
    extra_array: Ints
    next_of_array: Ints
    next_of_value: Ints
    #: Scratch: marks of arrays, keys taken from a heap, a stack, arrays to recompute, and reads of an estimate.
    seen: Ints
    kept: Ints
    stack: Ints
    lost: Ints
    needed: Ints
    counts: Ints  # see `NOW` and the following
    refused: Ints  # task, space and needed bytes where memory does not suffice; `NOTHING` three times if it does


@compiled
def touches_by_array(s: TransferInputs, arrays: int) -> ArrayAccesses:
    """Return the accesses to each array, in global order."""
    count = len(s.access_array)
    starts = np.zeros(arrays + 1, np.int64)
    for array in s.access_array:
        starts[array + 1] += 1
    starts = np.cumsum(starts)
    fill = starts[:-1].copy()
    made = ArrayAccesses(starts, np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint8))
    for position in range(len(s.task)):
        task = s.task[position]
        for access in range(s.access_starts[task], s.access_starts[task + 1]):
            place = fill[s.access_array[access]]
            fill[s.access_array[access]] += 1
            made.position[place] = position
            made.home[place] = s.home[s.device[position]]
            made.mode[place] = s.access_mode[access]
    return made


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


@lean
def holds(m: TransferState, array: int, space: int) -> bool:
    """Return whether the current value of an array is in a space."""
    return bool(m.since[array, space] >= m.written[array])


@lean
def copy_seconds(s: TransferInputs, source: int, destination: int, nbytes: int) -> float:
    """Return the duration of a copy over one link or two; infinity if there is no route."""
    stop = s.stop[source, destination]
    if stop == NOTHING or source == destination:
        return np.inf
    first_s = s.latency_s[source, stop] + nbytes / s.bytes_per_s[source, stop]
    if stop == destination:
        return float(first_s)
    return float(first_s + (s.latency_s[stop, destination] + nbytes / s.bytes_per_s[stop, destination]))
