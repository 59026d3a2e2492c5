# SPDX-License-Identifier: Apache-2.0
"""The order of all tasks and the chains of the processors: moving a task, and taking that back."""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.scheduling.refine.records import (
    DIRTY,
    HIGHEST,
    LOWEST,
    MOVES,
    ORIGINS,
    TIMES,
    TOUCHED,
    Records,
    Search,
)
from syclsched.scheduling.tables import Ints


@lean
def load(nodes: Records, lanes: Records, order: Ints, by_order: Ints, processor: Ints) -> None:
    """Go to another order and placement: all tasks are dirty afterwards."""
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
    """Take a task out of its processor's chain."""
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
    node.processor = -1  # so that it is not found in its own chain


@lean
def shift(nodes: Records, order: Ints, task: int, place: int) -> None:
    """Move a task in the order, those between by one."""
    here = nodes[task].position
    while here < place:
        other = order[here + 1]
        order[here] = other
        nodes[other].position = here
        here += 1
    while here > place:
        other = order[here - 1]
        order[here] = other
        nodes[other].position = here
        here -= 1
    order[place] = task
    nodes[task].position = place


@lean
def link(nodes: Records, lanes: Records, order: Ints, task: int, processor: int) -> None:
    """Put a task into a processor's chain by its place in the order."""
    node = nodes[task]
    lane = lanes[processor]
    before = -1
    if lane.last >= 0 and nodes[lane.last].position < node.position:
        before = lane.last
    elif lane.first >= 0 and nodes[lane.first].position < node.position:
        # Searched through the order: the one before is near, unless the processor is hardly used.
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
    """Make a task dirty, if there is one."""
    if task >= 0:
        if nodes[task].dirty == 0:
            counts[DIRTY] += 1
        nodes[task].dirty = max(nodes[task].dirty, dirt)


@lean
def relocate(
    nodes: Records, lanes: Records, order: Ints, counts: Ints, moved: Records, task: int, processor: int, place: int
) -> None:
    """Move a task to a processor and a place in the order, note it, and mark what becomes dirty.

    The place must lie within what the task's predecessors and successors leave; there must be room to note it.
    """
    here, was = nodes[task].position, nodes[task].processor
    note = moved[counts[MOVES]]
    note.task = task
    note.position = here
    note.processor = was
    counts[MOVES] += 1
    counts[LOWEST] = min(counts[LOWEST], min(here, place))
    counts[HIGHEST] = max(counts[HIGHEST], max(here, place))
    _mark(nodes, counts, nodes[task].after, 1)
    unlink(nodes, lanes, task)
    shift(nodes, order, task, place)
    link(nodes, lanes, order, task, processor)
    _mark(nodes, counts, nodes[task].after, 1)
    _mark(nodes, counts, task, 1 if was == processor else 2)


@lean
def forget(counts: Ints, tasks: int) -> None:
    """Empty the notes: the changes stay."""
    counts[MOVES] = 0
    counts[TIMES] = 0
    counts[ORIGINS] = 0
    counts[DIRTY] = 0
    counts[LOWEST] = tasks
    counts[HIGHEST] = counts[TOUCHED]


@lean
def undo(search: Search) -> None:
    """Take back all that is noted, latest first, and forget it. To be called when nothing is dirty."""
    nodes, lanes, order, counts = search.nodes, search.lanes, search.order, search.counts
    for k in range(counts[TIMES]):
        note = search.timed[k]
        nodes[note.task].start_s = note.start_s
        nodes[note.task].finish_s = note.finish_s
    for k in range(counts[ORIGINS]):
        search.origin[search.placed[k, 0]] = search.placed[k, 1]
    for k in range(counts[MOVES] - 1, -1, -1):
        back = search.moved[k]
        unlink(nodes, lanes, back.task)
        shift(nodes, order, back.task, back.position)
        link(nodes, lanes, order, back.task, back.processor)
    forget(counts, order.size)
