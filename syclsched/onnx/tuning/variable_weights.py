# SPDX-License-Identifier: Apache-2.0
"""Convolutions by weights that change, such as those of training: with arrays for transformed filters."""

from __future__ import annotations

from dataclasses import replace

from syclsched.kernels.nn.convolution.winograd_filters import FILTERS, with_filters
from syclsched.model.access import Access, AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.task import Task
from syclsched.rewrites.merging import with_arrays_only


def with_variable_filters(graph: TaskGraph) -> TaskGraph:
    """Return a graph in which minimal filtering is an implementation of convolutions whose weights change.

    Each of them gets an array for its transformed filters, which nobody else accesses.
    """
    found = {task.name: each for task in graph.tasks if (each := _with_filters(task)) is not None}
    if not found:
        return graph
    made = with_arrays_only(graph)
    for task, shape in found.values():
        made.array(task.arguments[FILTERS], shape, "float32", temporary=True)
    for task in graph.tasks:
        made.insert(found[task.name][0] if task.name in found else task)
    for before, after in graph.edges:
        made.edge(before, after)
    return made


def _with_filters(task: Task) -> tuple[Task, tuple[int, ...]] | None:
    """Return a convolution with the further argument, and the shape of its array; None for other tasks."""
    if task.operation is None or task.signature is None or task.rows:
        return None
    found = with_filters(task.operation, task.signature)
    if found is None:
        return None
    operation, shape = found
    array = f"{task.name} {FILTERS}"
    signature = replace(
        task.signature,
        shapes={**task.signature.shapes, FILTERS: shape},
        dtypes={**task.signature.dtypes, FILTERS: "float32"},
    )
    changed = replace(
        task,
        operation=operation,
        signature=signature,
        arguments={**task.arguments, FILTERS: array},
        accesses=(*task.accesses, Access(array, AccessMode.WRITE)),
    )
    return changed, shape
