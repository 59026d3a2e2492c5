# SPDX-License-Identifier: Apache-2.0
"""Happens-before walk through a plan, which proves order and values. Compiled.

A vector clock counts, per lane, the instructions that have finished before an instruction starts in every execution
the plan allows (Mattern 1989). The walk follows the instructions' numbers and keeps, for each buffer, its
last writer and the readers since. Each of them must be covered by the clock of the next conflicting instruction. So
every access is examined once when it is made and once at the next write: the proof takes O((V + E) x lanes), with E the
number of waits and accesses, not of pairs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from syclsched.compiled import compiled
from syclsched.planning.draft import Flags, Ints
from syclsched.planning.plan_indices import ALLOC, COPY, FREE, LAUNCH, READING, WRITING, PlanIndices

#: Result codes of the walk: `NOTHING` if the plan is right, or its first defect.
NOTHING, NO_MEMORY, FREED, RACE, VALUE, TWICE, TASK_ORDER, TWO_BLOCKS, FOREIGN, FREE_ORDER, ONCE_ONLY = range(11)

#: Values of a buffer that no task has written: the user's input, or undefined.
INPUT: Final = -1
NOBODY: Final = -2

_READING = READING
_WRITING = WRITING


class ProofResult(NamedTuple):
    """Result of a walk."""

    code: int
    instruction: int  # where the walk ended
    #: The earlier instruction involved; for `TASK_ORDER` the earlier task, for `VALUE` the expected writer.
    other: int
    use: int  # index of the last use examined
    done: Ints  # of each task: the instruction that ran it first; -1 if none did
    value: Ints  # of each buffer: the task that wrote its final value, or `INPUT` or `NOBODY`
    live: Flags  # of each buffer: whether it has memory at the end
    expected: Ints  # of each access of each task: the task whose value it must read
    last: Ints  # of each array: the task that writes it last; `INPUT` if none does


class _Buffers(NamedTuple):
    """State of each buffer: memory, allocation, last free, last writer, linked list of readers since, value."""

    live: Flags
    allocated: Ints
    freed: Ints
    writer: Ints
    newest: Ints
    older: Ints
    reader: Ints
    value: Ints


@compiled
def _expected_values(access_starts: Ints, access_array: Ints, access_mode: Ints, array_count: int) -> tuple[Ints, Ints]:
    """Return the task whose value each access reads in the sequential program, and each array's last writer."""
    current = np.full(array_count, INPUT, np.int64)
    expected = np.full(len(access_array), NOBODY, np.int64)
    for task in range(len(access_starts) - 1):
        for k in range(access_starts[task], access_starts[task + 1]):
            if _READING[access_mode[k]]:
                expected[k] = current[access_array[k]]
        for k in range(access_starts[task], access_starts[task + 1]):
            if _WRITING[access_mode[k]]:
                current[access_array[k]] = task
    return expected, current


@compiled
def _conflict(buffers: _Buffers, buffer: int, writes: bool, me: int, clock: Ints, lane: Ints, position: Ints) -> int:
    """Return an earlier instruction that this access must follow but does not; -1 if there is none."""
    for before in (buffers.allocated[buffer], buffers.writer[buffer]):
        if before >= 0 and before != me and clock[lane[before]] <= position[before]:
            return int(before)
    if writes:
        link = buffers.newest[buffer]
        while link >= 0:
            before = buffers.reader[link]
            if before != me and clock[lane[before]] <= position[before]:
                return int(before)
            link = buffers.older[link]
    return -1


@compiled
def walk(numbers: PlanIndices, shared: Flags) -> ProofResult:
    """Walk through a plan's instructions and stop at the first defect."""
    lane, position, lanes = numbers.lane, numbers.position, numbers.lane_count
    count, buffer_count, uses = len(lane), len(numbers.buffer_array), len(numbers.use_array)
    tasks = len(numbers.access_starts) - 1
    expected, last = _expected_values(
        numbers.access_starts, numbers.access_array, numbers.access_mode, numbers.array_count
    )
    buffers = _Buffers(
        numbers.is_input.copy(),
        np.full(buffer_count, -1, np.int64),
        np.full(buffer_count, -1, np.int64),
        np.full(buffer_count, -1, np.int64),
        np.full(buffer_count, -1, np.int64),
        np.full(uses, -1, np.int64),
        np.full(uses, -1, np.int64),
        np.where(numbers.is_input, INPUT, NOBODY),
    )
    done = np.full(tasks, -1, np.int64)
    times = np.zeros(tasks, np.int64)
    row = np.full(count, -1, np.int64)  # clocks are kept only for instructions that others wait for
    rows = 0
    for before in numbers.waits:
        if row[before] < 0:
            row[before] = rows
            rows += 1
    done_clock = np.zeros((rows, lanes), np.int64)
    lane_clock = np.zeros((lanes, lanes), np.int64)
    clock = np.zeros(lanes, np.int64)
    code, me, other, use = NOTHING, -1, -1, -1
    for me in range(count):
        clock[:] = lane_clock[lane[me]]
        for k in range(numbers.wait_starts[me], numbers.wait_starts[me + 1]):
            for n in range(lanes):
                clock[n] = max(clock[n], done_clock[row[numbers.waits[k]], n])
        kind, task = numbers.kind[me], numbers.task[me]
        if kind >= LAUNCH:
            if numbers.again[me] != times[task]:
                code = TWICE
                break
            if times[task] and not numbers.repeatable[task]:
                code = ONCE_ONLY
                break
            times[task] += 1
            for k in range(numbers.after_starts[task], numbers.after_starts[task + 1]):
                before = done[numbers.after[k]]
                if before < 0 or clock[lane[before]] <= position[before]:
                    code, other = TASK_ORDER, numbers.after[k]
                    break
            if code != NOTHING:
                break
            if done[task] < 0:
                done[task] = me
        for k in range(numbers.use_starts[me], numbers.use_starts[me + 1]):
            buffer, writes = numbers.use_buffer[k], _WRITING[numbers.use_mode[k]]
            use = k
            if kind == ALLOC:
                freed = buffers.freed[buffer]
                if buffers.live[buffer]:
                    code = TWO_BLOCKS
                elif freed >= 0 and clock[lane[freed]] <= position[freed]:
                    code, other = FREE_ORDER, freed
                buffers.live[buffer], buffers.value[buffer] = True, NOBODY
                buffers.allocated[buffer] = -1 if shared[buffer] else me
                buffers.writer[buffer], buffers.newest[buffer] = -1, -1
            elif not buffers.live[buffer]:
                code = NO_MEMORY if buffers.freed[buffer] < 0 else FREED
            elif kind == FREE and numbers.is_input[buffer]:
                code = FOREIGN
            else:
                other = _conflict(buffers, buffer, writes, me, clock, lane, position)
                if other >= 0:
                    code = RACE
                elif kind >= LAUNCH and _READING[numbers.use_mode[k]]:
                    value = expected[numbers.access_starts[task] + k - numbers.use_starts[me]]
                    if buffers.value[buffer] != value:
                        code, other = VALUE, value
                if writes:
                    buffers.writer[buffer], buffers.newest[buffer] = me, -1
                else:
                    buffers.reader[k], buffers.older[k] = me, buffers.newest[buffer]
                    buffers.newest[buffer] = k
            if code != NOTHING:
                break
            if kind == FREE:
                buffers.live[buffer], buffers.freed[buffer] = False, me
            elif kind == COPY and writes:
                buffers.value[buffer] = buffers.value[numbers.use_buffer[k - 1]]
        if code != NOTHING:
            break
        if kind >= LAUNCH:
            for k in range(numbers.use_starts[me], numbers.use_starts[me + 1]):
                if _WRITING[numbers.use_mode[k]]:
                    buffers.value[numbers.use_buffer[k]] = task
        finished = position[me] + 1
        if kind < COPY:
            # An allocation or a free may take effect at any time after its waits, so its clock does not pass on to
            # later instructions of the lane.
            lane_clock[lane[me], lane[me]] = finished
        clock[lane[me]] = finished
        if kind >= COPY:
            lane_clock[lane[me]] = clock
        if row[me] >= 0:
            done_clock[row[me]] = clock
    return ProofResult(code, me, other, use, done, buffers.value, buffers.live, expected, last)
