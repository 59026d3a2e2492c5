# SPDX-License-Identifier: Apache-2.0
"""Regions of tasks that can be cut alike: they pass rows on to each other, so that chunks stay chunks."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Operation
from syclsched.model.task import Task


@dataclass(frozen=True, slots=True)
class Region:
    """Tasks that are divided into the same chunks, or not at all."""

    tasks: tuple[Task, ...]  # in topological order
    rows: int  # common extent of the dimension to cut
    grain: int  # chunks should be multiples of this many rows


@dataclass(frozen=True, slots=True)
class Traffic:
    """Arrays that enter and leave a region, by name."""

    given: tuple[str, ...]  # inputs of the graph, read by rows
    made: tuple[str, ...]  # written whole by other tasks, read by rows
    shared: tuple[str, ...]  # read whole by every chunk
    results: tuple[str, ...]  # written by rows, and read after the region or after the run
    used_whole: tuple[str, ...]  # results that other tasks read


def find_regions(graph: TaskGraph) -> tuple[Region, ...]:
    """Return the largest regions of tasks that pass arrays on by rows."""
    parent: dict[str, str] = {}
    rows_of: dict[str, int] = {}
    writer: dict[str, str | None] = {}  # the task that wrote each array last, if by rows
    in_parts = graph.segments().keys()
    donated = {name for name, array in graph.arrays.items() if array.donated}  # one piece of memory, of the user
    for name in graph.order():
        task = graph.find_task(name)
        rows = 0 if touches(task, in_parts) else _rows_to_cut(task)
        by_rows = _arrays_by_rows(task) if rows else frozenset()
        if not by_rows.isdisjoint(donated):
            rows, by_rows = 0, frozenset()
        if rows:
            parent[name], rows_of[name] = name, rows
        for access in task.accesses:
            before = writer.get(access.array)
            if access.mode.reads and access.array in by_rows and before is not None and rows_of[before] == rows:
                parent[_root(parent, name)] = _root(parent, before)
            if access.mode.writes:
                writer[access.array] = name if access.array in by_rows else None
    members: dict[str, list[Task]] = {}
    for name in parent:
        members.setdefault(_root(parent, name), []).append(graph.find_task(name))
    regions = [Region(tuple(m), rows_of[m[0].name], _grain(m)) for m in members.values()]
    return tuple(region for region in regions if region.rows >= 2 * region.grain)


def touches(task: Task, arrays: Collection[str]) -> bool:
    """Return whether a task touches one of some arrays."""
    return bool(arrays) and any(access.array in arrays for access in task.accesses)


def _rows_to_cut(task: Task) -> int:
    """Return how many rows a task can be cut by; 0 if it cannot be cut."""
    operation, signature = task.operation, task.signature
    if operation is None or signature is None or operation.split is None or task.kind != "kernel":
        return 0
    cut = operation.split.cut(signature)
    if not _written(operation) <= set(cut) or not chunk_operation(operation).implementations:
        return 0
    if task.reshaped.intersection(cut):
        return 0  # rows of the array need not be rows of the reshaped view
    extents = {signature.shapes[name][:1] for name in cut}
    (extent,) = extents if len(extents) == 1 else ((),)
    return extent[0] if extent else 0


def chunk_operation(operation: Operation) -> Operation:
    """Return the operation of a chunk: without implementations whose bits would differ from the whole."""
    return operation if operation.split is None or not operation.split.inexact else _exact(operation)


@lru_cache(maxsize=256)
def _exact(operation: Operation) -> Operation:
    inexact = () if operation.split is None else operation.split.inexact
    return replace(operation, implementations=tuple(i for i in operation.implementations if i.name not in inexact))


def traffic_of(graph: TaskGraph, region: Region) -> Traffic:
    """Return the arrays that enter and leave a region."""
    inside = {task.name for task in region.tasks}
    written_outside = {a.array for t in graph.tasks if t.name not in inside for a in t.accesses if a.mode.writes}
    read_outside = {a.array for t in graph.tasks if t.name not in inside for a in t.accesses if a.mode.reads}
    written: set[str] = set()
    read: dict[str, None] = {}
    shared: dict[str, None] = {}
    for task in region.tasks:
        assert task.operation is not None
        by_rows, cut = _arrays_by_rows(task), _cut_parameters(task)
        for parameter in task.operation.arrays:
            if parameter.name in task.constants:
                continue
            if parameter.name not in cut:
                shared.setdefault(task.arguments[parameter.name])
        for access in task.accesses:
            if access.array in by_rows and access.mode.reads and access.array not in written:
                read.setdefault(access.array)
        written |= {access.array for access in task.accesses if access.mode.writes}
    arrays = graph.arrays
    whole = read_outside | shared.keys()
    return Traffic(
        given=tuple(a for a in read if a not in written_outside),
        made=tuple(a for a in read if a in written_outside),
        shared=tuple(shared),
        results=tuple(sorted(a for a in written if a in whole or not arrays[a].temporary)),
        used_whole=tuple(sorted(written & whole)),
    )


# --- inside ---------------------------------------------------------------------------------------


def _root(parent: dict[str, str], name: str) -> str:
    while parent[name] != name:
        parent[name] = name = parent[parent[name]]
    return name


def _arrays_by_rows(task: Task) -> frozenset[str]:
    return frozenset(task.arguments[name] for name in _cut_parameters(task) if name in task.arguments)


def _cut_parameters(task: Task) -> tuple[str, ...]:
    assert task.operation is not None
    split = task.operation.split
    return () if split is None or task.signature is None else split.cut(task.signature)


def _written(operation: Operation) -> set[str]:
    return {p.name for p in operation.arrays if p.mode is not None and p.mode.writes}


def _grain(tasks: Sequence[Task]) -> int:
    """Return the smallest multiple of rows that suits all the tasks."""
    grains = [1]
    for task in tasks:
        assert task.operation is not None
        assert task.signature is not None
        split = task.operation.split
        if split is not None and split.grain is not None:
            grains.append(max(1, split.grain(task.signature)))
    return math.lcm(*grains)
