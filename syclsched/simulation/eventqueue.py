# SPDX-License-Identifier: Apache-2.0
"""Event queue with at most one event per lane: an indexed binary heap [1]_.

The heap is an array: its size, then the lanes in it. A lane's time is its ``due_s``, its index its ``place``.

References
----------
.. [1] R. Sedgewick, K. Wayne, "Algorithms", 4th edition, 2011, section 2.4 (index priority queue).
"""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.simulation.machine import Ints, Records


@lean
def put(heap: Ints, lanes: Records, lane: int, due_s: float) -> None:
    """Set the time of a lane's event, and add the event if it is new."""
    place = lanes[lane].place
    lanes[lane].due_s = due_s
    if place < 0:
        heap[0] += 1
        place = heap[0]
    _move(heap, lanes, lane, place)


@lean
def remove(heap: Ints, lanes: Records, lane: int) -> None:
    """Remove a lane's event, if it has one."""
    place = lanes[lane].place
    if place >= 0:
        lanes[lane].place = -1
        last = heap[heap[0]]
        heap[0] -= 1
        if last != lane:
            _move(heap, lanes, last, place)


@lean
def _move(heap: Ints, lanes: Records, lane: int, place: int) -> None:
    """Put a lane where it belongs, above or below a free place; ties go by lane number."""
    due_s = lanes[lane].due_s
    while place > 1:
        above = heap[place // 2]
        if lanes[above].due_s < due_s or (lanes[above].due_s == due_s and above < lane):
            break
        heap[place] = above
        lanes[above].place = place
        place //= 2
    while 2 * place <= heap[0]:
        child = 2 * place
        if child < heap[0]:
            one, other = heap[child], heap[child + 1]
            if lanes[other].due_s < lanes[one].due_s or (lanes[other].due_s == lanes[one].due_s and other < one):
                child += 1
        below = heap[child]
        if due_s < lanes[below].due_s or (due_s == lanes[below].due_s and lane < below):
            break
        heap[place] = below
        lanes[below].place = place
        place = child
    heap[place] = lane
    lanes[lane].place = place
