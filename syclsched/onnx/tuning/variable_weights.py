# SPDX-License-Identifier: Apache-2.0
"""Implementations that plans of a model may take, and the arrays that minimal filtering by changing weights needs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from syclsched.frontends.onnx.network import numbered_name
from syclsched.kernels.nn.convolution.winograd_filters import with_filters
from syclsched.kernels.nn.gradients.winograd_weights import with_sums
from syclsched.model.access import Access, AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Operation, Shape
from syclsched.model.platform import Device, Platform
from syclsched.model.task import Task
from syclsched.onnx.tuning.implementations import without_implementations
from syclsched.rewrites.merging import with_arrays_only


def offered_graph(graph: TaskGraph, platform: Platform, without: Collection[str], *, mixes: bool) -> TaskGraph:
    """Return a graph with all implementations that its plans may take, which decide the memory that they need.

    ``mixes`` says whether kernels may replace library calls on the only device, ``without`` what is left out.
    """
    offered = with_scratch_arrays(graph, platform.compute_devices[0]) if mixes else graph
    return without_implementations(offered, without, platform)


def with_scratch_arrays(graph: TaskGraph, device: Device) -> TaskGraph:
    """Return a graph in which minimal filtering may implement convolutions whose weights change, on a device.

    Each of them gets an array for transformed filters, and each gradient of weights one for sums. Other implementations
    of these tasks stay, and leave the array as it is.
    """
    found = {task.name: each for task in graph.tasks if (each := _with_scratch(task, device)) is not None}
    if not found:
        return graph
    made, taken = with_arrays_only(graph), {*graph.arrays, *graph.joined}
    for task in graph.tasks:
        if task.name in found:
            operation, shape = found[task.name]
            array = numbered_name(f"{task.name} {operation.parameters[-1].name}", taken)
            made.array(array, shape, "float32", temporary=True)
            made.insert(_with_argument(task, operation, array, shape))
        else:
            made.insert(task)
    for before, after in graph.edges:
        made.edge(before, after)
    return made


def _with_scratch(task: Task, device: Device) -> tuple[Operation, Shape] | None:
    """Return a task's operation with the further parameter, and the shape of its array; None for other tasks."""
    if task.operation is None or task.signature is None or task.rows:
        return None
    found: tuple[Operation, Shape] | None = with_filters(task.operation, task.signature)
    if found is None:
        found = with_sums(task.operation, task.signature, device.compute_units)
    return found


def _with_argument(task: Task, operation: Operation, array: str, shape: Shape) -> Task:
    """Return a task by an operation with one more parameter, whose argument is an array of a shape."""
    assert task.signature is not None
    parameter = operation.parameters[-1].name
    signature = replace(
        task.signature,
        shapes={**task.signature.shapes, parameter: shape},
        dtypes={**task.signature.dtypes, parameter: "float32"},
    )
    return replace(
        task,
        operation=operation,
        signature=signature,
        arguments={**task.arguments, parameter: array},
        accesses=(*task.accesses, Access(array, AccessMode.WRITE)),
    )
