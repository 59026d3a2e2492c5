# SPDX-License-Identifier: Apache-2.0
"""Packing of buffers by lifetime: no overlap of buffers that live at once, and little wasted memory."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from syclsched.execution.memory.lifetime_packing import Lifetime, packed

LIFETIMES = st.builds(
    lambda nbytes, begin, length: Lifetime(64 * nbytes, begin, begin + length),
    st.integers(1, 50),
    st.integers(0, 30),
    st.integers(1, 30),
)


def most_at_once(buffers: list[Lifetime]) -> int:
    return max(sum(b.nbytes for b in buffers if b.begin <= each.begin < b.end) for each in buffers)


@given(st.lists(LIFETIMES, min_size=1, max_size=40))
def test_buffers_alive_at_once_do_not_overlap(buffers: list[Lifetime]) -> None:
    least = most_at_once(buffers)
    offsets, size = packed(buffers, least)
    assert size == max(offset + each.nbytes for offset, each in zip(offsets, buffers, strict=True))
    assert min(offsets) == 0 and size >= least
    for (a, one), (b, other) in combinations(zip(offsets, buffers, strict=True), 2):
        if one.begin < other.end and other.begin < one.end:
            assert a + one.nbytes <= b or b + other.nbytes <= a


def test_buffers_that_fit_exactly_are_packed_without_gaps() -> None:
    # In this order the third one is behind both others, as the first leaves too little.
    buffers = [Lifetime(64, 0, 2), Lifetime(64, 0, 9), Lifetime(128, 2, 9)]
    assert packed(buffers, 192)[1] == 192
