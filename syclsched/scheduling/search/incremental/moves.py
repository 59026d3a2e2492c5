# SPDX-License-Identifier: Apache-2.0
"""Moves of the incremental evaluator: tasks, mostly critical ones, are reassigned, reordered, swapped and gathered."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.search.annealing import annealing_loop
from syclsched.scheduling.search.incremental.chains import clear_undo_log, relocate, undo
from syclsched.scheduling.search.incremental.critical import compute_tails, critical_path
from syclsched.scheduling.search.incremental.decode import arrival_s, ready_s, update_times
from syclsched.scheduling.search.incremental.records import (
    LENGTH,
    MOST_MOVED,
    MOVES,
    IncrementalState,
    Records,
)
from syclsched.scheduling.search.random_numbers import Words, random_below, random_unit
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
def lowest(nodes: Records, arcs: Ints, task: int) -> int:
    """Return the first position in the order after all predecessors of a task."""
    low = 0
    for k in range(nodes[task].pred, nodes[task + 1].pred):
        low = max(low, nodes[arcs[k]].position + 1)
    return int(low)


@lean
def highest(nodes: Records, arcs: Ints, task: int, count: int) -> int:
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
def other_processor(costs: Records, lanes: Records, words: Words, task: int, own: int) -> int:
    """Return a random processor other than the task's that can run it; the task's if none is found."""
    for _ in range(8):
        candidate = random_below(words, lanes.size - 1)
        candidate += 1 if candidate >= own else 0
        if costs[task, lanes[candidate].device].seconds < np.inf:
            return candidate
    return own


@lean
def _estimate(state: IncrementalState, task: int, target: int, place: int, ready: float) -> float:
    """Estimate the longest path through a task after a move to another processor.

    From heads and tails of its neighbours before the move (as Mastrolilli and Gambardella 2000 do for the flexible job
    shop); ``ready`` is when it could start there.
    """
    nodes, lanes, order, arcs, feeds = state.nodes, state.lanes, state.order, state.arcs, state.feeds
    lines, costs = state.lines, state.costs
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
    home = state.homes[device]
    for k in range(node.feed, nodes[task + 1].feed):
        feed = feeds[k]
        if feed.nbytes > 0.0:
            reader = lanes[nodes[feed.task].processor].device
            tail = max(tail, arrival_s(lines, feed.nbytes, home, reader) + nodes[feed.task].out_s)
    return float(start + costs[task, device].seconds + tail)


@lean
def _reassign(state: IncrementalState, task: int, target: int, limit_s: float) -> None:
    """Move a task to a processor, mostly to the position of its ready time; not if the estimate exceeds the limit."""
    nodes, arcs = state.nodes, state.arcs
    place = nodes[task].position
    low, high = lowest(nodes, arcs, task), highest(nodes, arcs, task, state.order.size)
    device = state.lanes[target].device
    ready = ready_s(nodes, arcs, state.flows, state.costs, state.lines, state.origin, task, device)
    draw = random_unit(state.words)
    if draw < 0.7:
        place = _place_by_time(nodes, state.order, task, ready, low, high)
    elif draw < 0.8:
        place = low + random_below(state.words, high - low + 1)
        # The estimate is pessimistic for targets whose chain depends on the task: some are evaluated all the same.
    if random_unit(state.words) < IGNORE_ESTIMATE or _estimate(state, task, target, place, ready) <= limit_s:
        relocate(nodes, state.lanes, state.order, state.counts, state.moved, task, target, place)


@lean
def _reorder(state: IncrementalState, task: int) -> None:
    """Move a task within its processor: past a neighbour there, or to any valid position."""
    nodes, arcs = state.nodes, state.arcs
    node = nodes[task]
    low, high = lowest(nodes, arcs, task), highest(nodes, arcs, task, state.order.size)
    place = node.position
    draw = random_unit(state.words)
    if draw < 0.4:
        if node.before >= 0:
            place = max(low, nodes[node.before].position)
    elif draw < 0.7:
        if node.after >= 0:
            place = min(high, nodes[node.after].position)
    else:
        place = low + random_below(state.words, high - low + 1)
    if place != node.position:
        relocate(nodes, state.lanes, state.order, state.counts, state.moved, task, node.processor, place)


@lean
def _swap(state: IncrementalState, task: int) -> None:
    """Exchange the processors of a task and of another that is near it in the order."""
    position = state.nodes[task].position + random_below(state.words, 25) - 12
    other = state.order[min(max(position, 0), state.order.size - 1)]
    source, target = state.nodes[task].processor, state.nodes[other].processor
    if source == target or not state.costs[task, state.lanes[target].device].seconds < np.inf:
        return
    if state.costs[other, state.lanes[source].device].seconds < np.inf:
        _reassign(state, task, target, np.inf)
        _reassign(state, other, source, np.inf)


@lean
def gather_row(
    nodes: Records, lanes: Records, order: Ints, counts: Ints, moved: Records, costs: Records, words: Words,
    row: Ints, target: int, share: float, most: int,
) -> None:  # fmt: skip
    """Move some of the tasks in a row to a processor, with unchanged positions."""
    device = lanes[target].device
    for task in row:
        wanted = counts[MOVES] < most and nodes[task].processor != target and random_unit(words) < share
        if wanted and costs[task, device].seconds < np.inf:
            relocate(nodes, lanes, order, counts, moved, task, target, nodes[task].position)


@lean
def _gather(state: IncrementalState, task: int, target: int) -> None:
    """Move a task to a processor together with some of its neighbours in the graph, and often some of theirs."""
    nodes, lanes, order, counts, moved = state.nodes, state.lanes, state.order, state.counts, state.moved
    costs, arcs, words = state.costs, state.arcs, state.words
    relocate(nodes, lanes, order, counts, moved, task, target, nodes[task].position)
    share = 0.3 + 0.7 * random_unit(words)
    direction = random_below(words, 3)
    most = MOST_MOVED
    if random_unit(words) < SPREAD:
        most = 2 + random_below(words, min(MOST_MOVED, state.order.size) - 1)
    k = 0
    while k < counts[MOVES]:
        member = moved[k].task
        if direction != 1:
            row = arcs[nodes[member].pred : nodes[member + 1].pred]
            gather_row(nodes, lanes, order, counts, moved, costs, words, row, target, share, most)
        if direction != 0:
            row = arcs[nodes[member].succ : nodes[member + 1].succ]
            gather_row(nodes, lanes, order, counts, moved, costs, words, row, target, share, most)
        k += 1
        if most == MOST_MOVED:
            return


@lean
def propose(state: IncrementalState, limit_s: float) -> bool:
    """Make one random move; return False if the drawn move is useless or looks hopeless."""
    words = state.words
    if random_unit(words) < ON_PATH:
        task = state.path[random_below(words, state.counts[LENGTH])]
    else:
        task = random_below(words, state.order.size)
    draw = random_unit(words)
    target = state.nodes[task].processor
    if draw >= REORDER and state.lanes.size > 1:
        target = other_processor(state.costs, state.lanes, words, task, target)
    if target == state.nodes[task].processor:
        _reorder(state, task)
    elif draw < REASSIGN:
        _reassign(state, task, target, limit_s)
    elif draw < SWAP:
        _swap(state, task)
    else:
        _gather(state, task, target)
    return bool(state.counts[MOVES] > 0)


@lean
def prepare_moves(state: IncrementalState) -> None:
    """Find the critical path and the longest paths to the end."""
    critical_path(state)
    compute_tails(state)


@lean
def evaluate(state: IncrementalState, limit_s: float) -> tuple[float, float]:
    """Return the makespan, infinity if it exceeds a limit; nothing else is limited."""
    return update_times(state, limit_s), 0.0


@lean
def accept(state: IncrementalState) -> None:
    """Make the changes final."""
    clear_undo_log(state.counts, state.order.size)


anneal = annealing_loop(propose, evaluate, accept, undo, prepare_moves)
