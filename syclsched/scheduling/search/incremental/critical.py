# SPDX-License-Identifier: Apache-2.0
"""Critical path of a search state, and the random numbers of the state."""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.scheduling.search.incremental.decode import arrival_s
from syclsched.scheduling.search.incremental.records import LENGTH, IncrementalState, Records
from syclsched.scheduling.search.random_numbers import Words, random_below


@lean
def _finishes_last(nodes: Records, lanes: Records, words: Words) -> int:
    """Return a task that finishes last, at random among equals; -1 if there is none."""
    found, latest, ties = -1, -1.0, 1
    for lane in range(lanes.size):
        task = lanes[lane].last
        if task >= 0 and nodes[task].finish_s > latest:
            found, latest, ties = task, nodes[task].finish_s, 1
        elif task >= 0 and nodes[task].finish_s == latest:
            ties += 1
            if random_below(words, ties) == 0:
                found = task
    return found


@lean
def critical_path(state: IncrementalState) -> int:
    """Trace a longest chain back from the last task, into ``state.path``; return and store its length.

    Each task on it starts when its predecessor on the processor finishes, or when an input from a predecessor arrives;
    where several do, one is chosen at random.
    """
    nodes, lanes, arcs, flows, path = state.nodes, state.lanes, state.arcs, state.flows, state.path
    lines, origin, words = state.lines, state.origin, state.words
    task = _finishes_last(nodes, lanes, words)
    length = 0
    while task >= 0:
        path[length] = task
        length += 1
        node = nodes[task]
        device = lanes[node.processor].device
        start = node.start_s * (1.0 - 1e-12)
        found, ties = -1, 0
        if node.before >= 0 and nodes[node.before].finish_s >= start:
            found, ties = node.before, 1
        for k in range(node.wait, nodes[task + 1].wait):
            if nodes[arcs[k]].finish_s >= start:
                ties += 1
                if random_below(words, ties) == 0:
                    found = arcs[k]
        for k in range(node.flow, nodes[task + 1].flow):
            flow = flows[k]
            copy_s = arrival_s(lines, flow.nbytes, origin[flow.item], device)
            if nodes[flow.task].finish_s + copy_s >= start:
                ties += 1
                if random_below(words, ties) == 0:
                    found = flow.task
        task = found
    state.counts[LENGTH] = length
    return length


@lean
def compute_tails(state: IncrementalState) -> None:
    """Compute the longest path from the start of each task to the end, with tasks where they are."""
    nodes, lanes, arcs, flows, order = state.nodes, state.lanes, state.arcs, state.flows, state.order
    lines, origin = state.lines, state.origin
    for task in range(order.size):
        nodes[task].out_s = 0.0
    for place in range(order.size - 1, -1, -1):
        task = order[place]
        node = nodes[task]
        device = lanes[node.processor].device
        out = node.out_s + (node.finish_s - node.start_s)
        node.out_s = out
        if node.before >= 0:
            nodes[node.before].out_s = max(nodes[node.before].out_s, out)
        for k in range(node.wait, nodes[task + 1].wait):
            nodes[arcs[k]].out_s = max(nodes[arcs[k]].out_s, out)
        for k in range(node.flow, nodes[task + 1].flow):
            flow = flows[k]
            copy_s = arrival_s(lines, flow.nbytes, origin[flow.item], device)
            nodes[flow.task].out_s = max(nodes[flow.task].out_s, copy_s + out)
