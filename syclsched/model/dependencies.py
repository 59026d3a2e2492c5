# SPDX-License-Identifier: Apache-2.0
"""Dependencies that follow from the order of submission and the declared accesses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from syclsched.model.task import Task

DependencyKind = Literal["RAW", "WAR", "WAW", "explicit", "barrier"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """``after`` must not start before ``before`` has finished.

    Parameters
    ----------
    before, after : str
        Task names.
    kind : str
        ``RAW`` (read after write: data flows), ``WAR``, ``WAW``, ``explicit`` or ``barrier``.
    array : str or None
        The array that causes it; None for explicit edges and barriers.
    """

    before: str
    after: str
    kind: DependencyKind
    array: str | None = None


def implicit_dependencies(tasks: Iterable[Task]) -> tuple[Dependency, ...]:
    """Return the dependencies implied by the tasks' accesses in their order.

    A reader depends on the last writer (RAW); a writer on the last writer (WAW) and on every reader since
    (WAR). Dependencies on writers further back follow transitively and are not listed. A barrier comes after every
    task before it that nothing has followed yet, and before every task after it.

    Parameters
    ----------
    tasks : iterable of Task
        In order of submission.

    Returns
    -------
    tuple of Dependency
        Without duplicates, in order of the later task.
    """
    last_writer: dict[str, str] = {}
    readers: dict[str, list[str]] = {}
    since_barrier: list[str] = []
    barrier: str | None = None
    found: list[Dependency] = []
    for task in tasks:
        mine: dict[tuple[str, str | None], Dependency] = {}

        def depend(
            before: str,
            kind: DependencyKind,
            array: str | None,
            after: str = task.name,
            into: dict[tuple[str, str | None], Dependency] = mine,
        ) -> None:
            into.setdefault((before, array), Dependency(before, after, kind, array))

        if task.kind == "barrier":
            for before in since_barrier or ([barrier] if barrier else []):
                depend(before, "barrier", None)
            barrier, since_barrier = task.name, []
        else:
            if barrier is not None:
                depend(barrier, "barrier", None)
            since_barrier.append(task.name)
        for access in task.accesses:
            array = access.array
            writer = last_writer.get(array)
            if access.mode.reads and writer is not None:
                depend(writer, "RAW", array)
            if access.mode.writes:
                earlier = [r for r in readers.get(array, ()) if r != task.name]
                for reader in earlier:
                    depend(reader, "WAR", array)
                if writer is not None and not earlier:
                    depend(writer, "WAW", array)
                last_writer[array] = task.name
                readers[array] = []
            else:
                readers.setdefault(array, []).append(task.name)
        found.extend(mine.values())
    return tuple(found)
