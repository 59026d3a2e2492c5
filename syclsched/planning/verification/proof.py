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

from syclsched.compiled import compiled, lean
from syclsched.planning.draft import Flags, Ints
from syclsched.planning.plan_indices import ALLOC, COPY, FREE, LAUNCH, READING, WRITING, PlanIndices

#: Result codes of the walk: `CORRECT` if the plan is right, or its first defect.
CORRECT, NO_MEMORY, FREED, RACE, VALUE, TWICE, TASK_ORDER, TWO_BLOCKS, FOREIGN, FREE_ORDER, ONCE_ONLY = range(11)

#: Values of a buffer that no task has written: the user's input, or undefined.
INPUT: Final = -1
NO_TASK: Final = -2

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
    value: Ints  # of each buffer: the task that wrote its final value, or `INPUT` or `NO_TASK`
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


class _Clocks(NamedTuple):
    """Vector clocks: of each lane, the number of its instructions that have finished."""

    now: Ints  # when the current instruction starts
    lane: Ints  # when the next instruction of each lane starts, before its waits
    done: Ints  # when instructions that others wait for have finished
    row: Ints  # of each instruction: its row in `done`; -1 if none waits for it


class _Runs(NamedTuple):
    """Of each task: the instruction that ran it first (-1 if none did), and how often it ran."""

    first: Ints
    times: Ints


@compiled
def _new_buffers(numbers: PlanIndices) -> _Buffers:
    """Return the state of the buffers before the plan: inputs have memory and values."""
    buffers, uses = len(numbers.buffer_array), len(numbers.use_array)
    return _Buffers(
        numbers.is_input.copy(),
        np.full(buffers, -1, np.int64),
        np.full(buffers, -1, np.int64),
        np.full(buffers, -1, np.int64),
        np.full(buffers, -1, np.int64),
        np.full(uses, -1, np.int64),
        np.full(uses, -1, np.int64),
        np.where(numbers.is_input, INPUT, NO_TASK),
    )


@compiled
def _new_clocks(numbers: PlanIndices) -> _Clocks:
    """Return the clocks before the plan."""
    lanes = numbers.lane_count
    row = np.full(len(numbers.lane), -1, np.int64)
    rows = 0
    for before in numbers.waits:
        if row[before] < 0:
            row[before] = rows
            rows += 1
    return _Clocks(
        np.zeros(lanes, np.int64), np.zeros((lanes, lanes), np.int64), np.zeros((rows, lanes), np.int64), row
    )


@compiled
def _expected_values(access_starts: Ints, access_array: Ints, access_mode: Ints, array_count: int) -> tuple[Ints, Ints]:
    """Return the task whose value each access reads in the sequential program, and each array's last writer."""
    current = np.full(array_count, INPUT, np.int64)
    expected = np.full(len(access_array), NO_TASK, np.int64)
    for task in range(len(access_starts) - 1):
        for k in range(access_starts[task], access_starts[task + 1]):
            if _READING[access_mode[k]]:
                expected[k] = current[access_array[k]]
        for k in range(access_starts[task], access_starts[task + 1]):
            if _WRITING[access_mode[k]]:
                current[access_array[k]] = task
    return expected, current


# --- order --------------------------------------------------------------------------------------------


@lean
def _start(clocks: _Clocks, numbers: PlanIndices, me: int) -> None:
    """Set the clock with which an instruction starts: its lane's, joined with those of its waits."""
    now, done, row, lane = clocks.now, clocks.done, clocks.row, numbers.lane[me]
    for n in range(now.size):
        now[n] = clocks.lane[lane, n]
    for k in range(numbers.wait_starts[me], numbers.wait_starts[me + 1]):
        for n in range(now.size):
            now[n] = max(now[n], done[row[numbers.waits[k]], n])


@lean
def _finish(clocks: _Clocks, numbers: PlanIndices, me: int) -> None:
    """Record the end of an instruction in the clocks of its lane and of those that wait for it."""
    now, lane, kind, finished = clocks.now, numbers.lane[me], numbers.kind[me], numbers.position[me] + 1
    if kind < COPY:
        # An allocation or a free may take effect at any time after its waits, so its clock does not pass on to
        # later instructions of the lane.
        clocks.lane[lane, lane] = finished
    now[lane] = finished
    if kind >= COPY:
        for n in range(now.size):
            clocks.lane[lane, n] = now[n]
    if clocks.row[me] >= 0:
        for n in range(now.size):
            clocks.done[clocks.row[me], n] = now[n]


@lean
def _begin_task(runs: _Runs, numbers: PlanIndices, me: int, clock: Ints) -> tuple[int, int]:
    """Count a run of a task; return a defect of its repetition or of its order after other tasks."""
    task = numbers.task[me]
    if numbers.again[me] != runs.times[task]:
        return TWICE, -1
    if runs.times[task] and not numbers.repeatable[task]:
        return ONCE_ONLY, -1
    runs.times[task] += 1
    for k in range(numbers.after_starts[task], numbers.after_starts[task + 1]):
        before = runs.first[numbers.after[k]]
        if before < 0 or clock[numbers.lane[before]] <= numbers.position[before]:
            return TASK_ORDER, numbers.after[k]
    if runs.first[task] < 0:
        runs.first[task] = me
    return CORRECT, -1


@lean
def _conflict(buffers: _Buffers, numbers: PlanIndices, buffer: int, writes: bool, me: int, clock: Ints) -> int:
    """Return an earlier instruction that this access must follow but does not; -1 if there is none."""
    lane, position = numbers.lane, numbers.position
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


# --- memory and values --------------------------------------------------------------------------------


@lean
def _allocate(
    buffers: _Buffers, numbers: PlanIndices, buffer: int, me: int, clock: Ints, shared: Flags
) -> tuple[int, int]:
    """Give a buffer memory without a value; return a defect."""
    code, other, freed = CORRECT, -1, buffers.freed[buffer]
    if buffers.live[buffer]:
        code = TWO_BLOCKS
    elif freed >= 0 and clock[numbers.lane[freed]] <= numbers.position[freed]:
        code, other = FREE_ORDER, freed
    buffers.live[buffer], buffers.value[buffer] = True, NO_TASK
    buffers.allocated[buffer] = -1 if shared[buffer] else me
    buffers.writer[buffer], buffers.newest[buffer] = -1, -1
    return code, other


@lean
def _access(
    buffers: _Buffers, numbers: PlanIndices, use: int, me: int, kind: int, clock: Ints, expected: Ints
) -> tuple[int, int]:
    """Record a read or write of a buffer with memory; return a defect of its order or of the value it reads."""
    buffer, mode = numbers.use_buffer[use], numbers.use_mode[use]
    code, other = CORRECT, _conflict(buffers, numbers, buffer, _WRITING[mode], me, clock)
    if other >= 0:
        code = RACE
    elif kind >= LAUNCH and _READING[mode]:
        value = expected[numbers.access_starts[numbers.task[me]] + use - numbers.use_starts[me]]
        if buffers.value[buffer] != value:
            code, other = VALUE, value
    if _WRITING[mode]:
        buffers.writer[buffer], buffers.newest[buffer] = me, -1
    else:
        buffers.reader[use], buffers.older[use] = me, buffers.newest[buffer]
        buffers.newest[buffer] = use
    return code, other


@lean
def _use(
    buffers: _Buffers,
    numbers: PlanIndices,
    use: int,
    me: int,
    kind: int,
    clock: Ints,
    shared: Flags,
    expected: Ints,
) -> tuple[int, int]:
    """Carry out one use of a buffer by an instruction; return a defect."""
    buffer = numbers.use_buffer[use]
    if kind == ALLOC:
        return _allocate(buffers, numbers, buffer, me, clock, shared)
    if not buffers.live[buffer]:
        return (NO_MEMORY if buffers.freed[buffer] < 0 else FREED), -1
    if kind == FREE and numbers.is_input[buffer]:
        return FOREIGN, -1
    code, other = _access(buffers, numbers, use, me, kind, clock, expected)
    if code == CORRECT:
        if kind == FREE:
            buffers.live[buffer], buffers.freed[buffer] = False, me
        elif kind == COPY and _WRITING[numbers.use_mode[use]]:
            buffers.value[buffer] = buffers.value[numbers.use_buffer[use - 1]]
    return code, other


@lean
def _write_results(buffers: _Buffers, numbers: PlanIndices, me: int) -> None:
    """Set the values of the buffers that a task writes."""
    for k in range(numbers.use_starts[me], numbers.use_starts[me + 1]):
        if _WRITING[numbers.use_mode[k]]:
            buffers.value[numbers.use_buffer[k]] = numbers.task[me]


# --- the walk -----------------------------------------------------------------------------------------


@compiled
def walk(numbers: PlanIndices, shared: Flags) -> ProofResult:
    """Walk through a plan's instructions and stop at the first defect."""
    tasks = len(numbers.access_starts) - 1
    expected, last = _expected_values(
        numbers.access_starts, numbers.access_array, numbers.access_mode, numbers.array_count
    )
    buffers, clocks = _new_buffers(numbers), _new_clocks(numbers)
    runs = _Runs(np.full(tasks, -1, np.int64), np.zeros(tasks, np.int64))
    code, me, other, use = CORRECT, -1, -1, -1
    for me in range(len(numbers.lane)):
        _start(clocks, numbers, me)
        kind = numbers.kind[me]
        if kind >= LAUNCH:
            code, other = _begin_task(runs, numbers, me, clocks.now)
            if code != CORRECT:
                break
        for k in range(numbers.use_starts[me], numbers.use_starts[me + 1]):
            use = k
            code, other = _use(buffers, numbers, use, me, kind, clocks.now, shared, expected)
            if code != CORRECT:
                break
        if code != CORRECT:
            break
        if kind >= LAUNCH:
            _write_results(buffers, numbers, me)
        _finish(clocks, numbers, me)
    return ProofResult(code, me, other, use, runs.first, buffers.value, buffers.live, expected, last)
