# SPDX-License-Identifier: Apache-2.0
"""The graph as the plain data a plan carries, so that a plan can be verified without the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from syclsched.model.access import AccessMode
from syclsched.model.dependencies import Dependency
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import PlannedAccess, PlannedArray, PlannedTask
from syclsched.model.task import LogicalArray
from syclsched.planning.steps import Ints


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """What planning needs of a graph, worked out once for all plans of it.

    Parameters
    ----------
    fingerprint : str
        `TaskGraph.fingerprint`.
    arrays : tuple of PlannedArray
        Those that some task touches, in order of declaration.
    tasks : tuple of PlannedTask
        In order of submission, with explicit and barrier dependencies; those from accesses follow from the order.
    statuses : frozenset of str
        Arrays in which tasks report their status; read when a run ends.
    dependencies : int
        How many there are, of all kinds.
    place : Mapping[str, int]
        Position of each task in a topological order.
    before, after : ndarray of int64
        The dependencies' two ends, as such positions.
    """

    fingerprint: str
    arrays: tuple[PlannedArray, ...]
    tasks: tuple[PlannedTask, ...]
    statuses: frozenset[str]
    dependencies: int
    place: Mapping[str, int]
    before: Ints
    after: Ints


@dataclass(frozen=True, slots=True)
class _State:
    """What a graph was when it was recorded: it only grows, and every change shows in one of these."""

    dependencies: tuple[Dependency, ...]
    arrays: Mapping[str, LogicalArray]


_known: WeakKeyDictionary[TaskGraph, tuple[_State, GraphRecord]] = WeakKeyDictionary()


def record(graph: TaskGraph) -> GraphRecord:
    """Return a graph as data; remembered for as long as the graph lives and does not change.

    Parameters
    ----------
    graph : TaskGraph
        The graph.

    Returns
    -------
    GraphRecord
        Its record.

    Raises
    ------
    CycleError
        If the graph has a cycle.
    """
    state = _State(graph.dependencies(), graph.arrays)
    known = _known.get(graph)
    if known is not None and known[0].dependencies is state.dependencies and known[0].arrays == state.arrays:
        return known[1]
    made = _record(graph, state)
    _known[graph] = (state, made)
    return made


def _record(graph: TaskGraph, state: _State) -> GraphRecord:
    place = {name: position for position, name in enumerate(graph.order())}
    tasks = graph.tasks
    inputs = set(graph.inputs())
    touched = {access.array for task in tasks for access in task.accesses}
    return GraphRecord(
        fingerprint=graph.fingerprint(),
        arrays=tuple(
            PlannedArray(a.name, a.shape, a.dtype, a.nbytes, a.temporary, a.name in inputs)
            for a in state.arrays.values()
            if a.name in touched
        ),
        tasks=_tasks(graph, state.dependencies),
        statuses=frozenset(t.arguments[t.operation.status] for t in tasks if t.operation and t.operation.status),
        dependencies=len(state.dependencies),
        place=place,
        before=np.array([place[d.before] for d in state.dependencies], np.int64),
        after=np.array([place[d.after] for d in state.dependencies], np.int64),
    )


def _tasks(graph: TaskGraph, dependencies: tuple[Dependency, ...]) -> tuple[PlannedTask, ...]:
    after: dict[str, dict[str, None]] = {}
    for dependency in dependencies:
        if dependency.kind == "explicit" or dependency.kind == "barrier":
            after.setdefault(dependency.after, {})[dependency.before] = None
    same: dict[tuple[str, int], PlannedAccess] = {}

    def access(array: str, mode: AccessMode) -> PlannedAccess:
        key = (array, id(mode))  # an enum member is slow to hash
        if key not in same:
            same[key] = PlannedAccess(array, mode)
        return same[key]

    return tuple(
        PlannedTask(
            name=task.name,
            kind=task.kind,
            family=task.family,
            accesses=tuple([access(a.array, a.mode) for a in task.accesses]),
            after=tuple(after.get(task.name, ())),
        )
        for task in graph.tasks
    )
