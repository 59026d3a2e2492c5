# SPDX-License-Identifier: Apache-2.0
"""Timelines of processors and channels, with a first-fit gap search in logarithmic time.

A *line* is one processor or channel. Its *nodes* (tasks or copies) are ordered by time in a treap: a search tree that
is a heap by a hash of the node number, and so is balanced for any order of insertion. Each node stores the gap before
it and the longest gap of its subtree, so that subtrees without a fit are skipped. Empty gaps are kept as well: a task
of no duration may start where two others touch, but not inside another.

The *head* of a line is a sentinel node later than all others. The gap before it is unbounded, and the tree is its left
subtree, so that the time after the last node is a gap like the others. The head also stores when the last bounded gap
ends: most tasks come after all gaps, and need no search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.tables import NOTHING, Floats, Ints

#: Columns of `Timelines.link`; the first two are also the sides of a node. `LAST` is the latest node, for heads only.
LEFT, RIGHT, PARENT, LAST = 0, 1, 2, 3

#: Columns of `Timelines.time`: start of the node, start of the gap before it, longest gap of its subtree.
#: Heads only: an upper limit of the end of the last bounded gap of positive length.
START, FREE, LONGEST, CLOSED = 0, 1, 2, 3

#: ``free + duration <= start`` and ``duration <= start - free`` round differently, by less than this part of start.
ROUNDING = 2.0**-50


class Timelines(NamedTuple):
    """Busy time of several lines; see `make_timelines`."""

    link: Ints  # the trees: `LEFT`, `RIGHT`, `PARENT`, `LAST`
    time: Floats  # seconds: `START`, `FREE`, `LONGEST`, `CLOSED`


def make_timelines(lines: int, nodes: int) -> Timelines:
    """Return empty lines."""
    link = np.full((nodes + lines, 4), NOTHING, np.int64)
    link[nodes:, LAST] = np.arange(nodes, nodes + lines)
    time = np.zeros((nodes + lines, 4))
    time[nodes:, START] = np.inf
    return Timelines(link, time)


@lean
def earliest_start(link: Ints, time: Floats, head: int, ready_s: float, duration_s: float, latest_s: float) -> float:
    """Return the earliest start on a line, in a gap or after the last node; infinity if it is after ``latest_s``."""
    tail_s = time[head, FREE]
    if ready_s >= tail_s:
        return ready_s
    end_s = ready_s + duration_s
    # A gap of no length fits tasks of no duration, and durations that are lost in rounding when added to the time.
    if end_s > time[head, CLOSED] and duration_s > tail_s * ROUNDING:
        return float(tail_s)
    node = link[head, LEFT]
    if time[node, LONGEST] < duration_s:
        return float(tail_s)
    found = head
    while node >= 0:  # the first gap that does not end too early
        if time[node, START] >= end_s:
            found, node = node, link[node, LEFT]
        else:
            node = link[node, RIGHT]
    while True:
        start_s = max(time[found, FREE], ready_s)
        if start_s > latest_s:
            return np.inf
        if start_s + duration_s <= time[found, START]:
            return float(start_s)
        found = _next_fit(link, time, found, duration_s)


@lean
def insert_node(link: Ints, time: Floats, head: int, node: int, start_s: float, finish_s: float) -> None:
    """Insert a node into a line."""
    parent, side, later = link[head, LAST], RIGHT, head
    if start_s < time[head, FREE]:
        parent, side, later = _leaf(link, time, head, start_s, finish_s)
        if time[later, START] == time[head, CLOSED] and finish_s == time[later, START]:
            time[head, CLOSED] = start_s
    else:
        side = LEFT if parent == head else RIGHT
        link[head, LAST] = node
        if start_s > time[head, FREE]:
            time[head, CLOSED] = start_s
    link[node, LEFT] = link[node, RIGHT] = NOTHING
    link[node, PARENT] = parent
    link[parent, side] = node
    time[node, START] = start_s
    time[node, FREE] = time[later, FREE]
    time[later, FREE] = finish_s
    _remeasure(link, time, node)
    _remeasure_ancestors(link, time, head, node, later)
    while link[node, PARENT] != head and _has_priority(node, link[node, PARENT]):
        _rotate_up(link, time, node)


@lean
def remove_node(link: Ints, time: Floats, head: int, node: int) -> None:
    """Remove a node from a line."""
    later = _neighbour(link, time, node, RIGHT)
    time[later, FREE] = time[node, FREE]
    if later == head:
        before = _neighbour(link, time, node, LEFT)
        link[head, LAST] = head if before < 0 else before
        time[head, CLOSED] = min(time[head, CLOSED], time[node, FREE])
    else:
        time[head, CLOSED] = max(time[head, CLOSED], time[later, START])
    while link[node, LEFT] >= 0 and link[node, RIGHT] >= 0:
        left, right = link[node, LEFT], link[node, RIGHT]
        _rotate_up(link, time, left if _has_priority(left, right) else right)
    child, parent = max(link[node, LEFT], link[node, RIGHT]), link[node, PARENT]
    if child >= 0:
        link[child, PARENT] = parent
    link[parent, LEFT if link[parent, LEFT] == node else RIGHT] = child
    for changed in (parent, later):
        if changed != head:
            _remeasure(link, time, changed)
            _remeasure_ancestors(link, time, head, changed, head)


# --- inside ---------------------------------------------------------------------------------------


@lean
def _next_fit(link: Ints, time: Floats, node: int, duration_s: float) -> int:
    """Return the next node in time whose preceding gap may fit; else the head."""
    right = link[node, RIGHT]
    if right >= 0 and time[right, LONGEST] >= duration_s:
        node = right
        while True:
            left = link[node, LEFT]
            if left >= 0 and time[left, LONGEST] >= duration_s:
                node = left
            elif _gap_before(link, time, node) >= duration_s:
                return node
            else:
                node = link[node, RIGHT]
    parent = link[node, PARENT]
    while link[parent, RIGHT] == node:
        node = parent
        parent = link[node, PARENT]
    return int(parent)


@lean
def _leaf(link: Ints, time: Floats, head: int, start_s: float, finish_s: float) -> tuple[int, int, int]:
    """Return the position of a new node: parent, side, and the node that follows in time."""
    parent, side, later = head, LEFT, head
    node = link[head, LEFT]
    while node >= 0:
        node_start_s = time[node, START]
        parent = node
        # At one instant, nodes of no duration come first.
        if start_s < node_start_s or (start_s == node_start_s and finish_s == start_s):
            later, side = node, LEFT
        else:
            side = RIGHT
        node = link[node, side]
    return parent, side, later


@lean
def _gap_before(link: Ints, time: Floats, node: int) -> float:
    """Return the length of the gap before a node, rounded up."""
    start_s = time[node, START]
    return float(start_s - time[node, FREE] + start_s * ROUNDING)


@lean
def _remeasure(link: Ints, time: Floats, node: int) -> None:
    """Update the longest gap of a subtree from those of its children."""
    longest = _gap_before(link, time, node)
    for side in (LEFT, RIGHT):
        child = link[node, side]
        if child >= 0:
            longest = max(longest, time[child, LONGEST])
    time[node, LONGEST] = longest


@lean
def _remeasure_ancestors(link: Ints, time: Floats, head: int, node: int, through: int) -> None:
    """Update all ancestors, up to the first unchanged one, but at least up to the node ``through``."""
    node = link[node, PARENT]
    pending = through != head
    while node != head:
        before_s = time[node, LONGEST]
        _remeasure(link, time, node)
        if node == through:
            pending = False
        elif not pending and time[node, LONGEST] == before_s:
            return
        node = link[node, PARENT]


@lean
def _rotate_up(link: Ints, time: Floats, node: int) -> None:
    """Rotate a node above its parent, which keeps the order in time."""
    parent = link[node, PARENT]
    above = link[parent, PARENT]
    side = LEFT if link[parent, LEFT] == node else RIGHT
    child = link[node, 1 - side]
    link[parent, side] = child
    if child >= 0:
        link[child, PARENT] = parent
    link[node, 1 - side] = parent
    link[parent, PARENT] = node
    link[node, PARENT] = above
    link[above, LEFT if link[above, LEFT] == parent else RIGHT] = node
    _remeasure(link, time, parent)
    _remeasure(link, time, node)


@lean
def _neighbour(link: Ints, time: Floats, node: int, side: int) -> int:
    """Return the node before (left) or after (right) in time: the head after the last, -1 before the first."""
    if link[node, side] >= 0:
        node = link[node, side]
        while link[node, 1 - side] >= 0:
            node = link[node, 1 - side]
        return node
    parent = link[node, PARENT]
    while parent >= 0 and link[parent, side] == node:
        node = parent
        parent = link[node, PARENT]
    return int(parent)


@lean
def _hash(node: int) -> int:
    """Scatter the bits of a number within 32 bits."""
    x = node + 1
    for _ in range(2):
        x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return x ^ (x >> 16)


@lean
def _has_priority(node: int, other: int) -> bool:
    """Return whether a node belongs above another in the treap."""
    mine, others = _hash(node), _hash(other)
    return mine > others or (mine == others and node > other)
