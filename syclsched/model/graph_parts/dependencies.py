# SPDX-License-Identifier: Apache-2.0
"""Dependencies implied by the order of submission and the declared accesses (RAW, WAR, WAW) and by barriers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from syclsched.model.access import Access, AccessMode, row_range_name
from syclsched.model.graph_parts.segments import Segments, joined_rows
from syclsched.model.task import Task

DependencyKind = Literal["RAW", "WAR", "WAW", "explicit", "barrier"]


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

    before: list[int]
    after: list[int]
    kind: list[DependencyKind]
    array: list[str | None]


def implicit_dependencies(
    tasks: Iterable[Task],
    touched: Sequence[Sequence[Access]] | None = None,
    segments: Segments | None = None,
) -> tuple[Dependency, ...]:
    """Return the dependencies implied by the tasks' accesses and order of submission, ordered by the later task.

    A reader depends on the last writer (RAW), a writer on every reader since the last writer (WAR), or on the last
    writer if there was no reader (WAW). Dependencies on earlier writers follow transitively and are not listed. A
    barrier depends on every task since the last barrier (or on that barrier), and every later task depends on it.
    Adjacent segments that cause the same dependency between two tasks are merged. For ``touched`` see `implicit_edges`.
    """
    tasks = list(tasks)
    return named_dependencies([task.name for task in tasks], implicit_edges(tasks, touched), segments)


def named_dependencies(
    names: Sequence[str], edges: ImplicitEdges, segments: Segments | None = None
) -> tuple[Dependency, ...]:
    """Return edges as dependencies between tasks, given by name; those of adjacent segments are merged."""
    befores, afters = [names[i] for i in edges.before], [names[i] for i in edges.after]
    found = tuple(map(Dependency._make, zip(befores, afters, edges.kind, edges.array, strict=True)))
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


def implicit_edges(tasks: Iterable[Task], touched: Sequence[Sequence[Access]] | None = None) -> ImplicitEdges:
    """Return the dependencies of `implicit_dependencies` as columns, for graphs of many tasks.

    ``touched`` holds the accesses of each task, with segments in place of arrays that some task accesses in part; by
    default the tasks' own accesses, none of which may then have rows.
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
