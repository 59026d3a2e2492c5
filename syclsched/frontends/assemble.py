# SPDX-License-Identifier: Apache-2.0
"""Construction of task graphs from parsed files: tasks with costs, and edges or files with sizes in bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from syclsched.errors import ArgumentError, FormatError
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import MAX_BYTES, StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.naming import MAX_NAME_LENGTH
from syclsched.model.graph_parts.topological_sort import find_cycle, topological_order
from syclsched.model.task import LogicalArray

#: Tasks of a cycle that an error message lists.
_NAMED = 12


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task read from a file."""

    name: str  # unique in the file
    cost: StatedCost
    where: str  # file and position, for error messages
    family: str = "task"  # kind of work
    priority: int = 0  # larger runs first among otherwise equal tasks
    #: Names of arrays; an array in both is updated in place.
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ListedEdge:
    """An edge read from a file."""

    #: Names of the two tasks.
    before: str
    after: str
    nbytes: int = 0  # bytes transferred; 0 for an ordering edge


def quoted_name(name: str) -> str:
    """Return a name quoted and shortened for an error message."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


def check_name(name: str, where: str) -> str:
    """Return the name if it is valid in a plan; raise `FormatError` otherwise."""
    if not name:
        raise FormatError("the name is empty, expected some text", where=where)
    if len(name) > MAX_NAME_LENGTH:
        what = f"the name {quoted_name(name)} has {len(name):,} characters, expected {MAX_NAME_LENGTH} at most"
        raise FormatError(what, where=where)
    return name


def check_bytes(nbytes: float, where: str) -> int:
    """Return the rounded number of bytes if it is in range; raise `FormatError` otherwise."""
    if not 0 <= nbytes <= MAX_BYTES:
        raise FormatError(f"{nbytes!r} bytes, expected a number from 0 to {MAX_BYTES}", where=where)
    return round(nbytes)


def graph_of_edges(
    name: str, tasks: Iterable[ListedTask], edges: Sequence[ListedEdge], where: str, places: Callable[[int], str]
) -> TaskGraph:
    """Return the graph of tasks and edges; each edge with bytes becomes one array."""
    listed = _by_name(tasks)
    reads: dict[str, list[str]] = defaultdict(list)
    writes: dict[str, list[str]] = defaultdict(list)
    sizes: dict[str, int] = {}
    for position, edge in enumerate(edges):
        for end in (edge.before, edge.after):
            if end not in listed:
                raise FormatError(f"no task {quoted_name(end)}, expected one that is listed", where=places(position))
        if edge.nbytes:
            array = _edge_name(edge, position, sizes)
            sizes[array] = edge.nbytes
            writes[edge.before].append(array)
            reads[edge.after].append(array)
    pairs = [(edge.before, edge.after) for edge in edges]
    order = _ordered(listed, pairs, where)
    graph = TaskGraph(name)
    arrays = {array: graph.array(array, (nbytes,), "uint8", temporary=True) for array, nbytes in sizes.items()}
    for task in order:
        accesses = [(arrays[a], AccessMode.READ) for a in reads[task]]
        accesses += [(arrays[a], AccessMode.WRITE) for a in writes[task]]
        _add(graph, listed[task], accesses)
    flows = {(edge.before, edge.after) for edge in edges if edge.nbytes}
    for pair in dict.fromkeys(pairs):
        if pair not in flows:
            graph.edge(*pair)
    return graph


def graph_of_files(
    name: str,
    tasks: Iterable[ListedTask],
    sizes: Mapping[str, int],
    edges: Sequence[tuple[str, str]],
    where: str,
) -> TaskGraph:
    """Return the graph of tasks that read and write files; each file becomes one array."""
    listed = _by_name(tasks)
    writers: dict[str, list[str]] = defaultdict(list)
    readers: set[str] = set()
    for task in listed.values():
        readers.update(file for file in task.reads if file not in task.writes)
        for file in dict.fromkeys(task.writes):
            writers[file].append(task.name)
    sole_writer = {file: by[0] for file, by in writers.items() if len(by) == 1}
    flows = {
        (sole_writer[file], task.name)
        for task in listed.values()
        for file in task.reads
        if file in sole_writer and sole_writer[file] != task.name
    }
    order = _ordered(listed, [*dict.fromkeys([*edges, *sorted(flows)])], where)
    graph = TaskGraph(name)
    arrays: dict[str, LogicalArray] = {}
    for task_name in order:
        task = listed[task_name]
        for file in (*task.reads, *task.writes):
            if file not in arrays:
                temporary = file in writers and file in readers
                arrays[file] = graph.array(check_name(file, task.where), (sizes[file],), "uint8", temporary=temporary)
        _add(graph, task, [(arrays[file], mode) for file, mode in _modes(task).items()])
    for pair in dict.fromkeys(edges):
        if pair not in flows:
            graph.edge(*pair)
    return graph


# --- internals ------------------------------------------------------------------------------------


def _by_name(tasks: Iterable[ListedTask]) -> dict[str, ListedTask]:
    listed: dict[str, ListedTask] = {}
    for task in tasks:
        if task.name in listed:
            raise FormatError(
                f"task {quoted_name(task.name)} is listed twice, expected unique names "
                f"(first at {listed[task.name].where})",
                where=task.where,
            )
        listed[check_name(task.name, task.where)] = task
    return listed


def _ordered(listed: Mapping[str, ListedTask], pairs: Sequence[tuple[str, str]], where: str) -> tuple[str, ...]:
    order = topological_order(listed, pairs)
    if len(order) < len(listed):
        cycle = find_cycle(listed, pairs)
        names = [*cycle[:_NAMED], f"... ({len(cycle) - 1} tasks)"] if len(cycle) > _NAMED + 1 else cycle
        raise FormatError(f"the edges close a cycle, expected none: {' -> '.join(names)}", where=where)
    return order


def _edge_name(edge: ListedEdge, position: int, taken: Mapping[str, int]) -> str:
    name = f"{edge.before}->{edge.after}"
    return f"edge {position}" if name in taken or len(name) > MAX_NAME_LENGTH else name


def _modes(task: ListedTask) -> dict[str, AccessMode]:
    modes = dict.fromkeys(task.reads, AccessMode.READ)
    modes.update((f, AccessMode.UPDATE if f in modes else AccessMode.WRITE) for f in task.writes)
    return modes


def _add(graph: TaskGraph, task: ListedTask, accesses: Sequence[tuple[LogicalArray, AccessMode]]) -> None:
    try:
        add_cost_only(graph, task.name, task.cost, accesses, family=task.family, priority=task.priority)
    except ArgumentError as error:
        raise FormatError(error.what, where=task.where) from None
