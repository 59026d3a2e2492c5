# SPDX-License-Identifier: Apache-2.0
"""From an order and a placement to times, in the contention-free model: only what changed is worked out again.

Every task starts as early as its processor's chain and its predecessors allow (semi-active): among such schedules
there is an optimal one.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled, inlined, lean
from syclsched.scheduling.refine.chains import forget
from syclsched.scheduling.refine.records import DIRTY, HIGHEST, LOWEST, ORIGINS, TIMES, Records, Search
from syclsched.scheduling.tables import Floats, Ints


@inlined
def arrival_s(lines: Records, nbytes: float, origin: int, device: int) -> float:
    """Return the seconds until an item that lies in a space can be read by a device; infinity if there is no way."""
    least = 0.0
    if nbytes > 0.0:
        least = lines[origin, device, 0].latency_s + nbytes * lines[origin, device, 0].s_per_byte
        for k in range(1, lines.shape[2]):
            least = min(least, lines[origin, device, k].latency_s + nbytes * lines[origin, device, k].s_per_byte)
    return least


@lean
def read_in(lines: Records, nbytes: float, origin: int, device: int) -> int:
    """Return the space in which a device reads an item: where it lies if it reaches that, else where it comes first."""
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
    """Return when a task could start on a device, were it free: after its release, predecessors and the copies."""
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
    """Work out again where a task's products lie; return whether any lies elsewhere than before."""
    elsewhere = False
    for k in range(search.nodes[task].make, search.nodes[task + 1].make):
        make = search.makes[k]
        space = search.homes[device]
        if make.replaces >= 0:
            space = read_in(search.lines, make.nbytes, search.origin[make.replaces], device)
        if space != search.origin[make.item]:
            noted = search.counts[ORIGINS]
            search.placed[noted, 0], search.placed[noted, 1] = make.item, search.origin[make.item]
            search.counts[ORIGINS] = noted + 1
            search.origin[make.item] = space
            elsewhere = True
    return elsewhere


@lean
def makespan_of(lanes: Records, nodes: Records, wants: Records, want_s: Floats, origin: Ints) -> float:
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
def settle(search: Search, limit_s: float) -> float:
    """Work out the times of dirty tasks and of all that follows from them; nothing is dirty afterwards."""
    nodes, order, counts, arcs, timed = search.nodes, search.order, search.counts, search.arcs, search.timed
    lanes, flows, costs, lines, origin = search.lanes, search.flows, search.costs, search.lines, search.origin
    alive = True
    place, pending, touched = counts[LOWEST], counts[DIRTY], counts[HIGHEST] + 1
    # Sums in another order round differently: what is equal must not be given up.
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
        # This is `ready_s`, written out: a call that is not inlined costs more than all the rest of the innermost loop.
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
        # Behind the last place that a move touched nothing but starts has changed, so the ways to the end hold.
        tail = node.tail_s if place <= touched else node.out_s
        if finish > limit_s or start + tail > limit:
            alive = False
            continue
        changed = finish != node.finish_s
        if changed or start != node.start_s:
            note = timed[counts[TIMES]]
            note.task = task
            note.start_s = node.start_s
            note.finish_s = node.finish_s
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
    return makespan_of(search.lanes, nodes, search.wants, search.want_s, search.origin)


@lean
def settle_all(search: Search) -> float:
    """Work out all times of a freshly loaded state; return the makespan, infinity if it cannot run so."""
    search.counts[LOWEST] = 0
    search.counts[DIRTY] = search.order.size
    makespan = settle(search, np.inf)
    forget(search.counts, search.order.size)
    return makespan


@compiled
def order_of(pred_start: Ints, pred_task: Ints, start_s: Floats, finish_s: Floats) -> Ints:
    """Return the tasks by start, then finish, then number, such that every task is behind its predecessors.

    Zero-length tasks and times that are off by rounding are what the care is for: each key is raised to those of the
    predecessors first.
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
