# SPDX-License-Identifier: Apache-2.0
"""Networks of task graphs, in static single assignment: each write of an array makes a new value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from syclsched.errors import GraphError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.network import Network, numbered_name
from syclsched.model.access import RowRange
from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Parameter
from syclsched.model.task import Task
from syclsched.profiling.task_timing import to_numpy
from syclsched.training.operations.operation_nodes import emit_operation


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of an array, which are rows of a value."""

    start: int  # of the array's rows
    stop: int
    value: str
    first: int  # of the value's rows

    def cut(self, start: int, stop: int) -> _Piece:
        """Return the part within a range of rows."""
        low, high = max(start, self.start), min(stop, self.stop)
        return replace(self, start=low, stop=high, first=self.first + low - self.start)


def held_array(graph: TaskGraph, name: str) -> np.ndarray[Any, Any]:
    """Return the initial value of an array on the host."""
    return np.asarray(to_numpy(graph.data[name]), graph.arrays[name].dtype, order="C")


def output_name(graph: TaskGraph, array: str) -> str:
    """Return the name of an array's last value: another one if its first value has the array's."""
    return f"new {array}" if array in graph.data or array in graph.inputs() else array


def graph_network(graph: TaskGraph, inputs: Collection[str], outputs: Sequence[str]) -> Network:
    """Return the network of a graph.

    The first values of ``inputs`` are inputs; those of other arrays with initial data are constants. ``outputs`` are
    arrays whose last values are outputs. Raises `GraphError` if a task reads what has no value.
    """
    return _Conversion(graph, inputs).network(outputs)


class _Conversion:
    def __init__(self, graph: TaskGraph, inputs: Collection[str]) -> None:
        self._graph, self._inputs = graph, inputs
        self._b = NetworkBuilder(f"graph {graph.name!r}", 0, {}, ModelLimits())
        #: The rows of each array that have a value, in order.
        self._pieces: dict[str, list[_Piece]] = {}
        self._constants: dict[Constant, str] = {}
        self._names: set[str] = set(graph.arrays)

    def network(self, outputs: Sequence[str]) -> Network:
        b, graph = self._b, self._graph
        for name, array in graph.arrays.items():
            if name in self._inputs:
                self._put(name, None, b.add_input(name, array.shape, array.dtype))
            elif name in graph.data:
                self._put(name, None, b.add_constant(name, held_array(graph, name)))
        for task in graph.tasks:
            if task.operation is not None:
                b.begin(task.name, f"{task.family} {task.name!r}")
                self._add(task)
                b.end([], [])
        b.begin("results", "results")
        made = [(output_name(graph, name), self._value(name, None, "results")) for name in outputs]
        b.end([], [])
        return b.finish(graph.name, made)

    def _add(self, task: Task) -> None:
        operation, signature = task.operation, task.signature
        assert operation is not None and signature is not None
        arrays = [each for each in operation.parameters if each.mode is not None]
        reads = {each.name: self._read(task, each) for each in arrays if each.mode is not None and each.mode.reads}
        results = {
            each.name: (signature.shapes[each.name], signature.dtypes[each.name])
            for each in arrays
            if each.mode is not None and each.mode.writes
        }
        if task.kind == "copy":
            made = {"destination": reads["source"]}
        else:
            made = emit_operation(self._b, operation, reads, signature.scalars, results)
        for parameter, value in made.items():
            name, rows = task.arguments[parameter], task.rows.get(parameter)
            shape = self._graph.arrays[name].shape
            extents = shape if rows is None else (rows[1] - rows[0], *shape[1:])
            self._put(name, rows, self._b.reshape(value, extents))

    def _read(self, task: Task, parameter: Parameter) -> str:
        """Return the value of a task's argument, in the shape that the task sees."""
        assert task.signature is not None
        constant = task.constants.get(parameter.name)
        if constant is not None:
            return self._constant(constant)
        name = task.arguments[parameter.name]
        found = self._value(name, task.rows.get(parameter.name), f"task {task.name!r}")
        return self._b.reshape(found, task.signature.shapes[parameter.name])

    def _constant(self, constant: Constant) -> str:
        if constant not in self._constants:
            name = numbered_name(constant.name or "constant", self._names)
            self._constants[constant] = self._b.add_constant(name, constant.data)
        return self._constants[constant]

    def _whole(self, name: str) -> RowRange:
        shape = self._graph.arrays[name].shape
        return 0, shape[0] if shape else 1

    def _value(self, name: str, rows: RowRange | None, where: str) -> str:
        """Return the present value of rows of an array."""
        start, stop = rows or self._whole(name)
        known = self._pieces.get(name, [])
        pieces = [each.cut(start, stop) for each in known if start == stop or _overlap(each, (start, stop))]
        if sum(each.stop - each.start for each in pieces) != stop - start or not pieces:
            raise GraphError(f"nothing has written array {name!r} before it is read", where=where)
        return self._b.concat([self._rows(each) for each in pieces], 0)

    def _rows(self, piece: _Piece) -> str:
        shape: tuple[int, ...] = self._b.shape(piece.value)
        whole = not shape or (piece.first, piece.stop - piece.start) == (0, shape[0])
        return piece.value if whole else self._b.part(piece.value, 0, piece.first, piece.stop - piece.start)

    def _put(self, name: str, rows: RowRange | None, value: str) -> None:
        """Let rows of an array have a new value."""
        start, stop = rows or self._whole(name)
        kept: list[Any] = []
        for each in self._pieces.get(name, ()):
            kept += [each.cut(*part) for part in ((each.start, start), (stop, each.stop)) if _overlap(each, part)]
        self._pieces[name] = sorted([*kept, _Piece(start, stop, value, 0)], key=lambda each: each.start)


def _overlap(piece: _Piece, rows: RowRange) -> bool:
    return max(piece.start, rows[0]) < min(piece.stop, rows[1])
