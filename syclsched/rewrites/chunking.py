# SPDX-License-Identifier: Apache-2.0
"""Cutting of tasks into chunks of rows: the new graph that a list of cuts describes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise, product
from typing import Any

from syclsched.errors import GraphError
from syclsched.kernels.row_copies import TAKE_ROWS, put_rows
from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Scalar
from syclsched.model.profile import MAX_NAME
from syclsched.model.recipe import Cut, Recipe, chunk_name
from syclsched.model.task import LogicalArray, ReshapedArray, Task
from syclsched.rewrites.array_partitions import PartitionedArray, UniqueNames
from syclsched.rewrites.regions import chunk_operation, touches
from syclsched.rewrites.rewrite_result import Rewrite, RewriteCounters

#: Most explicit edges: an edge between two cut tasks becomes one between all pairs of their chunks.
_MOST_EDGES = 10_000_000


def cut(graph: TaskGraph, cuts: Iterable[Cut]) -> Rewrite:
    """Return the graph with some of its tasks cut into chunks.

    An array that a cut task accesses by rows is stored in chunks, each an array of its own, for as long as the tasks
    that touch it belong to the same cut. The chunks of an input are views of its rows, without a copy. Where a whole
    task writes an array that a cut task reads, or the reverse, scatter or gather tasks are added that copy the rows.
    """
    return _Cutter(graph, tuple(cuts)).run()


class _Cutter:
    """Rewrites the tasks in order, and tracks in which form each array's value is stored."""

    def __init__(self, graph: TaskGraph, cuts: tuple[Cut, ...]) -> None:
        if graph.joined:
            raise GraphError("it has been cut before: cut the original graph", where=f"graph {graph.name!r}")
        self._graph = graph
        self._cuts = cuts
        self._cut_of = _cut_of(graph, cuts)
        self._bounds = [tuple(accumulate(cut.rows, initial=0)) for cut in cuts]
        self._new = TaskGraph(graph.name, longest_name=MAX_NAME)
        self._names = UniqueNames(task.name for task in graph.tasks)
        data, arrays = graph.data, graph.arrays
        array_names = UniqueNames(arrays)
        self._held = {name: PartitionedArray(array, data.get(name), array_names) for name, array in arrays.items()}
        self._tasks: dict[str, tuple[str, ...]] = {}
        self._scatters = self._gathers = 0

    def run(self) -> Rewrite:
        """Return the rewritten graph."""
        graph, new = self._graph, self._new
        self._declare_untouched()
        for name in graph.order():
            task, number = graph.find_task(name), self._cut_of.get(name)
            self._tasks[name] = self._keep(task) if number is None else self._cut(task, number)
        for held in self._held.values():
            self._settle(held)
        edges = dict.fromkeys(graph.edges)
        if sum(len(self._tasks[before]) * len(self._tasks[after]) for before, after in edges) > _MOST_EDGES:
            raise GraphError(f"its explicit edges become more than {_MOST_EDGES:,}", where=f"graph {graph.name!r}")
        for before, after in edges:
            for first, second in product(self._tasks[before], self._tasks[after]):
                new.edge(first, second)
        return Rewrite(
            graph=new,
            tasks=self._tasks,
            arrays={name: held.holders for name, held in self._held.items()},
            counters=RewriteCounters(
                len(graph),
                len(new),
                cut=len(self._cut_of),
                chunks=sum(len(self._tasks[name]) for name in self._cut_of),
                scatters=self._scatters,
                gathers=self._gathers,
            ),
            recipe=Recipe(cuts=self._cuts),
        )

    # --- tasks ------------------------------------------------------------------------------------

    def _keep(self, task: Task) -> tuple[str, ...]:
        for access in task.accesses:
            self._whole(access.array, read=access.mode.reads)
        self._new.insert(task)
        for access in task.accesses:
            if access.mode.writes:
                self._held[access.array].written_whole()
        return (task.name,)

    def _cut(self, task: Task, number: int) -> tuple[str, ...]:
        operation, signature = task.operation, task.signature
        assert operation is not None
        assert signature is not None
        assert operation.split is not None
        cut = operation.split.cut(signature)
        by_rows: dict[str, Sequence[LogicalArray]] = {}
        whole: dict[str, LogicalArray | ReshapedArray | Constant] = {}
        rows_of: dict[str, Constant] = {}
        for parameter in operation.arrays:
            assert parameter.mode is not None
            constant = task.constants.get(parameter.name)
            if constant is not None:
                (rows_of if parameter.name in cut else whole)[parameter.name] = constant
                continue
            name = task.arguments[parameter.name]
            if parameter.name in cut:
                by_rows[parameter.name] = self._chunks(name, number, read=parameter.mode.reads)
            else:
                array = self._whole(name, read=True)
                seen = signature.shapes[parameter.name]
                whole[parameter.name] = array.reshaped(seen) if parameter.name in task.reshaped else array
        names, by = [], chunk_operation(operation)
        for index, (start, stop) in enumerate(pairwise(self._bounds[number])):
            scalars: dict[str, Scalar] = dict(signature.scalars)
            if operation.split.scalars is not None:
                scalars |= operation.split.scalars(signature, start, stop)
            arrays = {parameter: chunks[index] for parameter, chunks in by_rows.items()}
            name = self._names.fresh(chunk_name(task.name, start, stop))
            names.append(name)
            parts = {parameter: constant.part((start, stop)) for parameter, constant in rows_of.items()}
            given = {**arrays, **whole, **parts, **scalars}
            self._new.kernel(
                by, name=name, priority=task.priority, deadline_s=task.deadline_s, retries=task.retries, **given
            )
        for parameter in operation.arrays:
            if parameter.mode is not None and parameter.mode.writes:
                self._held[task.arguments[parameter.name]].written_in_chunks(number)
        return tuple(names)

    # --- arrays -----------------------------------------------------------------------------------

    def _declare_untouched(self) -> None:
        touched = {access.array for task in self._graph.tasks for access in task.accesses}
        for name, held in self._held.items():
            if name not in touched:
                held.declare(self._new)

    def _whole(self, name: str, *, read: bool) -> LogicalArray:
        """Return the whole array in the new graph, gathered from chunks if it is to be read."""
        held = self._held[name]
        array = held.declare(self._new)
        if read and not held.whole_valid:
            parts = held.chunks[min(held.chunks_valid)]
            operation = put_rows(len(parts))
            arguments: dict[str, Any] = {f"part{index}": part for index, part in enumerate(parts)}
            self._gathers += 1
            self._new.kernel(
                operation, name=self._names.fresh(f"gather({name},{self._gathers})"), whole=array, **arguments
            )
            held.whole_valid = True
        return array

    def _chunks(self, name: str, number: int, *, read: bool) -> Sequence[LogicalArray]:
        """Return the arrays of the new graph that store an array's rows as a cut needs them."""
        held = self._held[name]
        bounds = self._bounds[number]
        if number not in held.chunks:
            if not held.array.shape or held.array.shape[0] != bounds[-1]:
                raise GraphError(f"it does not have the {bounds[-1]} rows to cut", where=f"array {name!r}")
            if held.array.donated:
                raise GraphError("it is donated: runs update it as a whole", where=f"array {name!r}")
            held.declare_chunks(self._new, number, bounds)
        chunks = held.chunks[number]
        if read and number not in held.chunks_valid:
            whole = self._whole(name, read=True)
            for chunk, start in zip(chunks, bounds, strict=False):
                self._scatters += 1
                task = self._names.fresh(f"scatter({name},{self._scatters})")
                self._new.kernel(TAKE_ROWS, name=task, rows=chunk, whole=whole, start=start)
            held.chunks_valid.add(number)
        return chunks

    def _settle(self, held: PartitionedArray) -> None:
        """Provide the final value of an array under its original name."""
        if held.declared is None and len(held.chunks) == 1:
            held.join(self._new)
        elif held.declared is not None or held.chunks:
            if not held.array.temporary:
                self._whole(held.array.name, read=held.is_written)
            for chunks in held.chunks.values():
                for chunk in chunks:
                    self._new.free(chunk)


def _cut_of(graph: TaskGraph, cuts: Sequence[Cut]) -> dict[str, int]:
    cut_of: dict[str, int] = {}
    in_parts = graph.segments().keys()
    for number, each in enumerate(cuts):
        for name in each.tasks:
            if touches(graph.find_task(name), in_parts):
                raise GraphError("an array it touches is touched in parts already", where=f"task {name!r}")
            operation = graph.find_task(name).operation
            if name in cut_of or operation is None or operation.split is None:
                raise GraphError("it is cut twice, or does not say how it splits", where=f"task {name!r}")
            written = {p.name for p in operation.arrays if p.mode is not None and p.mode.writes}
            if not written <= set(operation.split.rows):
                raise GraphError(
                    f"operation {operation.name!r} writes {', '.join(sorted(written - set(operation.split.rows)))}, "
                    "which it does not cut by rows",
                    where=f"task {name!r}",
                )
            if len(each.rows) < 2 or min(each.rows) < 1:
                raise GraphError(f"rows {each.rows} are not two or more non-empty chunks", where=f"task {name!r}")
            cut_of[name] = number
    return cut_of
