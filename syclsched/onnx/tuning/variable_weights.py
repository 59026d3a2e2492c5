# SPDX-License-Identifier: Apache-2.0
"""Convolutions by weights that change, and gradients of weights: with arrays that minimal filtering needs."""

from __future__ import annotations

from dataclasses import replace

from syclsched.kernels.nn.convolution.winograd_filters import with_filters
from syclsched.kernels.nn.gradients.winograd_weights import with_sums
from syclsched.model.access import Access, AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Device
from syclsched.model.task import Task
from syclsched.rewrites.merging import with_arrays_only


def with_scratch_arrays(graph: TaskGraph, device: Device) -> TaskGraph:
    """Return a graph in which minimal filtering on a device implements convolutions whose weights change.

    Each of them gets an array for transformed filters, and each gradient of weights one for sums.
    """
    found = {task.name: each for task in graph.tasks if (each := _with_scratch_array(task, device)) is not None}
    if not found:
        return graph
    made = with_arrays_only(graph)
    for _, (array, shape) in found.values():
        made.array(array, shape, "float32", temporary=True)
    for task in graph.tasks:
        made.insert(found[task.name][0] if task.name in found else task)
    for before, after in graph.edges:
        made.edge(before, after)
    return made


def _with_scratch_array(task: Task, device: Device) -> tuple[Task, tuple[str, tuple[int, ...]]] | None:
    """Return a task with the further argument, and the name and shape of its array; None for other tasks."""
    if task.operation is None or task.signature is None or task.rows:
        return None
    found = with_filters(task.operation, task.signature)
    found = found or with_sums(task.operation, task.signature, device.compute_units)
    if found is None:
        return None
    operation, shape = found
    parameter = operation.parameters[-1].name
    array = f"{task.name} {parameter}"
    signature = replace(
        task.signature,
        shapes={**task.signature.shapes, parameter: shape},
        dtypes={**task.signature.dtypes, parameter: "float32"},
    )
    changed = replace(
        task,
        operation=operation,
        signature=signature,
        arguments={**task.arguments, parameter: array},
        accesses=(*task.accesses, Access(array, AccessMode.WRITE)),
    )
    return changed, (array, shape)
