# SPDX-License-Identifier: Apache-2.0
"""Memory use of a timetable in each space, from the liveness of items and their copies.

A *block* is an item, or a copy of it, in one space, from its allocation until its last use there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.compiled import compiled
from syclsched.scheduling.data_locations import DataLocations
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats, Ints, Tables
from syclsched.scheduling.timetable import Timetable

Flags = npt.NDArray[np.bool_]


class Blocks(NamedTuple):
    """Blocks of memory; arrays of one length."""

    #: The item, and the space of its memory.
    item: Ints
    space: Ints
    #: Lifetime: from ``begin_s``, up to but excluding ``end_s``.
    begin_s: Floats
    end_s: Floats


def peak_bytes(problem: Problem, timetable: Timetable, done_s: float) -> Floats:
    """Return the peak memory use of each space."""
    tables = problem.tables
    made = blocks(problem, timetable, done_s)
    nbytes = tables.item_bytes[made.item]
    real = (nbytes > 0.0) & (made.end_s > made.begin_s)
    space, nbytes = made.space[real], nbytes[real]
    begin_s, end_s = made.begin_s[real], made.end_s[real]
    # At one instant, releases come before allocations.
    time_s = np.concatenate([end_s, begin_s])
    order = np.argsort(time_s, kind="stable")
    held = np.concatenate([-nbytes, nbytes])[order]
    return problem.input_bytes() + _sweep(np.concatenate([space, space])[order], held, len(problem.spaces))


def blocks(problem: Problem, timetable: Timetable, done_s: float) -> Blocks:
    """Return every block of memory that a run by a timetable allocates.

    Notes
    -----
    A new array is allocated at the start of its task, an in-place result at its finish, when it takes over the memory
    of the old value. A listed copy is allocated at its start. In the contention-free model, where copies can be made at
    any time, copies to host memory and copies of wanted results are made at once, all others as late as their first
    reader allows. A block ends with its last reader, or with the last copy from it.
    """
    tables = problem.tables
    where = DataLocations(tables, timetable)
    task = np.repeat(np.arange(len(problem)), np.diff(tables.read_start))
    device = tables.processor_device[timetable.processor]
    reads = _Reads(tables.read_item, _read_in(tables, where, tables.read_item, device[task]), task)
    copied = _copies(problem, timetable, where, reads)
    own = _in_user_memory(tables, where.origin)
    made = np.flatnonzero((tables.item_producer != NOTHING) & ~own)
    width = len(problem.spaces)
    key = np.concatenate([made * width + where.origin[made], copied.item * width + copied.space])
    fresh = np.ones(len(own), dtype=bool)
    fresh[tables.make_item[tables.make_replaces != NOTHING]] = False
    start_s = timetable.start_s[tables.item_producer[made]]
    begin_s = np.concatenate([np.where(fresh[made], start_s, where.made_s[made]), copied.begin_s])
    least_s = np.concatenate([where.made_s[made], copied.end_s])
    # A copy keeps its source alive until it is complete.
    used_key = np.concatenate(
        [
            reads.item * width + reads.space,
            copied.item * width + where.origin[copied.item],
            _held(problem, where, width),
        ]
    )
    until_s = np.concatenate(
        [timetable.finish_s[reads.task], copied.end_s, np.full(len(used_key) - len(task) - len(copied.item), done_s)]
    )
    order = np.argsort(key, kind="stable")
    key, begin_s, end_s = key[order], begin_s[order], least_s[order]
    if len(key):
        index = np.minimum(np.searchsorted(key, used_key), len(key) - 1)
        hit = key[index] == used_key
        np.maximum.at(end_s, index[hit], until_s[hit])
    return Blocks(key // width, key % width, begin_s, end_s)


# --- inside ---------------------------------------------------------------------------------------


class _Reads(NamedTuple):
    """Reads: an item, the space it is read in, and the reading task."""

    item: Ints
    space: Ints
    task: Ints


def _read_in(tables: Tables, where: DataLocations, item: Ints, device: Ints) -> Ints:
    """Return the space in which each device reads each item: its origin if reached, else the one where it is first."""
    width = np.diff(tables.reach_start)
    best_s: Floats = np.full(len(item), math.inf)
    best: Ints = tables.reach_space[tables.reach_start[device]]
    origin = where.origin[item]
    for rank in range(int(width.max(initial=0))):
        has = np.flatnonzero(width[device] > rank)
        space = tables.reach_space[tables.reach_start[device[has]] + rank]
        ready_s = np.where(space == origin[has], -1.0, where.ready_s(item[has], space))
        better = ready_s < best_s[has]
        best_s[has[better]], best[has[better]] = ready_s[better], space[better]
    return best


def _copies(problem: Problem, timetable: Timetable, where: DataLocations, reads: _Reads) -> Blocks:
    """Return the copies, from their start to their completion."""
    if problem.has_channels:
        listed = timetable.copies
        assert listed is not None, "a valid timetable of a problem with channels lists copies"
        return Blocks(listed.item, listed.destination, listed.start_s, listed.finish_s)
    tables, width = problem.tables, len(problem.spaces)
    away = (reads.space != where.origin[reads.item]) & (tables.item_bytes[reads.item] > 0.0)
    is_wanted = (tables.want_space != where.origin[tables.want_item]) & (tables.item_bytes[tables.want_item] > 0.0)
    key = np.concatenate(
        [
            reads.item[away] * width + reads.space[away],
            tables.want_item[is_wanted] * width + tables.want_space[is_wanted],
        ]
    )
    needed_s = np.concatenate([timetable.start_s[reads.task[away]], where.made_s[tables.want_item[is_wanted]]])
    unique, row = np.unique(key, return_inverse=True)
    item, space = unique // width, unique % width
    arrival_s = where.ready_s(item, space)
    complete_s = np.full(len(unique), math.inf)
    np.minimum.at(complete_s, row, needed_s)
    at_once = (space == problem.backing_space) | (complete_s < arrival_s)
    complete_s = np.where(at_once, arrival_s, complete_s)
    seconds = arrival_s - where.made_s[item]
    return Blocks(item, space, complete_s - seconds, complete_s)


def _held(problem: Problem, where: DataLocations, width: int) -> Ints:
    """Return the keys of blocks that stay until the end."""
    tables = problem.tables
    lasting = np.asarray(problem.lasting, dtype=np.int64)
    return np.concatenate([tables.want_item * width + tables.want_space, lasting * width + where.origin[lasting]])


def _in_user_memory(tables: Tables, origin: Ints) -> Flags:
    """Return which items lie in the user's own memory: inputs, and items that replaced them there in place."""
    return _propagate_own(tables.item_producer == NOTHING, tables.make_item, tables.make_replaces, origin)


@compiled
def _propagate_own(own: Flags, make_item: Ints, make_replaces: Ints, origin: Ints) -> Flags:
    """Propagate the mark from old to new items; rows are in topological order."""
    for row in range(make_item.size):
        old = make_replaces[row]
        if old >= 0 and own[old] and origin[make_item[row]] == origin[old]:
            own[make_item[row]] = True
    return own


@compiled
def _sweep(space: Ints, change: Floats, spaces: int) -> Floats:
    """Return the highest running sum of changes in each space."""
    held, peak = np.zeros(spaces), np.zeros(spaces)
    for k in range(space.size):
        held[space[k]] += change[k]
        peak[space[k]] = max(peak[space[k]], held[space[k]])
    return peak
