# SPDX-License-Identifier: Apache-2.0
"""From a task graph, a platform and a cost model to a scheduling problem."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from syclsched.costs.model import CostModel
from syclsched.errors import EmptyPlatformError, PlatformError
from syclsched.model.dependencies import Dependency
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Platform
from syclsched.model.task import Task
from syclsched.scheduling.problem import NOTHING, Arc, Item, Problem, Product

Arcs = tuple[tuple[Arc, ...], ...]


def build_problem(graph: TaskGraph, platform: Platform, costs: CostModel) -> Problem:
    """Return the scheduling problem of running a graph on a platform.

    Parameters
    ----------
    graph : TaskGraph
        The graph.
    platform : Platform
        The devices and lanes there are to choose from.
    costs : CostModel
        Made for this platform, or for one that this is a part of.

    Returns
    -------
    Problem
        Inputs of the graph lie in the host's memory.

    Raises
    ------
    CapabilityError
        If no device can run a task.
    CycleError
        If the graph's explicit edges close a cycle.
    EmptyPlatformError
        If the platform has no devices.
    """
    if not platform.devices:
        raise EmptyPlatformError("there are no devices", where=f"platform {platform.name!r}")
    order = graph.order()
    submitted = {task.name: (position, task) for position, task in enumerate(graph.tasks)}
    tasks = [submitted[name][1] for name in order]
    nbytes = {name: array.nbytes for name, array in graph.arrays.items()}
    spaces = _spaces(platform)
    latency_s, s_per_byte = _copy_lines(costs, tuple(spaces))
    seconds, implementations = _seconds(tasks, platform, costs)
    predecessors, successors = arcs(order, graph.dependencies(), nbytes)
    items, reads, makes = _items(tasks, nbytes)
    return Problem(
        names=order,
        submission=tuple([submitted[name][0] for name in order]),
        priorities=tuple([task.priority for task in tasks]),
        devices=tuple(d.name for d in platform.devices),
        processors=tuple((i, lane) for i, d in enumerate(platform.devices) for lane in range(d.lanes)),
        spaces=tuple(spaces),
        reaches=tuple(tuple(dict.fromkeys(spaces[s] for s in (d.space, *d.reaches))) for d in platform.devices),
        seconds=seconds,
        implementations=implementations,
        predecessors=predecessors,
        successors=successors,
        items=items,
        reads=reads,
        makes=makes,
        copy_latency_s=latency_s,
        copy_s_per_byte=s_per_byte,
        input_space=spaces[HOST],
    )


def arcs(order: Sequence[str], dependencies: Iterable[Dependency], nbytes: Mapping[str, float]) -> tuple[Arcs, Arcs]:
    """Return the dependencies as predecessors and successors of each task.

    Parameters
    ----------
    order : sequence of str
        Task names; positions are indices.
    dependencies : iterable of Dependency
        Between those tasks.
    nbytes : Mapping[str, float]
        Size of each array.

    Returns
    -------
    (tuple of tuple of Arc, tuple of tuple of Arc)
        Predecessors and successors, by rising index of the other task.
    """
    index = {name: i for i, name in enumerate(order)}
    before: list[list[Arc]] = [[] for _ in order]
    after: list[list[Arc]] = [[] for _ in order]
    for dependency in dependencies:
        i, j, kind, array = index[dependency.before], index[dependency.after], dependency.kind, dependency.array
        flow = float(nbytes[array]) if kind == "RAW" and array is not None else 0.0
        before[j].append(Arc(i, kind, array, flow))
        after[i].append(Arc(j, kind, array, flow))
    for lists in (before, after):
        for found in lists:
            found.sort(key=_other_end)
    return tuple(map(tuple, before)), tuple(map(tuple, after))


def _other_end(arc: Arc) -> int:
    return arc.task


def _spaces(platform: Platform) -> dict[str, int]:
    names = [s.name for s in platform.spaces]
    names += [name for d in platform.devices for name in (d.space, *d.reaches)] + [HOST]
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def _copy_lines(
    costs: CostModel, spaces: Sequence[str]
) -> tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]]:
    def line(source: str, destination: str) -> tuple[float, float]:
        try:
            return costs.copy_line(source, destination)
        except PlatformError:  # no way: the policies keep tasks and their data where they can meet
            return math.inf, 0.0

    lines = [[line(a, b) for b in spaces] for a in spaces]
    return (
        tuple(tuple(latency_s for latency_s, _ in row) for row in lines),
        tuple(tuple(s_per_byte for _, s_per_byte in row) for row in lines),
    )


def _seconds(
    tasks: Sequence[Task], platform: Platform, costs: CostModel
) -> tuple[npt.NDArray[np.float64], tuple[tuple[str | None, ...], ...]]:
    anywhere = (0.0,) * len(platform.devices)
    nothing = (None,) * len(platform.devices)
    seconds: list[tuple[float, ...]] = []
    implementations: list[tuple[str | None, ...]] = []
    # The cost model gives tasks that cost the same the very same choices, so that their rows are made once.
    rows: dict[tuple[int, ...], tuple[tuple[float, ...], tuple[str | None, ...]]] = {}
    for task in tasks:
        if task.operation is None:
            seconds.append(anywhere)
            implementations.append(nothing)
            continue
        choices = costs.choices(task, platform.devices)
        key = tuple(map(id, choices))
        row = rows.get(key)
        if row is None:
            costs.require(task, platform.devices)
            row = rows[key] = (
                tuple(math.inf if c is None else c[1].seconds for c in choices),
                tuple(None if c is None else c[0].name for c in choices),
            )
        seconds.append(row[0])
        implementations.append(row[1])
    table = np.array(seconds, dtype=np.float64).reshape(len(tasks), len(platform.devices))
    table.flags.writeable = False
    return table, tuple(implementations)


def _items(
    tasks: Sequence[Task], nbytes: Mapping[str, int]
) -> tuple[tuple[Item, ...], tuple[tuple[int, ...], ...], tuple[tuple[Product, ...], ...]]:
    """Follow each array through the tasks: accesses that conflict keep their order in any topological order."""
    current: dict[str, int] = {}
    items: list[Item] = []
    reads: list[tuple[int, ...]] = []
    makes: list[tuple[Product, ...]] = []
    for index, task in enumerate(tasks):
        needed: list[int] = []
        made: list[Product] = []
        for access in task.accesses:
            array = access.array
            replaces = NOTHING
            if access.mode.reads:
                if array not in current:
                    current[array] = len(items)
                    items.append(Item(array, float(nbytes[array]), NOTHING))
                replaces = current[array]
                needed.append(replaces)
            if access.mode.writes:
                current[array] = len(items)
                made.append(Product(len(items), replaces))
                items.append(Item(array, float(nbytes[array]), index))
        reads.append(tuple(needed))
        makes.append(tuple(made))
    return tuple(items), tuple(reads), tuple(makes)
