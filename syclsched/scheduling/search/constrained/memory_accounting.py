# SPDX-License-Identifier: Apache-2.0
"""Memory accounting of the constrained decoder: allocation, release, and the wait for free memory in a space.

An allocation waits until enough memory of tasks earlier in the order is released, and no later allocation in the order
may start before that time. The limit therefore holds at every instant, not only along the order.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.tables import Floats, Ints

#: Columns of `ConstrainedState.memory`.
LIMIT, ALLOCATED, AVAILABLE_S, EXCESS, INPUT_BYTES = 0, 1, 2, 3, 4


@lean
def allocate(memory: Floats, heap: Floats, size: Ints, space: int, nbytes: float) -> float:
    """Allocate bytes in a space; return the time from which they are available."""
    if memory[space, LIMIT] == np.inf:
        return 0.0
    limit = memory[space, LIMIT] * (1.0 + 1e-12)
    while size[space] > 0 and memory[space, ALLOCATED] + nbytes > limit:
        memory[space, AVAILABLE_S] = max(memory[space, AVAILABLE_S], heap[space, 0, 0])
        memory[space, ALLOCATED] -= heap[space, 0, 1]
        # Sift the last entry down from the top.
        last = size[space] - 1
        size[space] = last
        hole, child = 0, 1
        while child < last:
            if child + 1 < last and heap[space, child + 1, 0] < heap[space, child, 0]:
                child += 1
            if heap[space, child, 0] >= heap[space, last, 0]:
                break
            heap[space, hole, 0], heap[space, hole, 1] = heap[space, child, 0], heap[space, child, 1]
            hole, child = child, 2 * child + 1
        heap[space, hole, 0], heap[space, hole, 1] = heap[space, last, 0], heap[space, last, 1]
    memory[space, ALLOCATED] += nbytes
    if memory[space, ALLOCATED] > limit:
        memory[space, EXCESS] = max(memory[space, EXCESS], memory[space, ALLOCATED] - memory[space, LIMIT])
    return float(memory[space, AVAILABLE_S])


@lean
def release(memory: Floats, heap: Floats, size: Ints, space: int, nbytes: float, time_s: float) -> None:
    """Release bytes at a time."""
    if memory[space, LIMIT] == np.inf or nbytes == 0.0:
        return
    hole = size[space]
    size[space] = hole + 1
    while hole > 0 and heap[space, (hole - 1) // 2, 0] > time_s:
        above = (hole - 1) // 2
        heap[space, hole, 0], heap[space, hole, 1] = heap[space, above, 0], heap[space, above, 1]
        hole = above
    heap[space, hole, 0], heap[space, hole, 1] = time_s, nbytes
