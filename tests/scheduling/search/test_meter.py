# SPDX-License-Identifier: Apache-2.0
"""Budgets of searches."""

from __future__ import annotations

from syclsched.scheduling.search.meter import Meter


def test_steps_are_counted_down() -> None:
    meter = Meter(steps=10, budget_s=None)
    assert (meter.left(4), meter.spent()) == (4, 0.0)
    meter.count(8)
    assert (meter.left(4), meter.spent(), meter.done) == (2, 0.8, 8)


def test_seconds_pass_from_the_making_of_the_meter() -> None:
    times = iter([100.0, 101.0, 104.0])
    meter = Meter(steps=None, budget_s=4.0, clock=lambda: next(times))
    assert [meter.spent(), meter.spent()] == [0.25, 1.0]
    assert meter.left(7) == 7


def test_the_limit_reached_first_counts() -> None:
    meter = Meter(steps=4, budget_s=100.0, clock=lambda: 0.0)
    meter.count(3)
    assert meter.spent() == 0.75


def test_no_budget_at_all_is_spent_at_once() -> None:
    assert Meter(steps=0, budget_s=None).spent() == 1.0
    assert Meter(steps=None, budget_s=0.0, clock=lambda: 5.0).spent() == 1.0
