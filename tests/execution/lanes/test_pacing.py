# SPDX-License-Identifier: Apache-2.0
"""Pacing of submission: bounded work in flight on a device."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from syclsched.execution.lanes.pacing import AHEAD_S, FEWEST_AHEAD, MOST_AHEAD, Pacing


def submit_until_full(pacing: Pacing, duration_s: float, first: int = 0) -> int:
    for count in range(2 * MOST_AHEAD):
        if not pacing.may_submit():
            return count
        pacing.add(first + count, duration_s)
    raise AssertionError("it runs ahead without end")


@given(duration_s=st.floats(0, 10))
def test_predicted_seconds_bound_the_submissions_ahead(duration_s: float) -> None:
    count = submit_until_full(Pacing(lambda _: False), duration_s)
    assert FEWEST_AHEAD <= count <= MOST_AHEAD
    assert count == FEWEST_AHEAD or (count - 1) * duration_s < AHEAD_S + 1e-9


def test_completed_work_permits_further_submissions() -> None:
    done: set[int] = set()
    pacing = Pacing(done.__contains__)
    count = submit_until_full(pacing, 1.0)
    assert pacing.midpoint() == (count - 1) // 2
    done.update(range(count // 2 + 1))
    assert pacing.may_submit()


def test_as_many_submissions_follow_as_have_completed() -> None:
    done: set[int] = set()
    pacing = Pacing(done.__contains__)
    count = submit_until_full(pacing, AHEAD_S / 128)
    assert FEWEST_AHEAD < count == 128
    done.update(range(50))
    assert submit_until_full(pacing, AHEAD_S / 128, first=count) == 50
