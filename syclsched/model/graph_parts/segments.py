# SPDX-License-Identifier: Apache-2.0
"""Segments of arrays: maximal ranges of rows that every task accesses either completely or not at all.

An array is cut at every start and end of a range that some task accesses. Dependency analysis, transfers and
verification treat segments as arrays; only memory allocation uses whole arrays, since a range must be contiguous.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from syclsched.model.access import Access, AccessMode, RowRange, row_range_name
from syclsched.model.task import LogicalArray, Task


class Segment(NamedTuple):
    """A segment of an array."""

    name: str  # of the segment, such as ``a[0:100]``
    whole: str  # name of the array
    rows: RowRange


#: The segments of each array that some task accesses in part, in order; together they are the array.
Segments = Mapping[str, tuple[Segment, ...]]


def find_segments(tasks: Iterable[Task], arrays: Mapping[str, LogicalArray]) -> dict[str, tuple[Segment, ...]]:
    """Return the segments, by array name, of every array that some task accesses in part."""
    ends: dict[str, set[int]] = {}
    for task in tasks:
        if task.rows:
            for access in task.accesses:
                if access.rows is not None:
                    ends.setdefault(access.array, set()).update(access.rows)
    found = {}
    for name, inner in ends.items():
        bounds = sorted(inner | {0, arrays[name].shape[0]})
        found[name] = tuple([Segment(row_range_name(name, rows), name, rows) for rows in pairwise(bounds)])
    return found


def segment_accesses(tasks: Iterable[Task], segments: Segments) -> list[tuple[Access, ...]]:
    """Return the accesses of each task, with segments in place of segmented arrays, each once, without rows."""
    if not segments:
        return [task.accesses for task in tasks]
    starts = {name: [segment.rows[0] for segment in cut] for name, cut in segments.items()}
    return [_touched(task.accesses, segments, starts) for task in tasks]


def _touched(
    accesses: tuple[Access, ...], segments: Segments, starts: Mapping[str, Sequence[int]]
) -> tuple[Access, ...]:
    if all(access.array not in segments for access in accesses):
        return accesses
    modes: dict[str, AccessMode] = {}
    for access in accesses:
        if access.array not in segments:
            names = [access.array]
        elif access.rows is None:
            names = [segment.name for segment in segments[access.array]]
        else:
            first, last = (bisect_left(starts[access.array], row) for row in access.rows)
            names = [segment.name for segment in segments[access.array][first:last]]
        for name in names:
            modes[name] = modes[name].merged(access.mode) if name in modes else access.mode
    return tuple([Access(name, mode) for name, mode in modes.items()])


def joined_rows(segments: Iterable[Segment]) -> list[tuple[str, RowRange]]:
    """Merge adjacent segments into ranges of rows; return sorted pairs of array name and row range."""
    found: list[tuple[str, RowRange]] = []
    for _, whole, rows in sorted(segments, key=lambda s: (s.whole, s.rows)):
        if found and found[-1][0] == whole and found[-1][1][1] == rows[0]:
            found[-1] = (whole, (found[-1][1][0], rows[1]))
        else:
            found.append((whole, rows))
    return found
