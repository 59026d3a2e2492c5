# SPDX-License-Identifier: Apache-2.0
"""Offline dynamic storage allocation: places of buffers whose sizes and lifetimes are all known. Pure.

Buffers are placed one after another in the smallest gap between those that live at the same time, the largest first
(Pisarchyk and Lee 2020, https://arxiv.org/abs/2001.03288). Other orders are tried, too, and in the best one the buffer
that ends last is moved to the front a few times. That needs the least memory possible, or little more, for most plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

#: Packings of more buffers are not searched: the time grows with the square.
MOST_BUFFERS: Final = 4_000

#: Most buffers that are moved to the front of the best order.
_MOVES: Final = 24


class Lifetime(NamedTuple):
    """A buffer: it lives from its begin to before its end."""

    nbytes: int
    begin: int
    end: int


def packed(buffers: Sequence[Lifetime], enough_bytes: int) -> tuple[list[int], int]:
    """Return the offset of each buffer and the size of all; no further order is tried once it is ``enough_bytes``."""
    orders = [sorted(range(len(buffers)), key=lambda n, by=by: by(buffers[n])) for by in _ORDERS]  # type: ignore[misc]
    best: tuple[list[int], int] | None = None
    order = orders[0]
    for tried in orders:
        found = _placed(buffers, tried)
        if best is None or found[1] < best[1]:
            best, order = found, tried
        if best[1] <= enough_bytes:
            return best
    assert best is not None
    found = best
    for _ in range(_MOVES):
        ends = [offset + each.nbytes for offset, each in zip(found[0], buffers, strict=True)]
        last = ends.index(max(ends))
        order = [last, *(n for n in order if n != last)]
        found = _placed(buffers, order)
        if found[1] < best[1]:
            best = found
        if best[1] <= enough_bytes:
            break
    return best


_ORDERS: Final[tuple[Callable[[Lifetime], tuple[int, ...]], ...]] = (
    lambda each: (-each.nbytes, each.begin),
    lambda each: (-each.nbytes * (each.end - each.begin), each.begin),
    lambda each: (each.begin - each.end, -each.nbytes),
    lambda each: (each.begin, -each.nbytes),
    lambda each: (-each.end, -each.nbytes),
)


def _placed(buffers: Sequence[Lifetime], order: Sequence[int]) -> tuple[list[int], int]:
    """Place buffers in an order, each in the smallest gap that it fits in."""
    begins, ends, starts, stops = (np.empty(len(order), np.int64) for _ in range(4))
    offsets, size = [0] * len(buffers), 0
    for count, number in enumerate(order):
        nbytes, begin, end = buffers[number]
        beside = (begins[:count] < end) & (ends[:count] > begin)
        low, high = starts[:count][beside], stops[:count][beside]
        sorting = np.argsort(low, kind="stable")
        low, high = low[sorting], np.maximum.accumulate(high[sorting]) if len(sorting) else high
        # Gaps lie before each of these, and behind the last one.
        gap_starts = np.concatenate(([0], high))
        gaps = low - gap_starts[:-1]
        fitting = np.flatnonzero(gaps >= nbytes)
        place = int(gap_starts[fitting[gaps[fitting].argmin()]]) if len(fitting) else int(gap_starts[-1])
        begins[count], ends[count], starts[count], stops[count] = begin, end, place, place + nbytes
        offsets[number], size = place, max(size, place + nbytes)
    return offsets, size
