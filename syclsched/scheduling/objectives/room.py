# SPDX-License-Identifier: Apache-2.0
"""Room in memory spaces as a schedule is decoded: what is taken, what is given back, and how long to wait for it.

Whoever takes room waits until enough of what was used before it in the order has been given back, and nothing later
in the order is put there earlier than that: so the limit is kept at every instant, not only in the order.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.tables import Floats, Ints

#: Columns of `State.room`.
LIMIT, HELD, FLOOR, OVER, STANDING = 0, 1, 2, 3, 4


@lean
def take(room: Floats, heap: Floats, size: Ints, space: int, nbytes: float) -> float:
    """Take room in a space; return the time from which it is there."""
    if room[space, LIMIT] == np.inf:
        return 0.0
    limit = room[space, LIMIT] * (1.0 + 1e-12)
    while size[space] > 0 and room[space, HELD] + nbytes > limit:
        room[space, FLOOR] = max(room[space, FLOOR], heap[space, 0, 0])
        room[space, HELD] -= heap[space, 0, 1]
        # The last goes to where it belongs from the top.
        last = size[space] - 1
        size[space] = last
        here, child = 0, 1
        while child < last:
            if child + 1 < last and heap[space, child + 1, 0] < heap[space, child, 0]:
                child += 1
            if heap[space, child, 0] >= heap[space, last, 0]:
                break
            heap[space, here, 0], heap[space, here, 1] = heap[space, child, 0], heap[space, child, 1]
            here, child = child, 2 * child + 1
        heap[space, here, 0], heap[space, here, 1] = heap[space, last, 0], heap[space, last, 1]
    room[space, HELD] += nbytes
    if room[space, HELD] > limit:
        room[space, OVER] = max(room[space, OVER], room[space, HELD] - room[space, LIMIT])
    return float(room[space, FLOOR])


@lean
def give_back(room: Floats, heap: Floats, size: Ints, space: int, nbytes: float, time_s: float) -> None:
    """Give room back at a time."""
    if room[space, LIMIT] == np.inf or nbytes == 0.0:
        return
    here = size[space]
    size[space] = here + 1
    while here > 0 and heap[space, (here - 1) // 2, 0] > time_s:
        above = (here - 1) // 2
        heap[space, here, 0], heap[space, here, 1] = heap[space, above, 0], heap[space, above, 1]
        here = above
    heap[space, here, 0], heap[space, here, 1] = time_s, nbytes
