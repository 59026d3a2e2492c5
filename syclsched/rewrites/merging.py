# SPDX-License-Identifier: Apache-2.0
"""Merging of tasks into one: the new graph that a list of merges describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from syclsched.errors import GraphError
from syclsched.model.access import Access
from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.topological_sort import topological_order
from syclsched.model.operation import Operation, OperationStep, Scalar, Signature
from syclsched.model.profile import MAX_NAME
from syclsched.model.recipe import Merge, Recipe
from syclsched.model.sequence import sequence_operation
from syclsched.model.task import Task
from syclsched.rewrites.rewrite_result import Rewrite, RewriteCounters


def merge(graph: TaskGraph, merges: Iterable[Merge]) -> Rewrite:
    """Return the graph with some of its tasks merged."""
    merges = tuple(merges)
    group_of = _groups(graph, merges)
    new = with_arrays_only(graph)
    names: dict[str, str] = {}  # by original task
    operations: dict[object, Operation] = {}
    for node in _contracted_order(graph, merges, group_of):
        if isinstance(node, str):
            names[node] = new.insert(graph.find_task(node)).name
            continue
        found = merges[node]
        new.insert(_merged_task([graph.find_task(t) for t in found.tasks], found, operations))
        names.update(dict.fromkeys(found.tasks, found.name))
    for before, after in dict.fromkeys((names[b], names[a]) for b, a in graph.edges):
        if before != after:
            new.edge(before, after)
    return Rewrite(
        graph=new,
        tasks={t.name: (names[t.name],) for t in graph.tasks},
        arrays={name: (name,) for name in graph.arrays},
        counters=RewriteCounters(len(graph), len(new), merged=len(group_of), merges=len(merges)),
        recipe=Recipe(merges=merges),
    )


def mergeable(task: Task) -> bool:
    """Return whether a task can become a step: no barrier, no sequence, and no rows or reshaped arrays."""
    as_they_are = not task.rows and not task.reshaped
    return task.operation is not None and as_they_are and not any(i.parts for i in task.operation.implementations)


def _groups(graph: TaskGraph, merges: tuple[Merge, ...]) -> dict[str, int]:
    group_of: dict[str, int] = {}
    for number, found in enumerate(merges):
        for position, name in enumerate(found.tasks):
            task = graph.find_task(name)
            if name in group_of or not mergeable(task):
                raise GraphError("it is merged twice, or cannot be merged", where=f"task {name!r}")
            group_of[name] = number
            assert task.operation is not None
            known = {i.name for i in task.operation.implementations}
            for ways in found.implementations:
                if len(ways) != len(found.tasks) or ways[position] not in known:
                    raise GraphError(f"{', '.join(ways)} are not implementations of its steps", where=found.name)
    return group_of


def with_arrays_only(graph: TaskGraph) -> TaskGraph:
    """Return a graph with the same arrays and data, without tasks."""
    new = TaskGraph(graph.name, longest_name=MAX_NAME)
    data, arrays = graph.data, graph.arrays
    for array in arrays.values():
        new.array(
            array.name, array.shape, array.dtype,
            data=data.get(array.name), temporary=array.temporary, usm=array.usm, donated=array.donated,
        )  # fmt: skip
    for name, joined in graph.joined.items():
        for each in joined:
            new.join(name, [arrays[part] for part in each.parts])
    return new


def _contracted_order(graph: TaskGraph, merges: tuple[Merge, ...], group_of: Mapping[str, int]) -> list[int | str]:
    """Return tasks by name and groups by number, so that every dependency points forward."""
    node_of: dict[str, int | str] = {name: group_of.get(name, name) for name in graph.order()}
    place = {name: position for group in merges for position, name in enumerate(group.tasks)}
    pairs = set()
    for dependency in graph.dependencies():
        before, after = node_of[dependency.before], node_of[dependency.after]
        if before != after:
            pairs.add((before, after))
        elif place[dependency.before] > place[dependency.after]:
            raise GraphError("a merge reverses a dependency", where=f"task {dependency.before!r}")
    nodes = list(dict.fromkeys(node_of.values()))
    number = {node: str(index) for index, node in enumerate(nodes)}
    order = topological_order(number.values(), [(number[b], number[a]) for b, a in pairs])
    if len(order) < len(nodes):
        raise GraphError("merging creates a cycle of dependencies", where=f"graph {graph.name!r}")
    return [nodes[int(index)] for index in order]


def _merged_task(tasks: list[Task], found: Merge, operations: dict[object, Operation]) -> Task:
    """Return the task that runs some tasks in order; equal sequences share one operation, for the cost model."""
    steps: list[OperationStep] = []
    arrays: dict[str, str] = {}  # parameter by array
    parameter_of: dict[Constant, str] = {}
    scalars: dict[str, Scalar] = {}
    shapes, dtypes = {}, {}
    for index, task in enumerate(tasks):
        assert task.operation is not None
        assert task.signature is not None
        wiring: list[tuple[str, str]] = []
        for parameter in task.operation.parameters:
            if parameter.mode is None:
                whole = f"{parameter.name}_{index}"
                scalars[whole] = task.signature.scalars[parameter.name]
            else:
                given = task.constants.get(parameter.name)
                if given is None:
                    whole = arrays.setdefault(task.arguments[parameter.name], f"a{len(arrays)}")
                else:
                    whole = parameter_of.setdefault(given, f"c{len(parameter_of)}")
                shapes[whole] = task.signature.shapes[parameter.name]
                dtypes[whole] = task.signature.dtypes[parameter.name]
            wiring.append((parameter.name, whole))
        steps.append(OperationStep(task.operation, tuple(wiring)))
    key = (tuple((id(s.operation), s.arguments) for s in steps), found.implementations)
    if key not in operations:
        operations[key] = sequence_operation(steps, found.implementations)
    operation = operations[key]
    array_of = {parameter: array for array, parameter in arrays.items()}
    constants = {parameter: constant for constant, parameter in parameter_of.items()}
    touching = [p for p in operation.arrays if p.name in array_of]
    return Task(
        name=found.name,
        kind="host" if all(t.kind == "host" for t in tasks) else "kernel",
        accesses=tuple(Access(array_of[p.name], p.mode) for p in touching if p.mode is not None),
        operation=operation,
        arguments={p.name: array_of[p.name] for p in touching},
        signature=Signature(shapes, dtypes, scalars, frozenset(constants)),
        priority=max(t.priority for t in tasks),
        deadline_s=_together_s(tasks),
        retries=max(t.retries for t in tasks),
        constants=constants,
    )


def _together_s(tasks: Iterable[Task]) -> float | None:
    """Return the sum of the tasks' deadlines; None if one of them has none."""
    deadlines = [task.deadline_s for task in tasks]
    return None if any(s is None for s in deadlines) else sum(s for s in deadlines if s is not None)
