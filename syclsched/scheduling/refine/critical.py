# SPDX-License-Identifier: Apache-2.0
"""Critical path of a search state, and the random numbers of the search."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.refine.decode import arrival_s
from syclsched.scheduling.refine.records import Records, Search, Words


@lean
def random_unit(words: Words) -> float:
    """Return a random number in [0, 1): xorshift64* (Vigna 2016)."""
    x = words[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    words[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@lean
def random_below(words: Words, count: int) -> int:
    """Return a random integer from 0 to ``count`` - 1."""
    return int(random_unit(words) * count)


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
def critical_path(search: Search) -> int:
    """Trace a longest chain back from the last task, into ``search.path``; return its length.

    Each task on it starts when its predecessor on the processor finishes, or when an input from a predecessor arrives;
    where several do, one is chosen at random.
    """
    nodes, lanes, arcs, flows, path = search.nodes, search.lanes, search.arcs, search.flows, search.path
    lines, origin, words = search.lines, search.origin, search.words
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
    return length


@lean
def compute_tails(search: Search) -> None:
    """Compute the longest path from the start of each task to the end, with tasks where they are."""
    nodes, lanes, arcs, flows, order = search.nodes, search.lanes, search.arcs, search.flows, search.order
    lines, origin = search.lines, search.origin
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
