# SPDX-License-Identifier: Apache-2.0
"""Binary heap of integers in an array, for compiled functions."""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.scheduling.tables import Ints


@lean
def push(heap: Ints, size: int, value: int) -> int:
    """Push a value onto a binary heap; return the new size."""
    at = size
    while at > 0 and heap[(at - 1) // 2] > value:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = value
    return size + 1


@lean
def pop(heap: Ints, size: int) -> int:
    """Pop the smallest value of a binary heap; return the new size."""
    size -= 1
    value = heap[size]
    at, child = 0, 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = value
    return size
