# SPDX-License-Identifier: Apache-2.0
"""What a task graph holds, and what follows from it: arrays, tasks, edges, values, dependencies, an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from syclsched.errors import GraphError
from syclsched.model.access import Access
from syclsched.model.constant import Constant
from syclsched.model.dependencies import Dependency
from syclsched.model.derived import Derived
from syclsched.model.fingerprint import fingerprint
from syclsched.model.segments import Segments
from syclsched.model.task import Joined, LogicalArray, Task


class Contents:
    """A graph as it is read; `syclsched.TaskGraph` adds to it.

    Parameters
    ----------
    name : str
        Of the graph.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._arrays: dict[str, LogicalArray] = {}
        self._freed: dict[str, int] = {}
        self._tasks: dict[str, Task] = {}
        self._edges: list[tuple[str, str]] = []
        self._data: dict[str, Any] = {}
        self._joined: dict[str, list[Joined]] = {}
        self._ranged: set[str] = set()
        #: What follows from all this; None since it has changed.
        self._derived: Derived | None = None

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The constants that tasks are given, each once, in order of first use."""
        return tuple(dict.fromkeys(constant for task in self._tasks.values() for constant in task.constants.values()))

    @property
    def arrays(self) -> Mapping[str, LogicalArray]:
        """The arrays by name; one that was freed counts as temporary."""
        return {name: replace(a, temporary=True) if name in self._freed else a for name, a in self._arrays.items()}

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks in order of submission."""
        return tuple(self._tasks.values())

    def task(self, name: str) -> Task:
        """Return a task by name.

        Raises
        ------
        GraphError
            If there is none.
        """
        try:
            return self._tasks[name]
        except KeyError:
            raise GraphError(f"no task {name!r}", where=f"graph {self.name!r}") from None

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """The explicit edges."""
        return tuple(self._edges)

    @property
    def data(self) -> Mapping[str, Any]:
        """Initial values given with `array`."""
        return dict(self._data)

    @property
    def joined(self) -> Mapping[str, tuple[Joined, ...]]:
        """What was said with `join`, by the name of the whole."""
        return {name: tuple(found) for name, found in self._joined.items()}

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return every dependency: those implied by accesses and barriers, then the explicit ones."""
        return self._structure.dependencies

    def order(self) -> tuple[str, ...]:
        """Return the task names in a topological order, by order of submission where free.

        Raises
        ------
        CycleError
            If explicit edges close a cycle.
        """
        return self._structure.order

    def segments(self) -> Segments:
        """Return, for each array of which some task touches a part, its segments; see `syclsched.model.segments`."""
        return self._structure.segments

    def touched(self) -> Sequence[tuple[Access, ...]]:
        """Return what each task touches, in order of submission, by segments where an array has some."""
        return self._structure.touched

    def inputs(self) -> tuple[str, ...]:
        """Return the arrays of which some task, in a topological order, needs an old value that no task has written."""
        return self._structure.inputs

    def validate(self) -> None:
        """Check the graph as a whole.

        Raises
        ------
        CycleError
            If explicit edges close a cycle.
        """
        self.order()

    def fingerprint(self) -> str:
        """Return a hash of everything a plan depends on: arrays, tasks, accesses, edges; not the data."""
        return fingerprint(self.arrays.values(), self.tasks, self._edges)

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"<TaskGraph {self.name!r}: {len(self._tasks)} tasks, {len(self._arrays)} arrays>"

    @property
    def _structure(self) -> Derived:
        if self._derived is None:
            self._derived = Derived(
                self.name, dict(self._tasks), dict(self._arrays), tuple(self._edges), ranged=bool(self._ranged)
            )
        return self._derived
