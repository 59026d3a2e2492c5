# SPDX-License-Identifier: Apache-2.0
"""Incremental decoder: task times from an order and a placement, in the contention-free model.

Every task starts as early as its processor's chain and its predecessors allow (a semi-active schedule; one of these is
optimal). Only times that change are recomputed.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.search.incremental.chains import clear_undo_log
from syclsched.scheduling.search.incremental.records import (
    DIRTY,
    HIGHEST,
    LOWEST,
    ORIGINS,
    TIMES,
    IncrementalState,
    Records,
)
from syclsched.scheduling.tables import Floats, Ints


@lean
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
def _place_products(state: IncrementalState, task: int, device: int) -> bool:
    """Update the origins of a task's items; return whether any has changed."""
    moved = False
    for k in range(state.nodes[task].make, state.nodes[task + 1].make):
        make = state.makes[k]
        space = state.homes[device]
        if make.replaces >= 0:
            space = read_in(state.lines, make.nbytes, state.origin[make.replaces], device)
        if space != state.origin[make.item]:
            n_logged = state.counts[ORIGINS]
            state.placed[n_logged, 0], state.placed[n_logged, 1] = make.item, state.origin[make.item]
            state.counts[ORIGINS] = n_logged + 1
            state.origin[make.item] = space
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
def update_times(state: IncrementalState, limit_s: float) -> float:
    """Recompute the times of dirty tasks and of all that depend on them; afterwards no task is dirty."""
    nodes, order, counts, arcs, timed = state.nodes, state.order, state.counts, state.arcs, state.timed
    lanes, flows, costs, lines, origin = state.lanes, state.flows, state.costs, state.lines, state.origin
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
        # This is `ready_s` written out: a call would cost more than the rest of the innermost loop.
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
            changed = _place_products(state, task, device) or changed
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
    return _makespan_of(state.lanes, nodes, state.wants, state.want_s, state.origin)


@lean
def compute_all_times(state: IncrementalState) -> float:
    """Compute all times of a newly loaded state; return the makespan, infinity if the state is infeasible."""
    state.counts[LOWEST] = 0
    state.counts[DIRTY] = state.order.size
    makespan = update_times(state, np.inf)
    clear_undo_log(state.counts, state.order.size)
    return makespan
