# SPDX-License-Identifier: Apache-2.0
"""Moves of the search: reassignment, reordering, swapping and gathering of tasks."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.refine.chains import relocate
from syclsched.scheduling.refine.critical import random_below, random_unit
from syclsched.scheduling.refine.decode import arrival_s, ready_s
from syclsched.scheduling.refine.records import MOST_MOVED, MOVES, Records, Search, Words
from syclsched.scheduling.tables import Ints

#: Share of moves that start with a critical task; then the upper bounds of the draws for reorder, reassign and swap,
#: above which tasks are gathered.
ON_PATH = 0.8
REORDER, REASSIGN, SWAP = 0.3, 0.75, 0.88

#: Share of reassignments that are evaluated regardless of the estimate.
IGNORE_ESTIMATE = 0.1

#: Share of gatherings that continue to neighbours of neighbours, up to a random number of tasks.
SPREAD = 0.5


@lean
def _lowest(nodes: Records, arcs: Ints, task: int) -> int:
    """Return the first position in the order after all predecessors of a task."""
    low = 0
    for k in range(nodes[task].pred, nodes[task + 1].pred):
        low = max(low, nodes[arcs[k]].position + 1)
    return int(low)


@lean
def _highest(nodes: Records, arcs: Ints, task: int, count: int) -> int:
    """Return the last position in the order before all successors of a task."""
    high = count - 1
    for k in range(nodes[task].succ, nodes[task + 1].succ):
        high = min(high, nodes[arcs[k]].position - 1)
    return int(high)


@lean
def _place_by_time(nodes: Records, order: Ints, task: int, at_s: float, low: int, high: int) -> int:
    """Return a position near the task's own after which no task starts before a time."""
    current = nodes[task].position
    place = current
    while place > low and nodes[order[place - 1]].start_s >= at_s:
        place -= 1
    if place == current:
        while place < high and nodes[order[place + 1]].start_s < at_s:
            place += 1
    return int(place)


@lean
def _other_processor(costs: Records, lanes: Records, words: Words, task: int, own: int) -> int:
    """Return a random processor other than the task's that can run it; the task's if none is found."""
    for _ in range(8):
        candidate = random_below(words, lanes.size - 1)
        candidate += 1 if candidate >= own else 0
        if costs[task, lanes[candidate].device].seconds < np.inf:
            return candidate
    return own


@lean
def _estimate(search: Search, task: int, target: int, place: int, ready: float) -> float:
    """Estimate the longest path through a task after a move to another processor.

    From heads and tails of its neighbours before the move (as Mastrolilli and Gambardella 2000 do for the flexible job
    shop); ``ready`` is when it could start there.
    """
    nodes, lanes, order, arcs, feeds = search.nodes, search.lanes, search.order, search.arcs, search.feeds
    lines, costs = search.lines, search.costs
    node, lane = nodes[task], lanes[target]
    device = lane.device
    before = -1
    if lane.first >= 0:
        p = place if place > node.position else place - 1
        if nodes[lane.last].position <= p:
            before = lane.last
        elif nodes[lane.first].position <= p:
            while nodes[order[p]].processor != target:
                p -= 1
            before = order[p]
    start = ready
    after = lane.first
    if before >= 0:
        start = max(start, nodes[before].finish_s)
        after = nodes[before].after
    tail = 0.0
    if after >= 0:
        tail = nodes[after].out_s
    for k in range(node.succ, nodes[task + 1].succ):
        tail = max(tail, nodes[arcs[k]].out_s)
    home = search.homes[device]
    for k in range(node.feed, nodes[task + 1].feed):
        feed = feeds[k]
        if feed.nbytes > 0.0:
            reader = lanes[nodes[feed.task].processor].device
            tail = max(tail, arrival_s(lines, feed.nbytes, home, reader) + nodes[feed.task].out_s)
    return float(start + costs[task, device].seconds + tail)


@lean
def _reassign(search: Search, task: int, target: int, limit_s: float) -> None:
    """Move a task to a processor, mostly to the position of its ready time; not if the estimate exceeds the limit."""
    nodes, arcs = search.nodes, search.arcs
    place = nodes[task].position
    low, high = _lowest(nodes, arcs, task), _highest(nodes, arcs, task, search.order.size)
    device = search.lanes[target].device
    ready = ready_s(nodes, arcs, search.flows, search.costs, search.lines, search.origin, task, device)
    draw = random_unit(search.words)
    if draw < 0.7:
        place = _place_by_time(nodes, search.order, task, ready, low, high)
    elif draw < 0.8:
        place = low + random_below(search.words, high - low + 1)
        # The estimate is pessimistic for targets whose chain depends on the task: some are evaluated all the same.
    if random_unit(search.words) < IGNORE_ESTIMATE or _estimate(search, task, target, place, ready) <= limit_s:
        relocate(nodes, search.lanes, search.order, search.counts, search.moved, task, target, place)


@lean
def _reorder(search: Search, task: int) -> None:
    """Move a task within its processor: past a neighbour there, or to any valid position."""
    nodes, arcs = search.nodes, search.arcs
    node = nodes[task]
    low, high = _lowest(nodes, arcs, task), _highest(nodes, arcs, task, search.order.size)
    place = node.position
    draw = random_unit(search.words)
    if draw < 0.4:
        if node.before >= 0:
            place = max(low, nodes[node.before].position)
    elif draw < 0.7:
        if node.after >= 0:
            place = min(high, nodes[node.after].position)
    else:
        place = low + random_below(search.words, high - low + 1)
    if place != node.position:
        relocate(nodes, search.lanes, search.order, search.counts, search.moved, task, node.processor, place)


@lean
def _swap(search: Search, task: int) -> None:
    """Exchange the processors of a task and of another that is near it in the order."""
    position = search.nodes[task].position + random_below(search.words, 25) - 12
    other = search.order[min(max(position, 0), search.order.size - 1)]
    source, target = search.nodes[task].processor, search.nodes[other].processor
    if source == target or not search.costs[task, search.lanes[target].device].seconds < np.inf:
        return
    if search.costs[other, search.lanes[source].device].seconds < np.inf:
        _reassign(search, task, target, np.inf)
        _reassign(search, other, source, np.inf)


@lean
def _gather_row(search: Search, begin: int, end: int, target: int, share: float, most: int) -> None:
    """Move some of the tasks in a row of ``arcs`` to a processor, with unchanged positions."""
    nodes, lanes, order, counts, moved = search.nodes, search.lanes, search.order, search.counts, search.moved
    device = lanes[target].device
    for k in range(begin, end):
        task = search.arcs[k]
        wanted = counts[MOVES] < most and nodes[task].processor != target and random_unit(search.words) < share
        if wanted and search.costs[task, device].seconds < np.inf:
            relocate(nodes, lanes, order, counts, moved, task, target, nodes[task].position)


@lean
def _gather(search: Search, task: int, target: int) -> None:
    """Move a task to a processor together with some of its neighbours in the graph, and often some of theirs."""
    nodes, words = search.nodes, search.words
    relocate(nodes, search.lanes, search.order, search.counts, search.moved, task, target, nodes[task].position)
    share = 0.3 + 0.7 * random_unit(words)
    direction = random_below(words, 3)
    most = MOST_MOVED
    if random_unit(words) < SPREAD:
        most = 2 + random_below(words, min(MOST_MOVED, search.order.size) - 1)
    k = 0
    while k < search.counts[MOVES]:
        member = search.moved[k].task
        if direction != 1:
            _gather_row(search, nodes[member].pred, nodes[member + 1].pred, target, share, most)
        if direction != 0:
            _gather_row(search, nodes[member].succ, nodes[member + 1].succ, target, share, most)
        k += 1
        if most == MOST_MOVED:
            return


@lean
def propose(search: Search, length: int, limit_s: float) -> None:
    """Make one random move, counted in the log; none if the drawn move is useless or looks hopeless."""
    words = search.words
    if random_unit(words) < ON_PATH:
        task = search.path[random_below(words, length)]
    else:
        task = random_below(words, search.order.size)
    draw = random_unit(words)
    target = search.nodes[task].processor
    if draw >= REORDER and search.lanes.size > 1:
        target = _other_processor(search.costs, search.lanes, words, task, target)
    if target == search.nodes[task].processor:
        _reorder(search, task)
    elif draw < REASSIGN:
        _reassign(search, task, target, limit_s)
    elif draw < SWAP:
        _swap(search, task)
    else:
        _gather(search, task, target)
