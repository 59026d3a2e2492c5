# SPDX-License-Identifier: Apache-2.0
"""Insertion finds the earliest place there is, as a search of all places does."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from syclsched.scheduling.timeline import Timeline

small = st.integers(0, 12).map(float)


def free(taken: list[tuple[float, float]], start: float, finish: float) -> bool:
    """Half-open intervals; an instant may touch but not split another, and must not be split."""
    if start == finish:
        return not any(a < start < b for a, b in taken)
    return all(b <= start or finish <= a for a, b in taken)


def earliest(taken: list[tuple[float, float]], ready: float, duration: float) -> float:
    """Try every time at which something could start: when ready, and at every end."""
    candidates = sorted({ready, *(b for _, b in taken if b >= ready)})
    return next(s for s in candidates if free(taken, s, s + duration))


@given(st.lists(st.tuples(small, small), max_size=30))
def test_as_an_exhaustive_search_finds_it(requests: list[tuple[float, float]]) -> None:
    timeline = Timeline()
    taken: list[tuple[float, float]] = []
    for ready, duration in requests:
        start = timeline.earliest(ready, duration)
        assert start == earliest(taken, ready, duration)
        timeline.take(start, start + duration)
        taken.append((start, start + duration))
        assert timeline.tail == max(b for _, b in taken)


@given(st.lists(st.tuples(small, small), max_size=20), small, small, small)
def test_a_bound_hides_only_what_is_of_no_interest(
    requests: list[tuple[float, float]], ready: float, duration: float, bound: float
) -> None:
    timeline = Timeline()
    for r, d in requests:
        start = timeline.earliest(r, d)
        timeline.take(start, start + d)
    exact = timeline.earliest(ready, duration)
    bounded = timeline.earliest(ready, duration, bound)
    if exact + duration < bound:
        assert bounded == exact
    else:
        assert bounded + duration >= bound


def test_looking_takes_nothing() -> None:
    timeline = Timeline()
    timeline.take(0.0, 1.0)
    timeline.take(3.0, 4.0)
    assert [timeline.earliest(0.0, 2.0) for _ in range(3)] == [1.0, 1.0, 1.0]


def test_an_infinite_wait_stays_one() -> None:
    assert Timeline().earliest(math.inf, 1.0) == math.inf
