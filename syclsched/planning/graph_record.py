# SPDX-License-Identifier: Apache-2.0
"""Task graph as the plain data a plan carries, so that a plan can be verified without the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from syclsched.model.access import Access, AccessMode
from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.dependencies import Dependency
from syclsched.model.plan import PlannedAccess, PlannedArray, PlannedRows, PlannedTask
from syclsched.model.task import LogicalArray, Task
from syclsched.planning.draft import MODE_CODE, MODES, Codes, Ints, ragged

_WRITES = np.array([mode.writes for mode in MODES])


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """Planning data of a graph, computed once for all plans of it."""

    fingerprint: str  # `TaskGraph.fingerprint`
    #: Arrays that tasks touch, in order of declaration, each followed by its segments that tasks touch.
    arrays: tuple[PlannedArray, ...]
    #: In order of submission, with explicit and barrier dependencies; the others follow from the accesses.
    tasks: tuple[PlannedTask, ...]
    statuses: frozenset[str]  # arrays, or segments, in which tasks report their status; read when a run ends
    dependencies: int  # number of dependencies of all kinds
    place: Mapping[str, int]  # position of each task in a topological order
    #: Source and target of each dependency, as such positions.
    before: Ints
    after: Ints
    pieces: Mapping[str, tuple[str, ...]]  # segments of each divided array, in order
    #: Ragged: the arrays that each task touches, by index into ``arrays``.
    access_starts: Ints
    access_array: Ints
    access_mode: Codes  # how: index into `MODES`
    nbytes: Ints  # size of each array
    constants: Mapping[str, tuple[Constant, ...]]  # of each task that has constants

    def whole(self) -> dict[str, str]:
        """Return the array each segment belongs to."""
        return {segment: array for array, segments in self.pieces.items() for segment in segments}

    def written(self) -> frozenset[str]:
        """Return the arrays that some task writes, wholly or in part."""
        numbers = np.unique(self.access_array[_WRITES[self.access_mode]]).tolist()
        rows = [(self.arrays[n].name, self.arrays[n].rows) for n in numbers]
        return frozenset(name if part is None else part.array for name, part in rows)

    def numbered_after(self) -> dict[int, list[int]]:
        """Return explicit and barrier dependencies: task to its predecessors, as indices into ``tasks``."""
        if not any(task.after for task in self.tasks):
            return {}
        number = {task.name: n for n, task in enumerate(self.tasks)}
        return {n: [number[name] for name in task.after] for n, task in enumerate(self.tasks) if task.after}


@dataclass(frozen=True, slots=True)
class _GraphState:
    """State of a graph when it was recorded: graphs only grow, and every change replaces one of these."""

    dependencies: tuple[Dependency, ...]
    arrays: Mapping[str, LogicalArray]


_known: WeakKeyDictionary[TaskGraph, tuple[_GraphState, GraphRecord]] = WeakKeyDictionary()


def record(graph: TaskGraph) -> GraphRecord:
    """Return a graph as plain data, cached for as long as the graph lives and does not change."""
    state = _GraphState(graph.dependencies(), graph.arrays)
    known = _known.get(graph)
    if known is not None and known[0].dependencies is state.dependencies and known[0].arrays == state.arrays:
        return known[1]
    made = _record(graph, state)
    _known[graph] = (state, made)
    return made


def _record(graph: TaskGraph, state: _GraphState) -> GraphRecord:
    place = {name: position for position, name in enumerate(graph.order())}
    touched = graph.touched()
    arrays = _arrays(graph, state, {access.array for accesses in touched for access in accesses})
    pieces: dict[str, list[str]] = {}
    for array in arrays:
        if array.rows is not None:
            pieces.setdefault(array.rows.array, []).append(array.name)
    tasks, number = _tasks(graph, state.dependencies, touched), {a.name: n for n, a in enumerate(arrays)}
    starts, touching = ragged([[number[a.array] for a in task.accesses] for task in tasks])
    modes = [MODE_CODE[id(access.mode)] for task in tasks for access in task.accesses]
    return GraphRecord(
        fingerprint=graph.fingerprint(),
        arrays=arrays,
        tasks=tasks,
        statuses=_statuses(graph, touched, pieces),
        dependencies=len(state.dependencies),
        place=place,
        before=np.array([place[d.before] for d in state.dependencies], np.int64),
        after=np.array([place[d.after] for d in state.dependencies], np.int64),
        pieces={array: tuple(segments) for array, segments in pieces.items()},
        access_starts=starts,
        access_array=touching,
        access_mode=np.array(modes, np.uint8),
        nbytes=np.array([a.nbytes for a in arrays], np.int64),
        constants={task.name: tuple(task.constants.values()) for task in graph.tasks if task.constants},
    )


def _arrays(graph: TaskGraph, state: _GraphState, touched: set[str]) -> tuple[PlannedArray, ...]:
    inputs, segments = set(graph.inputs()), graph.segments()
    found = []
    for a in state.arrays.values():
        cut = [segment for segment in segments.get(a.name, ()) if segment.name in touched]
        if a.name not in touched and not cut:
            continue
        is_input = a.name in inputs
        found.append(PlannedArray(a.name, a.shape, a.dtype, a.nbytes, a.temporary, is_input, usm=a.usm))
        for name, _, (start, stop) in cut:
            part, rows = a[start:stop], PlannedRows(a.name, start, stop)
            found.append(PlannedArray(name, part.shape, a.dtype, part.nbytes, a.temporary, is_input, rows))
    return tuple(found)


def _statuses(
    graph: TaskGraph, touched: Sequence[Sequence[Access]], pieces: Mapping[str, Sequence[str]]
) -> frozenset[str]:
    found: set[str] = set()
    for task, accesses in zip(graph.tasks, touched, strict=True):
        if task.operation and task.operation.status:
            array = task.arguments[task.operation.status]
            written = (access.array for access in accesses if access.mode.writes)
            found.update(set(written).intersection(pieces[array]) if array in pieces else (array,))
    return frozenset(found)


def _tasks(
    graph: TaskGraph, dependencies: tuple[Dependency, ...], touched: Sequence[Sequence[Access]]
) -> tuple[PlannedTask, ...]:
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

    barriers = {task.name for task in graph.tasks if task.kind == "barrier"}
    explicit = [d for d in dependencies if d.kind == "explicit" and not barriers.intersection((d.before, d.after))]
    ordered = {name for d in explicit for name in (d.before, d.after)}  # for reasons the accesses do not show
    return tuple(
        PlannedTask(
            name=task.name,
            kind=task.kind,
            family=task.family,
            accesses=tuple([access(a.array, a.mode) for a in accesses]),
            after=tuple(after.get(task.name, ())),
            repeatable=_repeatable(task) and task.name not in ordered,
        )
        for task, accesses in zip(graph.tasks, touched, strict=True)
    )


def _repeatable(task: Task) -> bool:
    """Return whether a task only writes arrays, from nothing but the arrays it reads."""
    return (
        task.operation is not None
        and task.operation.pure
        and all(access.mode is AccessMode.READ or access.mode is AccessMode.WRITE for access in task.accesses)
    )
