# SPDX-License-Identifier: Apache-2.0
"""Task graph as the plain data a plan carries, so that a plan can be verified without the graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from weakref import WeakKeyDictionary

import numpy as np

from syclsched.model.access import MODES, Access
from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.access_columns import WRITES, AccessColumns
from syclsched.model.graph_parts.dependencies import KINDS, ImplicitEdges
from syclsched.model.plan import PlannedAccess, PlannedArray, PlannedRows, PlannedTask
from syclsched.model.schedule import WeaklyReferable
from syclsched.model.tables.distinct_codes import distinct
from syclsched.model.task import LogicalArray
from syclsched.model.text.bulk_objects import make_objects
from syclsched.planning.draft import Codes, Flags, Ints

_UPDATING = np.array([mode.reads and mode.writes for mode in MODES])


@dataclass(frozen=True, slots=True)
class GraphRecord(WeaklyReferable):
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
        numbers = np.unique(self.access_array[WRITES[self.access_mode]]).tolist()
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

    implied: ImplicitEdges
    arrays: Mapping[str, LogicalArray]


_known: WeakKeyDictionary[TaskGraph, tuple[_GraphState, GraphRecord]] = WeakKeyDictionary()


def record(graph: TaskGraph) -> GraphRecord:
    """Return a graph as plain data, cached for as long as the graph lives and does not change."""
    state = _GraphState(graph.implied(), graph.arrays)
    known = _known.get(graph)
    if known is not None and known[0].implied is state.implied and known[0].arrays == state.arrays:
        return known[1]
    made = _record(graph, state)
    _known[graph] = (state, made)
    return made


def _record(graph: TaskGraph, state: _GraphState) -> GraphRecord:
    place = {name: position for position, name in enumerate(graph.order())}
    touched, accesses = graph.touched(), graph.accesses()
    arrays = _arrays(graph, state, set(accesses.names))
    pieces: dict[str, list[str]] = {}
    for array in arrays:
        if array.rows is not None:
            pieces.setdefault(array.rows.array, []).append(array.name)
    number = {a.name: n for n, a in enumerate(arrays)}
    submitted = [task.name for task in graph.tasks]
    places = np.array([place[name] for name in submitted], np.int64)
    explicit = np.array([[place[name] for name in edge] for edge in graph.edges], np.int64).reshape(-1, 2)
    return GraphRecord(
        fingerprint=graph.fingerprint(),
        arrays=arrays,
        tasks=_tasks(graph, state.implied, accesses),
        statuses=_statuses(graph, touched, pieces),
        # Those of adjacent segments are one.
        dependencies=len(graph.dependencies()) if graph.segments() else len(state.implied.kind) + len(graph.edges),
        place=place,
        before=np.concatenate((places[state.implied.before], explicit[:, 0])),
        after=np.concatenate((places[state.implied.after], explicit[:, 1])),
        pieces={array: tuple(segments) for array, segments in pieces.items()},
        access_starts=accesses.starts,
        access_array=np.array([number[name] for name in accesses.names], np.int64)[accesses.array],
        access_mode=accesses.mode,
        nbytes=np.array([a.nbytes for a in arrays], np.int64),
        constants={task.name: tuple(task.constants.values()) for task in graph.tasks if task.constants},
    )


def _arrays(graph: TaskGraph, state: _GraphState, touched: set[str]) -> tuple[PlannedArray, ...]:
    inputs, segments = set(graph.inputs()), graph.segments()
    if not segments:
        return _whole_arrays([a for name, a in state.arrays.items() if name in touched], inputs)
    found = []
    for a in state.arrays.values():
        cut = [segment for segment in segments.get(a.name, ()) if segment.name in touched]
        if a.name not in touched and not cut:
            continue
        is_input = a.name in inputs
        found.append(PlannedArray(a.name, a.shape, a.dtype, a.nbytes, a.temporary, is_input, None, a.usm, a.donated))
        for name, _, (start, stop) in cut:
            part, rows = a[start:stop], PlannedRows(a.name, start, stop)
            found.append(PlannedArray(name, part.shape, a.dtype, part.nbytes, a.temporary, is_input, rows))
    return tuple(found)


def _whole_arrays(arrays: Sequence[LogicalArray], inputs: set[str]) -> tuple[PlannedArray, ...]:
    """Return arrays of which no task accesses a part."""
    names = [a.name for a in arrays]
    columns: dict[str, Iterable[object]] = {
        "name": names,
        "shape": [a.shape for a in arrays],
        "dtype": [a.dtype for a in arrays],
        "nbytes": [a.nbytes for a in arrays],
        "temporary": [a.temporary for a in arrays],
        "is_input": map(inputs.__contains__, names),
        "rows": repeat(None, len(names)),
        "usm": [a.usm for a in arrays],
        "donated": [a.donated for a in arrays],
    }
    return tuple(make_objects(PlannedArray, len(names), columns))


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


def _tasks(graph: TaskGraph, implied: ImplicitEdges, accesses: AccessColumns) -> tuple[PlannedTask, ...]:
    tasks = graph.tasks
    names = [task.name for task in tasks]
    after: dict[str, dict[str, None]] = {}
    edges = np.flatnonzero(implied.kind == KINDS.index("barrier"))
    for n, before in zip(implied.after[edges].tolist(), implied.before[edges].tolist(), strict=True):
        after.setdefault(names[n], {})[names[before]] = None
    for first, second in graph.edges:
        after.setdefault(second, {})[first] = None
    repeatable = _repeatable(graph, accesses)
    columns: dict[str, Iterable[object]] = {
        "name": names,
        "kind": [task.kind for task in tasks],
        "family": [task.family for task in tasks],
        "accesses": _planned_accesses(accesses),
        "after": [tuple(after.get(name, ())) for name in names] if after else repeat((), len(names)),
        "repeatable": repeatable.tolist(),
    }
    return tuple(make_objects(PlannedTask, len(names), columns))


def _planned_accesses(accesses: AccessColumns) -> list[tuple[PlannedAccess, ...]]:
    """Return the accesses of each task; equal ones are one object."""
    codes, which = distinct(accesses.array * len(MODES) + accesses.mode, len(accesses.names) * len(MODES))
    array, mode = np.divmod(codes, len(MODES))
    columns: dict[str, Iterable[object]] = {
        "array": map(accesses.names.__getitem__, array.tolist()),
        "mode": map(MODES.__getitem__, mode.tolist()),
    }
    each = list(map(make_objects(PlannedAccess, len(codes), columns).__getitem__, which.tolist()))
    return [tuple(each[a:b]) for a, b in pairwise(accesses.starts.tolist())]


def _repeatable(graph: TaskGraph, accesses: AccessColumns) -> Flags:
    """Return whether each task only writes arrays, from nothing but the arrays it reads."""
    tasks = graph.tasks
    found = np.array([task.operation is not None and task.operation.pure for task in tasks], np.bool_)
    found[accesses.tasks()[_UPDATING[accesses.mode]]] = False
    if graph.edges:  # an explicit edge is for reasons the accesses do not show
        number = {task.name: n for n, task in enumerate(tasks)}
        for edge in graph.edges:
            ends = [number[name] for name in edge]
            if all(tasks[n].kind != "barrier" for n in ends):
                found[ends] = False
    return found
