# SPDX-License-Identifier: Apache-2.0
"""Task order and processor chains of the search state: moving a task, and undoing moves."""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.scheduling.search.incremental.records import (
    DIRTY,
    HIGHEST,
    LOWEST,
    MOVES,
    ORIGINS,
    TIMES,
    TOUCHED,
    IncrementalState,
    Records,
)
from syclsched.scheduling.tables import Ints


@lean
def load(nodes: Records, lanes: Records, order: Ints, by_order: Ints, processor: Ints) -> None:
    """Load an order and placement; all tasks are dirty afterwards."""
    for lane in range(lanes.size):
        lanes[lane].first = -1
        lanes[lane].last = -1
    for place in range(by_order.size):
        task = by_order[place]
        order[place] = task
        node = nodes[task]
        node.position = place
        node.processor = processor[task]
        node.dirty = 2
        node.after = -1
        lane = lanes[processor[task]]
        node.before = lane.last
        if lane.last >= 0:
            nodes[lane.last].after = task
        else:
            lane.first = task
        lane.last = task


@lean
def unlink(nodes: Records, lanes: Records, task: int) -> None:
    """Remove a task from its processor's chain."""
    node = nodes[task]
    lane = lanes[node.processor]
    if node.before >= 0:
        nodes[node.before].after = node.after
    else:
        lane.first = node.after
    if node.after >= 0:
        nodes[node.after].before = node.before
    else:
        lane.last = node.before
    node.processor = -1  # so that a search through its old chain does not find it


@lean
def shift(nodes: Records, order: Ints, task: int, place: int) -> None:
    """Move a task to a position in the order; tasks in between shift by one."""
    current = nodes[task].position
    while current < place:
        other = order[current + 1]
        order[current] = other
        nodes[other].position = current
        current += 1
    while current > place:
        other = order[current - 1]
        order[current] = other
        nodes[other].position = current
        current -= 1
    order[place] = task
    nodes[task].position = place


@lean
def link(nodes: Records, lanes: Records, order: Ints, task: int, processor: int) -> None:
    """Insert a task into a processor's chain by its position in the order."""
    node = nodes[task]
    lane = lanes[processor]
    before = -1
    if lane.last >= 0 and nodes[lane.last].position < node.position:
        before = lane.last
    elif lane.first >= 0 and nodes[lane.first].position < node.position:
        # Search backwards through the order: the chain's previous task is near, unless the processor is hardly used.
        place = node.position - 1
        while nodes[order[place]].processor != processor:
            place -= 1
        before = order[place]
    after = nodes[before].after if before >= 0 else lane.first
    node.processor = processor
    node.before = before
    node.after = after
    if before >= 0:
        nodes[before].after = task
    else:
        lane.first = task
    if after >= 0:
        nodes[after].before = task
    else:
        lane.last = task


@lean
def _mark(nodes: Records, counts: Ints, task: int, dirt: int) -> None:
    """Mark a task as dirty, unless it is -1."""
    if task >= 0:
        if nodes[task].dirty == 0:
            counts[DIRTY] += 1
        nodes[task].dirty = max(nodes[task].dirty, dirt)


@lean
def relocate(
    nodes: Records, lanes: Records, order: Ints, counts: Ints, moved: Records, task: int, processor: int, place: int
) -> None:
    """Move a task to a processor and a position, log the move, and mark the affected tasks as dirty.

    The position must lie between the task's predecessors and successors, and the log must have space.
    """
    old_position, old_processor = nodes[task].position, nodes[task].processor
    entry = moved[counts[MOVES]]
    entry.task = task
    entry.position = old_position
    entry.processor = old_processor
    counts[MOVES] += 1
    counts[LOWEST] = min(counts[LOWEST], min(old_position, place))
    counts[HIGHEST] = max(counts[HIGHEST], max(old_position, place))
    _mark(nodes, counts, nodes[task].after, 1)
    unlink(nodes, lanes, task)
    shift(nodes, order, task, place)
    link(nodes, lanes, order, task, processor)
    _mark(nodes, counts, nodes[task].after, 1)
    _mark(nodes, counts, task, 1 if old_processor == processor else 2)


@lean
def clear_undo_log(counts: Ints, tasks: int) -> None:
    """Clear the undo log; the changes stay."""
    counts[MOVES] = 0
    counts[TIMES] = 0
    counts[ORIGINS] = 0
    counts[DIRTY] = 0
    counts[LOWEST] = tasks
    counts[HIGHEST] = counts[TOUCHED]


@lean
def undo_moves(nodes: Records, lanes: Records, order: Ints, counts: Ints, moved: Records) -> None:
    """Undo the logged moves, latest first; the log stays."""
    for k in range(counts[MOVES] - 1, -1, -1):
        move = moved[k]
        unlink(nodes, lanes, move.task)
        shift(nodes, order, move.task, move.position)
        link(nodes, lanes, order, move.task, move.processor)


@lean
def undo(state: IncrementalState) -> None:
    """Undo all logged changes, latest first, and clear the log. No task may be dirty."""
    nodes, lanes, order, counts = state.nodes, state.lanes, state.order, state.counts
    for k in range(counts[TIMES]):
        entry = state.timed[k]
        nodes[entry.task].start_s = entry.start_s
        nodes[entry.task].finish_s = entry.finish_s
    for k in range(counts[ORIGINS]):
        state.origin[state.placed[k, 0]] = state.placed[k, 1]
    undo_moves(nodes, lanes, order, counts, state.moved)
    clear_undo_log(counts, order.size)
