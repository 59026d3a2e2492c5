# SPDX-License-Identifier: Apache-2.0
"""Dependencies implied by the order of submission and the declared accesses (RAW, WAR, WAW) and by barriers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from syclsched.model.access import row_range_name
from syclsched.model.graph_parts.access_columns import READS, WRITES, AccessColumns, Flags, Ints
from syclsched.model.graph_parts.segments import Segments, joined_rows

DependencyKind = Literal["RAW", "WAR", "WAW", "explicit", "barrier"]

#: The kinds of implied dependencies, in the order of their codes.
KINDS: Final[tuple[DependencyKind, ...]] = ("RAW", "WAR", "WAW", "barrier")
_RAW, _WAR, _WAW, _BARRIER = range(4)


class Dependency(NamedTuple):
    """A dependency: task ``after`` must not start before task ``before`` has finished.

    Parameters
    ----------
    before, after : str
        Task names.
    kind : str
        ``RAW`` (read after write: data flows), ``WAR``, ``WAW``, ``explicit`` or ``barrier``.
    array : str or None
        The array or range of rows (``a[0:100]``) that causes it; None for explicit edges and barriers.
    """

    before: str
    after: str
    kind: DependencyKind
    array: str | None = None


class ImplicitEdges(NamedTuple):
    """Dependencies as columns, as in `Dependency`, with tasks given by their positions in the order of submission."""

    before: Ints
    after: Ints
    kind: Ints  # index into `KINDS`
    array: Ints  # index into ``arrays``; -1 for none
    arrays: tuple[str, ...]


def named_dependencies(
    names: Sequence[str], edges: ImplicitEdges, segments: Segments | None = None
) -> tuple[Dependency, ...]:
    """Return edges as dependencies between tasks, given by name; those of adjacent segments are merged."""
    columns = (
        (names, edges.before),
        (names, edges.after),
        (KINDS, edges.kind),
        ((*edges.arrays, None), edges.array),  # -1 is the last
    )
    found = tuple(
        map(Dependency._make, zip(*(map(each.__getitem__, index.tolist()) for each, index in columns), strict=True))
    )
    return _with_joined_rows(found, segments) if segments else found


def _with_joined_rows(dependencies: Iterable[Dependency], segments: Segments) -> tuple[Dependency, ...]:
    """Merge dependencies of the same two tasks that are caused by adjacent segments."""
    by_name = {segment.name: segment for cut in segments.values() for segment in cut}
    wholes = {name: segment.whole for name, segment in by_name.items()}
    groups: dict[tuple[str, str, str, str | None], list[Dependency]] = {}
    for dependency in dependencies:
        before, after, kind, array = dependency
        groups.setdefault((before, after, kind, wholes.get(array or "", array)), []).append(dependency)
    found: list[Dependency] = []
    for alike in groups.values():
        if len(alike) == 1:
            found += alike
            continue
        before, after, kind, _ = alike[0]
        for array, rows in joined_rows([by_name[each.array or ""] for each in alike]):
            name = array if rows == (0, segments[array][-1].rows[1]) else row_range_name(array, rows)
            found.append(Dependency(before, after, kind, name))
    return tuple(found)


def implicit_edges(accesses: AccessColumns, barrier: Flags) -> ImplicitEdges:
    """Return the dependencies implied by accesses and order of submission, ordered by the later task, then its access.

    A reader depends on the last writer (RAW), a writer on every reader since the last writer (WAR), or on the last
    writer if there was no reader (WAW). Dependencies on earlier writers follow transitively and are not listed. A
    barrier depends on every task since the last barrier (or on that barrier), and every later task depends on it.
    ``barrier`` tells which tasks are barriers.
    """
    # The accesses of each array, in order of submission: between two writers there are only readers.
    order = np.argsort(accesses.array, kind="stable")
    array, mode, count = accesses.array[order], accesses.mode[order], len(order)
    reads, writes, place = READS[mode], WRITES[mode], np.arange(count)
    other = np.ones(count, np.bool_)  # than the array of the access before
    other[1:] = array[1:] != array[:-1]
    writer = np.full(count, -1)  # the last one before each access
    writer[1:] = np.maximum.accumulate(np.where(writes, place, -1))[:-1]
    writer[writer < np.maximum.accumulate(np.where(other, place, 0))] = -1
    raw = np.flatnonzero(reads & (writer >= 0))
    waw = np.flatnonzero(~reads & (writer >= 0) & (writer == place - 1))
    reader = np.flatnonzero(~writes)
    overwriter = np.minimum.accumulate(np.where(writes, place, count)[::-1])[::-1][reader]
    overwritten = overwriter < count
    overwritten[overwritten] = array[overwriter[overwritten]] == array[reader[overwritten]]
    reader, overwriter = reader[overwritten], overwriter[overwritten]
    task = accesses.tasks()[order]
    later = np.concatenate((raw, overwriter, waw))
    earlier = np.concatenate((writer[raw], reader, writer[waw]))
    kind = np.repeat([_RAW, _WAR, _WAW], [len(raw), len(reader), len(waw)])
    before, after, ending = task[earlier], task[later], array[later]
    key = 4 * order[later] + 1 + (kind != _RAW)
    if barrier.any():
        first, second = _barrier_edges(barrier)
        before, after = np.concatenate((first, before)), np.concatenate((second, after))
        kind = np.concatenate((np.full(len(first), _BARRIER), kind))
        ending = np.concatenate((np.full(len(first), -1), ending))
        key = np.concatenate((4 * accesses.starts[second], key))
    sort = np.argsort(key, kind="stable")
    return ImplicitEdges(before[sort], after[sort], kind[sort], ending[sort], accesses.names)


def _barrier_edges(barrier: Flags) -> tuple[Ints, Ints]:
    """Return the dependencies from and to barriers, ordered by the later task."""
    place = np.arange(len(barrier))
    last = np.full(len(barrier), -1)  # the last barrier before each task
    last[1:] = np.maximum.accumulate(np.where(barrier, place, -1))[:-1]
    after = np.flatnonzero(last >= 0)
    # A barrier waits for the tasks since the last one, and through them for that one.
    after = after[~(barrier[after] & (last[after] < after - 1))]
    ending = np.minimum.accumulate(np.where(barrier, place, len(place))[::-1])[::-1]  # the next barrier, or itself
    ended = np.flatnonzero(~barrier & (ending < len(place)))
    before, after = np.concatenate((last[after], ended)), np.concatenate((after, ending[ended]))
    order = np.argsort(after, kind="stable")
    return before[order], after[order]
