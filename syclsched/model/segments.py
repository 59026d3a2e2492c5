# SPDX-License-Identifier: Apache-2.0
"""Segments: an array cut wherever a range begins or ends that some task touches.

No range begins or ends within a segment, so every task touches all of it or nothing. Dependencies, transfers and proofs
take segments for arrays; only memory, in which the rows of a range must follow each other, is the whole array's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from syclsched.model.access import Access, AccessMode, RowRange, rows_name
from syclsched.model.task import LogicalArray, Task


class Segment(NamedTuple):
    """Some rows of an array.

    Parameters
    ----------
    name : str
        ``a[0:100]``.
    whole : str
        Name of the array.
    rows : (int, int)
        First row and one past the last.
    """

    name: str
    whole: str
    rows: RowRange


#: The segments of each array of which some task touches a part, in order: they make up the array.
Segments = Mapping[str, tuple[Segment, ...]]


def find_segments(tasks: Iterable[Task], arrays: Mapping[str, LogicalArray]) -> dict[str, tuple[Segment, ...]]:
    """Return the segments of every array of which some task touches a part.

    Parameters
    ----------
    tasks : iterable of Task
        All tasks of a graph.
    arrays : Mapping[str, LogicalArray]
        Its arrays, by name.

    Returns
    -------
    dict of str to tuple of Segment
        By name of the array; empty if all tasks touch whole arrays.
    """
    ends: dict[str, set[int]] = {}
    for task in tasks:
        if task.rows:
            for access in task.accesses:
                if access.rows is not None:
                    ends.setdefault(access.array, set()).update(access.rows)
    found = {}
    for name, inner in ends.items():
        bounds = sorted(inner | {0, arrays[name].shape[0]})
        found[name] = tuple([Segment(rows_name(name, rows), name, rows) for rows in pairwise(bounds)])
    return found


def touched_segments(tasks: Iterable[Task], segments: Segments) -> list[tuple[Access, ...]]:
    """Return what each task touches, with segments in place of the arrays that are cut.

    Parameters
    ----------
    tasks : iterable of Task
        Of a graph.
    segments : Segments
        The graph's.

    Returns
    -------
    list of tuple of Access
        By task; each array or segment once, none of them with rows.
    """
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
    """Return segments as few ranges, those that follow each other together.

    Parameters
    ----------
    segments : iterable of Segment
        In any order.

    Returns
    -------
    list of (str, (int, int))
        Name of the whole array, and rows; sorted.
    """
    found: list[tuple[str, RowRange]] = []
    for _, whole, rows in sorted(segments, key=lambda s: (s.whole, s.rows)):
        if found and found[-1][0] == whole and found[-1][1][1] == rows[0]:
            found[-1] = (whole, (found[-1][1][0], rows[1]))
        else:
            found.append((whole, rows))
    return found
