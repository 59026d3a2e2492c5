# SPDX-License-Identifier: Apache-2.0
"""Filters for the implementations of a model's tasks."""

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
from syclsched.onnx.host_fallback import oversized_tasks
from syclsched.onnx.kernel_selection import LIBRARY

#: Implementations of operators: a library, kernels (some for few shapes or GPUs only), and the host.
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
    """Return a graph whose tasks run on the host only if no device can run them: a host task stalls the devices.

    Tasks that do not fit into device memory (`oversized_tasks`) also run on the host. If all devices are CPUs, the
    library does every task it supports, except those named in ``kernels``.
    """
    costs = CostModel(platform)

    def device_supports(task: Task) -> bool:
        return task.operation is not None and any(
            costs.supports(task, each, device) is None
            for each in task.operation.implementations
            if each.kind not in ("host", "cost-only")
            for device in platform.compute_devices
        )

    def library_supports(task: Task) -> bool:
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
        if task.name in oversized:
            return each.kind == "host"
        if each.kind == "host":
            return not device_supports(task)
        if not only_cpus or not library_supports(task):
            return True
        return is_library(each) != (task.name in kernels)

    oversized = oversized_tasks(graph, platform)
    only_cpus = all(device.kind == "cpu" for device in platform.compute_devices)
    return graph.with_implementations(keep)


def check_names(names: Collection[str], where: str = "without") -> None:
    """Raise `ArgumentError` for names of unknown implementations."""
    for name in sorted(set(names).difference(IMPLEMENTATIONS)):
        close = get_close_matches(name, IMPLEMENTATIONS, n=1)
        raise ArgumentError(
            f"no implementation is called {name!r}",
            where=where,
            hint=(f"Did you mean {close[0]!r}? " if close else "") + f"There are: {', '.join(IMPLEMENTATIONS)}",
        )


def without_implementations(graph: TaskGraph, names: Collection[str]) -> TaskGraph:
    """Return a graph without implementations of these names, except where a task has no other."""
    return graph.with_implementations(lambda _, each: not any(name in names for name in (each.name, *each.parts)))
