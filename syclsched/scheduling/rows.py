# SPDX-License-Identifier: Apache-2.0
"""Compressed sparse rows (CSR), and a topological numbering, from lists of entries."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.compiled import compiled
from syclsched.scheduling.tables import Floats, Ints

#: Some columns of `Tables`, by their names.
Columns = dict[str, npt.NDArray[Any]]


class _SparseRows(NamedTuple):
    """Entries sorted into compressed sparse rows."""

    start: Ints  # start of each row
    entry: Ints  # the entries row by row; within a row in their given order


@compiled
def rows_of(owner: Ints, count: int) -> _SparseRows:
    """Group entries into rows by owner, by counting sort."""
    start = np.zeros(count + 1, dtype=np.int64)
    for row in owner:
        start[row + 1] += 1
    for row in range(count):
        start[row + 1] += start[row]
    place = start[:-1].copy()
    entry = np.empty(len(owner), dtype=np.int64)
    for index in range(len(owner)):
        entry[place[owner[index]]] = index
        place[owner[index]] += 1
    return _SparseRows(start, entry)


def row_starts(owner: Ints, count: int) -> Ints:
    """Return the row starts of entries that are sorted by owner."""
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner, minlength=count), out=starts[1:])
    return starts


def arcs(count: int, before: Ints, after: Ints, nbytes: Floats) -> Columns:
    """Return the arc columns of `Tables`: rows of predecessors and of successors, one arc for each pair of tasks."""
    if not _are_sorted(before, after):
        order = sorted_by_ends(count, before, after)
        before, after, nbytes = before[order], after[order], nbytes[order]
    copies = (nbytes > 0.0).astype(np.int64)
    first = np.ones(len(before), dtype=bool)
    first[1:] = (before[1:] != before[:-1]) | (after[1:] != after[:-1])
    if not first.all():
        heads = np.flatnonzero(first)
        before, after = before[heads], after[heads]
        nbytes, copies = np.add.reduceat(nbytes, heads), np.add.reduceat(copies, heads)
    pred_start, back = rows_of(after, count)
    succ_start = row_starts(before, count)
    return {
        "pred_start": pred_start, "pred_task": before[back], "pred_bytes": nbytes[back], "pred_copies": copies[back],
        "succ_start": succ_start, "succ_task": after, "succ_bytes": nbytes, "succ_copies": copies,
    }  # fmt: skip


def sorted_by_ends(count: int, before: Ints, after: Ints) -> Ints:
    """Return the order of edges by first task, then by second task."""
    order = rows_of(after, count).entry
    return order[rows_of(before[order], count).entry]


def topological_numbering(count: int, before: Ints, after: Ints) -> Ints:
    """Return the tasks so that every edge points forward, by smallest number where free (Kahn 1962)."""
    if bool((before < after).all()):
        return np.arange(count, dtype=np.int64)
    start, order = rows_of(before, count)
    return _kahn(start, after[order], np.bincount(after, minlength=count))


def _are_sorted(before: Ints, after: Ints) -> bool:
    rising = (before[1:] > before[:-1]) | ((before[1:] == before[:-1]) & (after[1:] >= after[:-1]))
    return bool(rising.all())


@compiled
def _kahn(succ_start: Ints, succ_task: Ints, waiting: Ints) -> Ints:
    """Repeatedly take the ready task with the smallest number."""
    count = len(waiting)
    order = np.empty(count, dtype=np.int64)
    ready = [task for task in range(count) if waiting[task] == 0]
    taken = 0
    while len(ready) > 0:
        task = heapq.heappop(ready)
        order[taken] = task
        taken += 1
        for arc in range(succ_start[task], succ_start[task + 1]):
            waiting[succ_task[arc]] -= 1
            if waiting[succ_task[arc]] == 0:
                heapq.heappush(ready, succ_task[arc])
    return order[:taken]
