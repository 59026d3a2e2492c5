# SPDX-License-Identifier: Apache-2.0
"""Segments in a finished plan: checks against their arrays, and expansion of whole arrays for the proof.

A plan allocates whole arrays and works on segments. For the proof, an allocation of an array counts as one of each of
its segments, so that all it proves about arrays holds for segments, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from syclsched.errors import IncompletePlanError
from syclsched.model.access import row_range_name
from syclsched.model.plan import Plan, PlannedArray, PlannedRows
from syclsched.model.platform import HOST
from syclsched.planning.draft import Flags, Ints, ragged_starts
from syclsched.planning.plan_indices import ALLOC, COPY, FREE, LAUNCH, IndexedPlan, PlanIndices

#: Marks arrays that are not segments.
NONE = -1


class SegmentTable(NamedTuple):
    """For each array of a plan: the index of the array it is rows of, and which rows; `NONE` if not a segment."""

    whole: Ints
    start: Ints
    stop: Ints


def segment_table(plan: Plan) -> SegmentTable | None:
    """Return the segments among a plan's arrays; None if there are none. Refuse wrong or overlapping segments."""
    if all(array.rows is None for array in plan.arrays):
        return None
    number = {array.name: n for n, array in enumerate(plan.arrays)}
    found = SegmentTable(*(np.full(len(plan.arrays), NONE, np.int64) for _ in range(3)))
    for n, array in enumerate(plan.arrays):
        if array.rows is not None:
            whole = number.get(array.rows.array, NONE)
            if whole == NONE or not _is_part(array, array.rows, plan.arrays[whole]):
                raise IncompletePlanError(
                    f"it does not match rows {array.rows.start} to {array.rows.stop} of array {array.rows.array!r}",
                    where=f"array {array.name!r}",
                )
            found.whole[n], found.start[n], found.stop[n] = whole, array.rows.start, array.rows.stop
    order = np.lexsort((found.start, found.whole))
    order = order[found.whole[order] != NONE]
    before, after = order[:-1], order[1:]
    overlap = (found.whole[before] == found.whole[after]) & (found.stop[before] > found.start[after])
    for wrong in np.flatnonzero(overlap)[:1]:
        raise IncompletePlanError(
            f"segments {plan.arrays[before[wrong]].name!r} and {plan.arrays[after[wrong]].name!r} overlap",
            where=f"plan {plan.name!r}",
        )
    return found


def _is_part(array: PlannedArray, rows: PlannedRows, whole: PlannedArray) -> bool:
    count = rows.stop - rows.start
    return (
        whole.rows is None
        and bool(whole.shape)
        and count > 0
        and rows.stop <= whole.shape[0]
        and array.name == row_range_name(whole.name, (rows.start, rows.stop))
        and array.shape == (count, *whole.shape[1:])
        and array.nbytes * whole.shape[0] == whole.nbytes * count
        and math.prod(array.shape[1:]) == math.prod(whole.shape[1:])
        and (array.dtype, array.temporary, array.is_input) == (whole.dtype, whole.temporary, whole.is_input)
    )


def check_segment_uses(read: IndexedPlan, table: SegmentTable) -> None:
    """Refuse allocations of segments, work on whole divided arrays, and segments of a task in different spaces."""
    numbers, plan = read.numbers, read.plan
    instruction = np.repeat(np.arange(len(numbers.kind)), np.diff(numbers.use_starts))
    whole = table.whole[numbers.use_array]
    divided = np.zeros(len(plan.arrays), np.bool_)
    divided[table.whole[table.whole != NONE]] = True
    manages = (numbers.kind[instruction] == ALLOC) | (numbers.kind[instruction] == FREE)
    for use in np.flatnonzero(np.where(manages, whole != NONE, divided[numbers.use_array]))[:1]:
        name = plan.arrays[numbers.use_array[use]].name
        what = "has no memory of its own" if manages[use] else "is touched in parts, and here as a whole"
        raise IncompletePlanError(f"array {name!r} {what}", where=read.where(int(instruction[use])))
    runs = np.flatnonzero((numbers.kind[instruction] >= LAUNCH) & (whole != NONE))
    order = runs[np.lexsort((whole[runs], instruction[runs]))]
    first, second = order[:-1], order[1:]
    same = (instruction[first] == instruction[second]) & (whole[first] == whole[second])
    for wrong in np.flatnonzero(same & (numbers.use_space[first] != numbers.use_space[second]))[:1]:
        index = int(instruction[first[wrong]])
        raise IncompletePlanError(
            f"the rows of array {plan.arrays[whole[first[wrong]]].name!r} that task "
            f"{read.instructions[index].task!r} touches do not lie in one space",
            where=read.where(index),
        )


def follow_each_other(numbers: PlanIndices, table: SegmentTable | None, first: Ints, second: Ints) -> Flags:
    """Return which pairs of uses are adjacent segments of one array."""
    if table is None:
        return np.zeros(len(first), np.bool_)
    one, other = numbers.use_array[first], numbers.use_array[second]
    together: Flags = (table.whole[one] == table.whole[other]) & (table.stop[one] == table.start[other])
    together &= table.whole[one] != NONE
    return together


def shared_buffers(numbers: PlanIndices, table: SegmentTable | None) -> Flags:
    """Return which buffers belong to segments."""
    shared = np.zeros(len(numbers.buffer_array), np.bool_)
    if table is not None:
        shared[:] = (numbers.buffer_array >= 0) & (table.whole[numbers.buffer_array] != NONE)
    return shared


def expand_segments(read: IndexedPlan, table: SegmentTable | None) -> IndexedPlan:
    """Return a plan in which allocations and frees of divided arrays refer to their segments."""
    if table is None:
        return read
    numbers = read.numbers
    space = np.full(len(numbers.buffer_array), [s.name for s in read.plan.platform.spaces].index(HOST))
    residents, names = read.plan.residents, [s.name for s in read.plan.platform.spaces]
    for buffer in np.flatnonzero(numbers.is_input).tolist() if residents else ():
        array = read.plan.arrays[numbers.buffer_array[buffer]].name
        space[buffer] = names.index(residents.get(array, HOST))
    space[numbers.use_buffer] = numbers.use_space  # unused buffers are inputs
    inside: dict[tuple[int, int], list[int]] = {}
    for buffer, array in enumerate(numbers.buffer_array.tolist()):
        if array >= 0 and table.whole[array] != NONE:
            inside.setdefault((int(table.whole[array]), int(space[buffer])), []).append(buffer)
    return read.with_numbers(_with_segments(numbers, inside, np.unique(table.whole)))


def _with_segments(numbers: PlanIndices, inside: Mapping[tuple[int, int], list[int]], wholes: Ints) -> PlanIndices:
    divided = np.zeros(numbers.array_count + 1, np.bool_)  # the last element is for NONE
    divided[wholes] = True
    divided[NONE] = False
    places: list[list[int]] = []  # for each instruction, the old uses its new ones derive from
    buffers: list[list[int]] = []  # the buffers of the new uses
    for index, (begin, end) in enumerate(
        zip(numbers.use_starts[:-1].tolist(), numbers.use_starts[1:].tolist(), strict=True)
    ):
        if numbers.kind[index] < COPY and end > begin and divided[numbers.use_array[begin]]:
            found = inside.get((int(numbers.use_array[begin]), int(numbers.use_space[begin])), [])
            places.append([begin] * len(found))
            buffers.append(found)
        else:
            places.append(list(range(begin, end)))
            buffers.append(numbers.use_buffer[begin:end].tolist())
    place = np.array([p for each in places for p in each], np.int64)
    buffer = np.array([b for each in buffers for b in each], np.int64)
    return numbers._replace(
        use_starts=ragged_starts(places),
        use_array=numbers.buffer_array[buffer] if len(buffer) else place,
        use_space=numbers.use_space[place],
        use_mode=numbers.use_mode[place],
        use_buffer=buffer,
    )
