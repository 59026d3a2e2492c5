# SPDX-License-Identifier: Apache-2.0
"""Dependencies that follow from the order of submission and the declared accesses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from syclsched.model.access import Access, AccessMode, rows_name
from syclsched.model.segments import Segments, joined_rows
from syclsched.model.task import Task

DependencyKind = Literal["RAW", "WAR", "WAW", "explicit", "barrier"]


class Dependency(NamedTuple):
    """``after`` must not start before ``before`` has finished.

    Parameters
    ----------
    before, after : str
        Task names.
    kind : str
        ``RAW`` (read after write: data flows), ``WAR``, ``WAW``, ``explicit`` or ``barrier``.
    array : str or None
        The array that causes it, or the rows of one (``a[0:100]``); None for explicit edges and barriers.
    """

    before: str
    after: str
    kind: DependencyKind
    array: str | None = None


class ImplicitEdges(NamedTuple):
    """The same as dependencies, in columns, with tasks as positions in the order of submission.

    Parameters
    ----------
    before, after : list of int
        Positions.
    kind : list of str
        As in `Dependency`.
    array : list of (str or None)
        As in `Dependency`.
    """

    before: list[int]
    after: list[int]
    kind: list[DependencyKind]
    array: list[str | None]


def implicit_dependencies(
    tasks: Iterable[Task],
    touched: Sequence[Sequence[Access]] | None = None,
    segments: Segments | None = None,
) -> tuple[Dependency, ...]:
    """Return the dependencies implied by the tasks' accesses in their order.

    A reader depends on the last writer (RAW); a writer on the last writer (WAW) and on every reader since
    (WAR). Dependencies on writers further back follow transitively and are not listed. A barrier comes after every
    task before it that nothing has followed yet, and before every task after it.

    Parameters
    ----------
    tasks : iterable of Task
        In order of submission.
    touched : sequence of sequence of Access, optional
        What each task touches, by segments; see `implicit_edges`.
    segments : Segments, optional
        The segments there are.

    Returns
    -------
    tuple of Dependency
        Without duplicates, in order of the later task. Two tasks that meet in rows that follow each other have one
        dependency for all of these.
    """
    tasks = list(tasks)
    names = [task.name for task in tasks]
    edges = implicit_edges(tasks, touched)
    befores, afters = [names[i] for i in edges.before], [names[i] for i in edges.after]
    found = tuple(map(Dependency._make, zip(befores, afters, edges.kind, edges.array, strict=True)))
    return _with_joined_rows(found, segments) if segments else found


def _with_joined_rows(dependencies: Iterable[Dependency], segments: Segments) -> tuple[Dependency, ...]:
    """Return the same with one dependency for all rows that follow each other."""
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
            name = array if rows == (0, segments[array][-1].rows[1]) else rows_name(array, rows)
            found.append(Dependency(before, after, kind, name))
    return tuple(found)


def implicit_edges(tasks: Iterable[Task], touched: Sequence[Sequence[Access]] | None = None) -> ImplicitEdges:
    """Return the same as `implicit_dependencies`, by position: for graphs of many tasks.

    Parameters
    ----------
    tasks : iterable of Task
        In order of submission.
    touched : sequence of sequence of Access, optional
        What each task touches: segments in place of arrays of which some task touches a part; see
        `syclsched.model.segments`. The tasks' accesses if not given: then none of them may have rows.

    Returns
    -------
    ImplicitEdges
        In the same order; arrays as in ``touched``.
    """
    last_writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    since_barrier: list[int] = []
    barrier: int | None = None
    found = ImplicitEdges([], [], [], [])

    def depend(befores: list[int], after: int, kind: DependencyKind, array: str | None) -> None:
        found.before.extend(befores)
        found.after.extend([after] * len(befores))
        found.kind.extend([kind] * len(befores))
        found.array.extend([array] * len(befores))

    tasks = list(tasks)
    accesses = [task.accesses for task in tasks] if touched is None else touched
    for place, task in enumerate(tasks):
        if task.kind == "barrier":
            depend(since_barrier or ([] if barrier is None else [barrier]), place, "barrier", None)
            barrier, since_barrier = place, []
        else:
            if barrier is not None:
                depend([barrier], place, "barrier", None)
            since_barrier.append(place)
        for access in accesses[place]:
            array, mode = access.array, access.mode
            writer = last_writer.get(array)
            if writer is not None and mode is not AccessMode.WRITE:
                depend([writer], place, "RAW", array)
            if mode is AccessMode.READ:
                readers.setdefault(array, []).append(place)
                continue
            earlier = readers.pop(array, None)
            if earlier is not None:
                depend(earlier, place, "WAR", array)
            elif writer is not None and mode is AccessMode.WRITE:
                depend([writer], place, "WAW", array)
            last_writer[array] = place
    return found
