# SPDX-License-Identifier: Apache-2.0
"""The initiation interval of plans on in-order lanes."""

from __future__ import annotations

import pytest

from syclsched.planning.initiation_interval import CyclicStep, shortest_cycle


def steps(*placed: tuple[int, float]) -> list[CyclicStep]:
    """Return a chain whose tasks take the given seconds on the given lanes."""
    return [CyclicStep(n, lane, seconds, (n - 1,)) for n, (lane, seconds) in enumerate(placed)]


def test_two_stages_need_no_more_than_the_longer() -> None:
    found = shortest_cycle(steps((0, 1.0), (0, 2.0), (1, 2.0), (1, 2.0)))
    assert found is not None
    assert found.interval_s == pytest.approx(4.0)


def test_alternating_lanes_leave_unusable_gaps() -> None:
    even = shortest_cycle(steps((0, 3.0), (1, 3.0), (0, 3.0), (1, 3.0)))
    uneven = shortest_cycle(steps((0, 1.0), (1, 3.0), (0, 5.0), (1, 4.0), (0, 5.0)))
    assert even is not None and uneven is not None
    assert even.interval_s == pytest.approx(6.0)
    assert uneven.interval_s > 1.2 * 11.0


def test_one_lane_has_no_cycle() -> None:
    assert shortest_cycle(steps((0, 1.0), (0, 1.0))) is None
