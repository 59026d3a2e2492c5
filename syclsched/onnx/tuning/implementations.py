# SPDX-License-Identifier: Apache-2.0
"""Filters for the implementations of a model's tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import prod
from typing import Final

from syclsched.costs import CostModel
from syclsched.errors import ArgumentError, did_you_mean
from syclsched.execution.replay.launch_fusion import is_tiny
from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.task import Task
from syclsched.onnx.tuning.kernel_selection import LIBRARY
from syclsched.planning.memory.host_placement import movable_arrays, shares_memory

#: Smaller weights stay in caches from call to call.
_LARGE_BYTES: Final = 1 << 18

#: Share of a run's time that other shapes may lose so that fewer kernels are compiled for them.
_LOST: Final = 0.01

#: A kernel of OpenCL C is not built if this share of another's stated efficiency is more than its own.
_DOMINATED: Final = 0.5

#: Implementations of operators: a library, kernels (some for few shapes or GPUs only), and the host.
IMPLEMENTATIONS: Final = (
    LIBRARY,
    "python",
    "opencl-c",
    "opencl-c-winograd",
    "opencl-c-groups",
    "opencl-c-table",
    "opencl-c-blocks",
    "opencl-c-avx2",
    "numpy",
    "reference",
)


def device_supports(task: Task, costs: CostModel) -> bool:
    """Return whether a device can run a task."""
    return task.operation is not None and any(
        costs.supports(task, each, device) is None
        for each in task.operation.implementations
        if each.kind not in ("host", "cost-only")
        for device in costs.platform.compute_devices
    )


def on_devices(graph: TaskGraph, platform: Platform, kernels: Collection[str] = ()) -> TaskGraph:
    """Return a graph whose tasks run on the host only if no device can run them: a host task stalls the devices.

    Tasks that do not fit into device memory (`oversized_tasks`) also run on the host. If all devices are CPUs, the
    library does every task that it supports on one of them, except those named in ``kernels`` that have one: CPU
    devices share the host's cores, and another maker's, which the library may refuse, adds none. The smallest tasks
    then take kernels of OpenCL C where they have them: several of those can be made by one launch. So do those of the
    library's that have tasks of kernels on all sides: to change to the library and back takes longer than they do.
    """
    costs = CostModel(platform)

    def library_supports(task: Task) -> bool:
        by_library = [each for each in task.operation.implementations if each.name == LIBRARY] if task.operation else []
        cpus = [device for device in platform.compute_devices if device.kind == "cpu"]
        return any(costs.supports(task, each, device) is None for each in by_library for device in cpus)

    def has_opencl_c(task: Task) -> bool:
        ways = [each for each in task.operation.implementations if each.name == "opencl-c"] if task.operation else []
        return any(costs.supports(task, each, device) is None for each in ways for device in platform.compute_devices)

    def keep(task: Task, each: Implementation) -> bool:
        if task.name in oversized:
            return each.kind == "host"
        if each.kind == "host":
            return not device_supports(task, costs)
        if each.name == "python" and task.name in tiny:
            return False
        if not only_cpus or not library_supports(task):
            return True
        return (each.name == LIBRARY) != (task.name in kernels)

    oversized = oversized_tasks(graph, platform)
    only_cpus = all(device.kind == "cpu" for device in platform.compute_devices)
    tiny = {task.name for task in graph.tasks if only_cpus and is_tiny(task) and has_opencl_c(task)}
    if only_cpus and is_bound_by_weights(graph):
        kernels = {task.name for task in graph.tasks if _has_kernel(task, platform, costs)}
    else:
        kernels = {task.name for task in graph.tasks if task.name in kernels and _has_kernel(task, platform, costs)}
        if tiny:
            kernels |= _between_kernels(graph, tiny, library_supports)
    return graph.with_implementations(keep)


def _between_kernels(graph: TaskGraph, tiny: Collection[str], library_supports: Callable[[Task], bool]) -> set[str]:
    """Return the tiny tasks between tasks without library implementations, and beside none with one."""
    by_library = {task.name for task in graph.tasks if library_supports(task)}
    behind, before, beside_library = set[str](), set[str](), set[str]()
    for dependency in graph.dependencies():
        (beside_library if dependency.before in by_library else behind).add(dependency.after)
        (beside_library if dependency.after in by_library else before).add(dependency.before)
    return (behind & before).intersection(by_library, tiny) - beside_library


def is_bound_by_weights(graph: TaskGraph) -> bool:
    """Return whether all large weights are of matrix-vector products, as in decoding: each is read once, for one row.

    Memory then bounds the time, and on CPUs the kernel of register blocks reads packed weights faster than the library
    does: see `benchmarks/decoder.py`.
    """
    read_once = False
    for task in graph.tasks:
        if task.signature is None or task.operation is None:
            continue
        large = [name for name, each in task.constants.items() if each.nbytes >= _LARGE_BYTES]
        shape = task.signature.shapes.get("y", ())
        if large == ["b"] and task.operation.name.startswith("matmul") and prod(shape[:-1]) == 1:
            read_once = True
        elif large and not task.operation.name.startswith(("gather", "rotary")):  # which read single rows
            return False
    return read_once


def _has_kernel(task: Task, platform: Platform, costs: CostModel) -> bool:
    return task.operation is not None and any(
        _is_on_devices(each) and costs.supports(task, each, device) is None
        for each in task.operation.implementations
        for device in platform.compute_devices
    )


def chosen_before(graph: TaskGraph, platform: Platform, chosen: Mapping[str, str | None]) -> TaskGraph:
    """Return a graph whose tasks keep the implementations that were chosen for them with other shapes.

    Tasks for which that is not supported now, or that were not there, have those of `on_devices`.
    """
    costs = CostModel(platform)

    def is_kept(task: Task, each: Implementation) -> bool:
        return each.name == chosen.get(task.name) and (
            each.kind == "host"
            or any(costs.supports(task, each, device) is None for device in platform.compute_devices)
        )

    kernels = [
        task.name
        for task in graph.tasks
        if chosen.get(task.name) != LIBRARY and task.operation is not None
        if any(is_kept(task, each) for each in task.operation.implementations)
    ]
    return on_devices(graph, platform, kernels).with_implementations(is_kept)


def for_other_shapes(graph: TaskGraph, plan: Plan, costs: CostModel) -> dict[str, str | None]:
    """Return the implementations of a plan's tasks that other shapes shall take: those of the plan, if not in Python.

    A kernel in Python is compiled for each shape by itself, which takes longer than most shapes are in use; those in
    OpenCL C are compiled at once. So these take its place where they are measured to be as fast, or nearly: those that
    lose least, up to a hundredth of the plan's makespan. Tasks whose results are empty tell nothing of other shapes.
    """
    tasks = {task.name: task for task in graph.tasks}
    devices = {device.name: device for device in costs.platform.compute_devices}
    empty = {name for name, task in tasks.items() if _makes_nothing(task)}
    found = {each.task: each.implementation for each in plan.schedule.assignments if each.task not in empty}
    offers: list[tuple[float, str, str]] = []
    for each in plan.schedule.assignments:
        task, device = tasks.get(each.task), devices.get(each.device)
        if task is None or task.operation is None or device is None or each.implementation is None:
            continue
        if task.name in empty:
            continue
        chosen = task.operation.implementation(each.implementation)
        for other in task.operation.implementations if chosen.is_python_kernel else ():
            if other.is_kernel and not other.is_python_kernel and costs.supports(task, other, device) is None:
                own, instead = (costs.task_seconds(task, one, device) for one in (chosen, other))
                if own.origin == instead.origin == "measured":
                    offers.append((instead.seconds - own.seconds, task.name, other.name))
    left_s = _LOST * plan.makespan_s
    replaced = set[str]()
    for lost_s, name, implementation in sorted(offers):
        if name not in replaced and lost_s <= left_s:
            found[name] = implementation
            replaced.add(name)
            left_s -= max(lost_s, 0.0)
    return found


def _makes_nothing(task: Task) -> bool:
    """Return whether all results of a task are empty."""
    if task.operation is None or task.signature is None:
        return False
    written = [each.name for each in task.operation.arrays if each.mode is not None and each.mode.writes]
    return bool(written) and all(0 in task.signature.shapes.get(name, ()) for name in written)


def without_dominated(graph: TaskGraph, costs: CostModel) -> TaskGraph:
    """Return a graph without kernels that are stated to be slower than another one of the task on the same devices.

    One in Python must be stated to be faster than one in OpenCL C, as to compile it takes longer than that saves; one
    in OpenCL C at least half as fast, as efficiencies are rough. What has been timed is kept.
    """
    devices = costs.platform.compute_devices

    def supporting(task: Task, each: Implementation) -> set[str]:
        return {device.name for device in devices if costs.supports(task, each, device) is None}

    def keep(task: Task, each: Implementation) -> bool:
        if task.operation is None or not _is_on_devices(each):
            return True
        share = 1.0 if _is_python(each) else _DOMINATED
        better = [
            other
            for other in task.operation.implementations
            if other is not each
            and (other.kind == "opencl-c" or (other.kind == "sequence" and not _is_python(other)))
            and share * other.efficiency >= each.efficiency
        ]
        if not better or _is_timed(costs, task, each):
            return True
        on = supporting(task, each)
        return not any(on <= supporting(task, other) for other in better)

    return graph.with_implementations(keep)


def without_untimed(graph: TaskGraph, costs: CostModel) -> TaskGraph:
    """Return a graph without the kernels in Python that were not timed, where a task has another kernel.

    Calibration leaves out those that can save little. Compiling one takes longer than all others together.
    """
    devices = costs.platform.compute_devices

    def has_other(task: Task) -> bool:
        return task.operation is not None and any(
            each.kind != "host" and not _is_python(each) and costs.supports(task, each, device) is None
            for each in task.operation.implementations
            for device in devices
        )

    return graph.with_implementations(
        lambda task, each: not _is_python(each) or _is_timed(costs, task, each) or not has_other(task)
    )


def _is_on_devices(each: Implementation) -> bool:
    """Return whether it is a kernel, or a sequence of several."""
    return each.is_kernel or each.kind == "sequence"


def _is_python(each: Implementation) -> bool:
    """Return whether kernels in Python are compiled for an implementation."""
    return each.is_python_kernel or "python" in each.parts


def oversized_tasks(graph: TaskGraph, platform: Platform) -> frozenset[str]:
    """Return the tasks that do not fit into the memory of any device.

    A task needs all its arrays at once, and its constants for as long as the plan is bound; but a device that shares
    the host's memory uses arrays there. Tasks that are too large alone are left out first; the others are accepted by
    ascending bytes of constants, while all accepted constants fit beside the largest task.
    """
    homes = {device.space for device in platform.compute_devices}
    capacities = [space.capacity_bytes for space in platform.spaces if space.name in homes]
    if not capacities or not all(capacities):
        return frozenset()
    capacity = max(capacities)
    arrays = graph.arrays
    shared = any(shares_memory(device, platform) for device in platform.compute_devices)
    elsewhere = movable_arrays(graph) if shared else frozenset[str]()
    touched = {
        task.name: sum(arrays[name].nbytes for name in {access.array for access in task.accesses} - elsewhere)
        for task in graph.tasks
    }
    fitting = [task for task in graph.tasks if touched[task.name] <= capacity]
    largest = max((touched[task.name] for task in fitting), default=0)
    held: set[Constant] = set()
    held_bytes = 0
    kept = set()
    for task in sorted(fitting, key=lambda each: sum(c.nbytes for c in each.constants.values())):
        more = set(task.constants.values()) - held
        needed = held_bytes + sum(constant.nbytes for constant in more)
        if needed + largest <= capacity:
            held |= more
            held_bytes = needed
            kept.add(task.name)
    return frozenset(touched.keys() - kept)


def check_names(names: Collection[str], where: str = "without") -> None:
    """Raise `ArgumentError` for names of unknown implementations."""
    for name in sorted(set(names).difference(IMPLEMENTATIONS)):
        raise ArgumentError(
            f"no implementation is called {name!r}",
            where=where,
            hint=f"{did_you_mean(name, IMPLEMENTATIONS)}There are: {', '.join(IMPLEMENTATIONS)}",
        )


def without_implementations(graph: TaskGraph, names: Collection[str], platform: Platform) -> TaskGraph:
    """Return a graph without implementations of these names, except where a task has no other for any device."""
    if not names:
        return graph
    costs = CostModel(platform)

    def is_excluded(each: Implementation) -> bool:
        return not {each.name, *each.parts}.isdisjoint(names)

    def has_other(task: Task) -> bool:
        return task.operation is not None and any(
            costs.supports(task, each, device) is None
            for each in task.operation.implementations
            if not is_excluded(each)
            for device in platform.devices
        )

    return graph.with_implementations(lambda task, each: not is_excluded(each) or not has_other(task))


def _is_timed(costs: CostModel, task: Task, each: Implementation) -> bool:
    devices = costs.platform.compute_devices
    return any(costs.task_seconds(task, each, device).origin == "measured" for device in devices)
