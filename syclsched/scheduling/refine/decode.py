# SPDX-License-Identifier: Apache-2.0
"""Incremental decoder: task times from an order and a placement, in the contention-free model.

Every task starts as early as its processor's chain and its predecessors allow (a semi-active schedule; one of these is
optimal). Only times that change are recomputed.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled, inlined, lean
from syclsched.scheduling.refine.chains import clear_undo_log
from syclsched.scheduling.refine.records import DIRTY, HIGHEST, LOWEST, ORIGINS, TIMES, Records, Search
from syclsched.scheduling.tables import Floats, Ints


@inlined
def arrival_s(lines: Records, nbytes: float, origin: int, device: int) -> float:
    """Return the seconds until a device can read an item from its origin; infinity without a route."""
    least = 0.0
    if nbytes > 0.0:
        least = lines[origin, device, 0].latency_s + nbytes * lines[origin, device, 0].s_per_byte
        for k in range(1, lines.shape[2]):
            least = min(least, lines[origin, device, k].latency_s + nbytes * lines[origin, device, k].s_per_byte)
    return least


@lean
def read_in(lines: Records, nbytes: float, origin: int, device: int) -> int:
    """Return the space in which a device reads an item: its origin if reached, else the one with the fastest copy."""
    best, least = lines[origin, device, 0].space, np.inf
    for k in range(lines.shape[2]):
        line = lines[origin, device, k]
        if line.latency_s < np.inf and nbytes > 0.0 and line.latency_s + nbytes * line.s_per_byte < least:
            best, least = line.space, line.latency_s + nbytes * line.s_per_byte
    return int(best)


@lean
def ready_s(
    nodes: Records, arcs: Ints, flows: Records, costs: Records, lines: Records, origin: Ints, task: int, device: int
) -> float:
    """Return when a task could start on an idle device: after its release, its predecessors and the copies."""
    ready = costs[task, device].fixed_s
    for k in range(nodes[task].wait, nodes[task + 1].wait):
        ready = max(ready, nodes[arcs[k]].finish_s)
    for k in range(nodes[task].flow, nodes[task + 1].flow):
        flow = flows[k]
        at = nodes[flow.task].finish_s + arrival_s(lines, flow.nbytes, origin[flow.item], device)
        ready = max(ready, at)
    return float(ready)


@lean
def _place_products(search: Search, task: int, device: int) -> bool:
    """Update the origins of a task's items; return whether any has changed."""
    moved = False
    for k in range(search.nodes[task].make, search.nodes[task + 1].make):
        make = search.makes[k]
        space = search.homes[device]
        if make.replaces >= 0:
            space = read_in(search.lines, make.nbytes, search.origin[make.replaces], device)
        if space != search.origin[make.item]:
            n_logged = search.counts[ORIGINS]
            search.placed[n_logged, 0], search.placed[n_logged, 1] = make.item, search.origin[make.item]
            search.counts[ORIGINS] = n_logged + 1
            search.origin[make.item] = space
            moved = True
    return moved


@lean
def _makespan_of(lanes: Records, nodes: Records, wants: Records, want_s: Floats, origin: Ints) -> float:
    """Return the finish of the last task, or of the last copy of a wanted result."""
    most = 0.0
    for lane in range(lanes.size):
        if lanes[lane].last >= 0:
            most = max(most, nodes[lanes[lane].last].finish_s)
    for k in range(wants.size):
        made_s = nodes[wants[k].task].finish_s if wants[k].task >= 0 else 0.0
        most = max(most, made_s + want_s[k, origin[wants[k].item]])
    return most


@lean
def update_times(search: Search, limit_s: float) -> float:
    """Recompute the times of dirty tasks and of all that depend on them; afterwards no task is dirty."""
    nodes, order, counts, arcs, timed = search.nodes, search.order, search.counts, search.arcs, search.timed
    lanes, flows, costs, lines, origin = search.lanes, search.flows, search.costs, search.lines, search.origin
    alive = True
    place, pending, touched = counts[LOWEST], counts[DIRTY], counts[HIGHEST] + 1
    # Sums in another order round differently: equal makespans must not be rejected.
    limit = limit_s * (1.0 + 1e-12)
    while pending > 0:
        task = order[place]
        place += 1
        node = nodes[task]
        dirt = node.dirty
        if dirt == 0:
            continue
        node.dirty = 0
        pending -= 1
        if not alive:
            continue
        device = lanes[node.processor].device
        cost = costs[task, device]
        # This is `ready_s` inlined by hand: a call would cost more than the rest of the innermost loop.
        start = cost.fixed_s
        if node.before >= 0:
            start = max(start, nodes[node.before].finish_s)
        for k in range(node.wait, nodes[task + 1].wait):
            start = max(start, nodes[arcs[k]].finish_s)
        for k in range(node.flow, nodes[task + 1].flow):
            flow = flows[k]
            copy_s = arrival_s(lines, flow.nbytes, origin[flow.item], device)
            start = max(start, nodes[flow.task].finish_s + copy_s)
        finish = start + cost.seconds
        # After the last position that a move touched, only starts have changed, so the paths to the end still hold.
        tail = node.tail_s if place <= touched else node.out_s
        if finish > limit_s or start + tail > limit:
            alive = False
            continue
        changed = finish != node.finish_s
        if changed or start != node.start_s:
            entry = timed[counts[TIMES]]
            entry.task = task
            entry.start_s = node.start_s
            entry.finish_s = node.finish_s
            counts[TIMES] += 1
            node.start_s = start
            node.finish_s = finish
        if dirt == 2 or node.updates == 1:
            changed = _place_products(search, task, device) or changed
        if changed:
            if node.after >= 0 and nodes[node.after].dirty == 0:
                nodes[node.after].dirty = 1
                pending += 1
            for k in range(node.succ, nodes[task + 1].succ):
                if nodes[arcs[k]].dirty == 0:
                    nodes[arcs[k]].dirty = 1
                    pending += 1
    counts[DIRTY] = 0
    if not alive:
        return np.inf
    return _makespan_of(search.lanes, nodes, search.wants, search.want_s, search.origin)


@lean
def compute_all_times(search: Search) -> float:
    """Compute all times of a newly loaded state; return the makespan, infinity if the state is infeasible."""
    search.counts[LOWEST] = 0
    search.counts[DIRTY] = search.order.size
    makespan = update_times(search, np.inf)
    clear_undo_log(search.counts, search.order.size)
    return makespan


@compiled
def order_of(pred_start: Ints, pred_task: Ints, start_s: Floats, finish_s: Floats) -> Ints:
    """Return the tasks by start, then finish, then number, with every task after its predecessors.

    Each key is first raised to those of the predecessors, because of tasks of no duration and of times that are off by
    rounding.
    """
    start, finish = start_s.copy(), finish_s.copy()
    for task in range(start.size):
        for k in range(pred_start[task], pred_start[task + 1]):
            before = pred_task[k]
            start[task] = max(start[task], start[before])
            if start[task] == start[before]:
                finish[task] = max(finish[task], finish[before])
    # Stable sorts by the minor key first; task numbers are in a topological order.
    by_finish = np.argsort(finish, kind="mergesort")
    return by_finish[np.argsort(start[by_finish], kind="mergesort")]
