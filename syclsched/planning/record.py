# SPDX-License-Identifier: Apache-2.0
"""The graph as the plain data a plan carries, so that a plan can be verified without the graph."""

from __future__ import annotations

from syclsched.model.graph import TaskGraph
from syclsched.model.plan import PlannedAccess, PlannedArray, PlannedTask


def record_arrays(graph: TaskGraph) -> tuple[PlannedArray, ...]:
    """Return the arrays of a graph that some task touches, as data.

    Parameters
    ----------
    graph : TaskGraph
        The graph.

    Returns
    -------
    tuple of PlannedArray
        In order of declaration.
    """
    inputs = set(graph.inputs())
    touched = {access.array for task in graph.tasks for access in task.accesses}
    return tuple(
        PlannedArray(a.name, a.shape, a.dtype, a.nbytes, a.temporary, a.name in inputs)
        for a in graph.arrays.values()
        if a.name in touched
    )


def record_tasks(graph: TaskGraph) -> tuple[PlannedTask, ...]:
    """Return the tasks of a graph as data, in order of submission.

    Parameters
    ----------
    graph : TaskGraph
        The graph.

    Returns
    -------
    tuple of PlannedTask
        With explicit and barrier dependencies; those from accesses follow from the order.
    """
    after: dict[str, list[str]] = {}
    for dependency in graph.dependencies():
        if dependency.kind in ("explicit", "barrier"):
            after.setdefault(dependency.after, []).append(dependency.before)
    return tuple(
        PlannedTask(
            name=task.name,
            kind=task.kind,
            family=task.family,
            accesses=tuple(PlannedAccess(a.array, a.mode) for a in task.accesses),
            after=tuple(dict.fromkeys(after.get(task.name, ()))),
        )
        for task in graph.tasks
    )
