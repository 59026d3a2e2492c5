# SPDX-License-Identifier: Apache-2.0
"""The project's own JSON task-graph files: arrays, and tasks with costs in submission order.

Dependencies follow from submission order and accesses, as in `TaskGraph`; ``after`` adds explicit ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal

from annotated_types import Ge, Le

from syclsched.errors import CycleError, FormatError, GraphError, SyclschedError
from syclsched.frontends.graph_limits import Limits
from syclsched.frontends.graph_units import Units
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import MAX_BYTES, MAX_CORES, MAX_SECONDS, add_cost_only, is_cost_only, stated_cost
from syclsched.model.graph import TaskGraph
from syclsched.model.profile import Count, Name, Text
from syclsched.model.task import ArrayRows, LogicalArray, Task
from syclsched.model.text.json_serialisation import from_json, to_json

GRAPH_FORMAT: Final = "syclsched-graph/1"

_Dtype = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
_Seconds = Annotated[float, Ge(0), Le(MAX_SECONDS)]
_MAX_DIMENSIONS = 32


class _Strict:
    """Base of a document's parts: unknown fields are refused."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class _FiledArray(_Strict):
    """An array of a graph file: a number of bytes, or a shape and a dtype."""

    name: Name
    nbytes: Annotated[int, Ge(0), Le(MAX_BYTES)] | None = None
    shape: tuple[Count, ...] | None = None
    dtype: _Dtype = "uint8"
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class _FiledAccess(_Strict):
    """One task's access to an array or to a range of its rows (first, one past the last)."""

    array: Name
    mode: AccessMode
    rows: tuple[Count, Count] | None = None


@dataclass(frozen=True, slots=True)
class _FiledTask(_Strict):
    """A task of a graph file; see `StatedCost` for ``seconds``, ``seconds_on`` and ``cores``."""

    name: Name  # unique in the file
    kind: Literal["task", "barrier"] = "task"  # a barrier has only ``name`` and ``after``
    family: Name = "task"  # kind of work
    seconds: _Seconds | None = None
    seconds_on: dict[Name, _Seconds] = field(default_factory=dict)
    cores: Annotated[float, Ge(1), Le(MAX_CORES)] = 1.0
    priority: Annotated[int, Ge(-(1 << 31)), Le((1 << 31) - 1)] = 0  # larger runs first among otherwise equal tasks
    accesses: tuple[_FiledAccess, ...] = ()
    after: tuple[Name, ...] = ()  # explicit predecessors, besides those that follow from accesses


@dataclass(frozen=True, slots=True)
class _GraphFile(_Strict):
    """The document of a graph file."""

    document_name: ClassVar[str] = "a graph of format 'syclsched-graph/1'"
    format: Literal["syclsched-graph/1"]
    tasks: tuple[_FiledTask, ...]
    arrays: tuple[_FiledArray, ...] = ()
    name: Text = ""


def parse_graph_file(text: bytes, *, name: str, where: str, limits: Limits, units: Units) -> TaskGraph:
    """Parse a graph file of the project's own format."""
    document = from_json(_GraphFile, text, where=where)
    limits.check_tasks(len(document.tasks), where)
    limits.check_edges(sum(len(t.accesses) + len(t.after) for t in document.tasks), where)
    graph = TaskGraph(document.name or name)
    arrays: dict[str, LogicalArray] = {}
    for index, filed in enumerate(document.arrays):
        with _errors_at(f"{where}, at arrays.{index}"):
            arrays[filed.name] = _declare(graph, filed)
    for index, task in enumerate(document.tasks):
        with _errors_at(f"{where}, at tasks.{index}"):
            _add(graph, task, arrays, units)
    for index, task in enumerate(document.tasks):
        with _errors_at(f"{where}, at tasks.{index}.after"):
            for before in task.after:
                graph.edge(before, task.name)
    try:
        graph.validate()
    except CycleError as error:
        raise FormatError(f"{error.what[:2000]}, expected none", where=where) from None
    return graph


def graph_text(graph: TaskGraph) -> str:
    """Serialise a graph of cost-only tasks; `parse_graph_file` reads the result."""
    after: dict[str, list[str]] = {}
    for before, later in dict.fromkeys(graph.edges):
        after.setdefault(later, []).append(before)
    document = _GraphFile(
        format=GRAPH_FORMAT,
        name=graph.name,
        arrays=tuple(_filed_array(array) for array in graph.arrays.values()),
        tasks=tuple(_filed_task(task, tuple(after.get(task.name, ()))) for task in graph.tasks),
    )
    return to_json(document) + "\n"


# --- internals ------------------------------------------------------------------------------------


@contextmanager
def _errors_at(where: str) -> Iterator[None]:
    """Re-raise errors of the graph as `FormatError` with the position in the file."""
    try:
        yield
    except SyclschedError as error:
        raise FormatError(error.what, where=where, hint=error.hint) from None


def _declare(graph: TaskGraph, filed: _FiledArray) -> LogicalArray:
    if (filed.nbytes is None) == (filed.shape is None):
        raise GraphError(f"array {filed.name!r} has both nbytes and shape, or neither, expected one of them")
    shape = filed.shape if filed.shape is not None else (filed.nbytes or 0,)
    if len(shape) > _MAX_DIMENSIONS or math.prod(shape) > MAX_BYTES:
        raise GraphError(f"array {filed.name!r} is too large: at most {MAX_BYTES} elements in 32 dimensions")
    dtype = filed.dtype if filed.shape is not None else "uint8"
    return graph.array(filed.name, shape, dtype, temporary=filed.temporary)


def _add(graph: TaskGraph, filed: _FiledTask, arrays: dict[str, LogicalArray], units: Units) -> Task:
    if filed.kind == "barrier":
        if filed.accesses or filed.seconds is not None or filed.seconds_on:
            raise GraphError(f"barrier {filed.name!r} has accesses or a cost, expected none")
        return graph.barrier(name=filed.name)
    accesses: list[tuple[LogicalArray | ArrayRows, AccessMode]] = []
    for access in filed.accesses:
        if access.array not in arrays:
            raise GraphError(f"no array {access.array!r}, expected one of arrays")
        array = arrays[access.array]
        accesses.append((array if access.rows is None else ArrayRows(array, *access.rows), access.mode))
    cost = units.cost(filed.seconds, filed.seconds_on, filed.cores)
    return add_cost_only(graph, filed.name, cost, accesses, family=filed.family, priority=filed.priority)


def _filed_array(array: LogicalArray) -> _FiledArray:
    if array.dtype == "uint8" and len(array.shape) == 1:
        return _FiledArray(array.name, nbytes=array.nbytes, temporary=array.temporary)
    return _FiledArray(array.name, shape=array.shape, dtype=array.dtype, temporary=array.temporary)  # type: ignore[arg-type]


def _filed_task(task: Task, after: tuple[str, ...]) -> _FiledTask:
    if task.kind == "barrier":
        return _FiledTask(task.name, kind="barrier", after=after)
    if not is_cost_only(task) or task.signature is None:
        raise GraphError(
            "it has code, which a file of data cannot hold",
            where=f"task {task.name!r}",
            hint="Only graphs whose tasks have costs instead of code can be written",
        )
    cost = stated_cost(task.signature)
    accesses = tuple(_FiledAccess(a.array, a.mode, a.rows) for a in task.accesses)
    return _FiledTask(
        task.name, family=task.family, seconds=cost.seconds, seconds_on=dict(cost.on), cores=cost.cores,
        priority=task.priority, accesses=accesses, after=after,
    )  # fmt: skip
