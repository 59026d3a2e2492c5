# SPDX-License-Identifier: Apache-2.0
"""Cutting of data-parallel tasks that are too large to balance, with unequal shares for unequal devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from syclsched.costs import CostModel
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.builtin_operations import copy_operation
from syclsched.model.operation import Signature
from syclsched.model.platform import Platform
from syclsched.model.recipe import Cut
from syclsched.model.task import LogicalArray, Task
from syclsched.rewrites.chunking import cut
from syclsched.rewrites.divisible import divide
from syclsched.rewrites.granularity import granularity
from syclsched.rewrites.regions import Region, Traffic, chunk_operation, find_regions, traffic_of
from syclsched.rewrites.rewrite_result import Rewrite, unchanged
from syclsched.rewrites.worker_selection import WorkerSlot, harmonic_s, select_workers, worker_costs

#: A region is considered if its longest path takes at least this share of the time that all devices would need for all
#: tasks without loss. Below it, there is enough other work to overlap with.
_BOTTLENECK = 0.5

#: Least predicted saving, relative to the region's time: predictions are not more exact than that.
_LEAST_GAIN = 0.1


def split(graph: TaskGraph, platform: Platform, costs: CostModel) -> Rewrite:
    """Cut the regions of data-parallel tasks that are bottlenecks."""
    regions = () if graph.joined else find_regions(graph)
    if not regions:
        return unchanged(graph)
    seats = select_workers(platform, graph.tasks, costs)
    limit_s = _BOTTLENECK * sum(harmonic_s(task, seats, costs) for task in graph.tasks)
    cuts = []
    for region in regions:
        if _longest_path_s(region, platform, costs) > limit_s:
            rows = _chunks(graph, region, seats, platform, costs)
            if len(rows) > 1:
                cuts.append(Cut(tuple(task.name for task in region.tasks), rows))
    return cut(graph, cuts) if cuts else unchanged(graph)


def _longest_path_s(region: Region, platform: Platform, costs: CostModel) -> float:
    """Return the seconds of a region's longest path, each task on its fastest device."""
    finish_s: dict[str, float] = {}
    last: dict[str, str] = {}
    for task in region.tasks:
        choices = costs.choices(task, platform.devices)
        seconds = min((c[1].seconds for c in choices if c is not None), default=0.0)
        before = [finish_s[last[a.array]] for a in task.accesses if a.array in last]
        finish_s[task.name] = max(before, default=0.0) + seconds
        last |= {a.array: task.name for a in task.accesses if a.mode.writes}
    return max(finish_s.values())


def _chunks(
    graph: TaskGraph, region: Region, seats: Sequence[WorkerSlot], platform: Platform, costs: CostModel
) -> tuple[int, ...]:
    """Return the rows of each chunk a region should be cut into; none if it should stay whole."""
    arrays, traffic = graph.arrays, traffic_of(graph, region)
    overhead_s = granularity(platform).overhead_s
    # Uncut, the other tasks' arrays are assumed to be in place already; cut, to be copied from the host's memory.
    uncut = Traffic(traffic.given, (), traffic.shared, traffic.results, ())
    alone = [worker_costs(WorkerSlot(s.device, 1), region, uncut, costs, arrays, overhead_s) for s in seats]
    cut_up = replace(region, tasks=tuple(_as_chunk(task) for task in region.tasks))
    workers = [w for s in seats if (w := worker_costs(s, cut_up, traffic, costs, arrays, overhead_s)) is not None]
    if not workers:
        return ()
    alone_s = min(w.finish_s(region.rows, 1) for w in alone if w is not None)
    division = divide(workers, region.rows, region.grain)
    submitting_s = overhead_s * len(region.tasks) * len(division.rows)
    moved = [arrays[name] for name in (*traffic.made, *traffic.used_whole)]
    cut_s = max(division.finish_s, submitting_s) + sum(_copy_s(array, platform, costs) for array in moved)
    return division.rows if cut_s < (1.0 - _LEAST_GAIN) * alone_s else ()


def _as_chunk(task: Task) -> Task:
    """Return a task with the implementations its chunks have."""
    assert task.operation is not None
    return replace(task, operation=chunk_operation(task.operation))


def _copy_s(array: LogicalArray, platform: Platform, costs: CostModel) -> float:
    """Return the time to copy an array within a memory space, on the fastest device."""
    names = ("source", "destination")
    signature = Signature(dict.fromkeys(names, array.shape), dict.fromkeys(names, array.dtype))
    task = Task("copy", "copy", operation=copy_operation(), signature=signature)
    return min((c[1].seconds for c in costs.choices(task, platform.devices) if c is not None), default=0.0)
