# SPDX-License-Identifier: Apache-2.0
"""Merging of chains and tiny tasks until each task is worth its submission cost."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection

from syclsched.costs import CostModel
from syclsched.errors import PlatformError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.recipe import Merge
from syclsched.model.task import Task
from syclsched.rewrites.granularity import Granularity, granularity
from syclsched.rewrites.merging import merge, mergeable
from syclsched.rewrites.rewrite_result import Rewrite, unchanged
from syclsched.rewrites.task_cluster import Clusters, TaskCluster

#: Largest share of the smallest memory for a merged task, which holds all its arrays at once.
_ROOM = 1 / 16

#: Most names joined into that of a merged task; of more, only the first and the last are.
_SPELT_OUT = 3


def coarsen(graph: TaskGraph, platform: Platform, costs: CostModel) -> Rewrite:
    """Merge tasks below the platform's minimum effective granularity with their neighbours.

    Notes
    -----
    These tasks are not merged: barriers, tasks with costs instead of code, tasks that touch only some rows of an array,
    and tasks that cannot run on the same devices as their neighbour. Nor are tasks that can fail (the user's host
    functions, operations that report a status): the error must name the task, and independent tasks must still run.
    """
    limits = granularity(platform)
    devices = platform.devices
    if limits.minimum_s <= 0 or not _has_tiny(graph, devices, costs, limits):
        return unchanged(graph)
    clusters = _clusters(graph, platform, costs, limits)
    clusters.grow()
    order = graph.order()
    merges: list[Merge] = []
    taken = set(order)
    for cluster in sorted(clusters.clusters.values(), key=lambda c: c.members[0]):
        if len(cluster.members) > 1:
            tasks = [graph.find_task(order[index]) for index in cluster.members]
            name = _name([t.name for t in tasks], taken)
            taken.add(name)
            merges.append(Merge(tuple(t.name for t in tasks), _combinations(tasks, devices, costs), name))
    return merge(graph, merges) if merges else unchanged(graph)


def _name(names: list[str], taken: Collection[str]) -> str:
    """Return an unused name for a merged task that contains the names of its tasks."""
    joined = "+".join(names) if len(names) <= _SPELT_OUT else f"{names[0]}+...+{names[-1]} ({len(names)})"
    base = name = joined if len(joined) <= 120 else f"{names[0][:50]}+...+{names[-1][:50]} ({len(names)})"
    count = 1
    while name in taken:
        count += 1
        name = f"{base} #{count}"
    return name


def _has_tiny(graph: TaskGraph, devices: tuple[Device, ...], costs: CostModel, limits: Granularity) -> bool:
    return any(_joinable(task) and min(_seconds(task, devices, costs)) < limits.minimum_s for task in graph.tasks)


def _joinable(task: Task) -> bool:
    """Return whether a task may be merged: not if it can fail, as the tasks merged with it would fail, too."""
    operation = task.operation
    if operation is None or task.kind == "host" or operation.status is not None or task.deadline_s is not None:
        return False
    return mergeable(task) and all(i.kind != "cost-only" for i in operation.implementations)


def _seconds(task: Task, devices: tuple[Device, ...], costs: CostModel) -> tuple[float, ...]:
    return tuple([math.inf if c is None else c[1].seconds for c in costs.choices(task, devices)])


def _clusters(graph: TaskGraph, platform: Platform, costs: CostModel, limits: Granularity) -> Clusters:
    order = graph.order()
    number = {name: index for index, name in enumerate(order)}
    arrays = {name: index for index, name in enumerate(graph.arrays)}
    sizes = [float(a.nbytes) for a in graph.arrays.values()]
    inputs = set(graph.inputs())
    lines = _lines_from_host(platform, costs)
    clusters = {}
    for index, name in enumerate(order):
        task = graph.find_task(name)
        seconds = _seconds(task, platform.devices, costs)
        clusters[index] = TaskCluster(
            members=[index],
            seconds=seconds,
            arrays={arrays[a.array]: sizes[arrays[a.array]] for a in task.accesses},
            inputs_s={
                arrays[a.array]: max((alpha + sizes[arrays[a.array]] * beta for alpha, beta in lines), default=0.0)
                for a in task.accesses
                if a.mode is not AccessMode.WRITE and a.array in inputs
            },
            joinable=_joinable(task) and min(seconds) < math.inf,
        )
    for dependency in graph.dependencies():
        before, after = number[dependency.before], number[dependency.after]
        clusters[before].successors.add(after)
        clusters[after].predecessors.add(before)
    return Clusters(clusters, limits, _room_bytes(platform))


def _lines_from_host(platform: Platform, costs: CostModel) -> list[tuple[float, float]]:
    """Return latency and seconds per byte from the host's memory to each space reachable from there."""
    lines = []
    for space in platform.spaces:
        if space.name != HOST:
            with contextlib.suppress(PlatformError):
                lines.append(costs.copy_latency_and_slope(HOST, space.name))
    return lines


def _room_bytes(platform: Platform) -> float:
    # A capacity of 0 is unknown.
    return min((s.capacity_bytes * _ROOM for s in platform.spaces if s.capacity_bytes), default=math.inf)


def _combinations(tasks: list[Task], devices: tuple[Device, ...], costs: CostModel) -> tuple[tuple[str, ...], ...]:
    """Return the fastest implementations of the tasks for each device that can run all of them, without duplicates."""
    found: dict[tuple[str, ...], None] = {}
    for device in devices:
        choices = [costs.best(task, device) for task in tasks]
        names = tuple([choice[0].name for choice in choices if choice is not None])
        if len(names) == len(tasks):
            found.setdefault(names)
    return tuple(found)
