# SPDX-License-Identifier: Apache-2.0
"""Which implementations a model's tasks may be done by."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from syclsched.costs import CostModel
from syclsched.errors import ArgumentError
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation
from syclsched.model.platform import Platform
from syclsched.model.task import Task
from syclsched.onnx.fitting import without_room
from syclsched.onnx.mixing import LIBRARY

#: What does operators of models: a library, kernels (for few forms, or GPUs, some), and the host.
IMPLEMENTATIONS: Final = (
    LIBRARY,
    "numba-dpex",
    "opencl-c",
    "opencl-c-winograd",
    "opencl-c-groups",
    "numpy",
    "reference",
)


def on_devices(graph: TaskGraph, platform: Platform, kernels: Collection[str] = ()) -> TaskGraph:
    """Return a graph whose tasks the host does only if no device can: between devices' tasks it holds all of them up.

    Under a limit on memory there may be tasks that no device has room for (`without_room`). The host does these, too.
    Where there are only CPUs, the library does whatever it can but for some tasks.
    """
    costs = CostModel(platform)

    def done_by_a_device(task: Task) -> bool:
        return task.operation is not None and any(
            costs.supports(task, each, device) is None
            for each in task.operation.implementations
            if each.kind not in ("host", "cost-only")
            for device in platform.compute_devices
        )

    def done_by_library(task: Task) -> bool:
        return task.operation is not None and all(
            any(
                costs.supports(task, each, device) is None
                for each in task.operation.implementations
                if is_library(each)
            )
            for device in platform.compute_devices
            if device.kind == "cpu"
        )

    def is_library(each: Implementation) -> bool:
        return each.name == LIBRARY

    def keep(task: Task, each: Implementation) -> bool:
        if task.name in homeless:
            return each.kind == "host"
        if each.kind == "host":
            return not done_by_a_device(task)
        if not only_cpus or not done_by_library(task):
            return True
        return is_library(each) != (task.name in kernels)

    homeless = without_room(graph, platform)
    only_cpus = all(device.kind == "cpu" for device in platform.compute_devices)
    return graph.with_implementations(keep)


def check_names(names: Collection[str], where: str = "without") -> None:
    """Refuse names that no implementation of a model's operation has."""
    for name in sorted(set(names).difference(IMPLEMENTATIONS)):
        close = get_close_matches(name, IMPLEMENTATIONS, n=1)
        raise ArgumentError(
            f"no implementation is called {name!r}",
            where=where,
            hint=(f"Did you mean {close[0]!r}? " if close else "") + f"There are: {', '.join(IMPLEMENTATIONS)}",
        )


def without_implementations(graph: TaskGraph, names: Collection[str]) -> TaskGraph:
    """Return a graph of which no task is done by an implementation of these names, if it has any other."""
    return graph.with_implementations(lambda _, each: not any(name in names for name in (each.name, *each.parts)))
