# SPDX-License-Identifier: Apache-2.0
"""Estimates of durations: load, number, spread and age of the samples, and a machine that became slower."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.costs.history import PROVISIONAL, Sample, is_provisional
from syclsched.profiling.estimation import ENOUGH, at_recent_speed, estimate, recent_slowdown


def quiet(*seconds: float, when_s: float = 0.0) -> list[Sample]:
    return [Sample(each, when_s) for each in seconds]


def busy(*seconds: float) -> list[Sample]:
    return [Sample(each, load=0.5, quiet=False) for each in seconds]


def test_one_sample_is_provisional_unlike_five_equal_samples() -> None:
    uncertainties = [estimate(quiet(*[1.0] * n)).uncertainty or 0.0 for n in range(1, 7)]
    assert [u >= PROVISIONAL for u in uncertainties] == [True] * (ENOUGH - 1) + [False, False]
    assert uncertainties[0] > uncertainties[1]


def test_scattered_samples_are_provisional_until_there_are_many() -> None:
    assert is_provisional(estimate(quiet(1.0, 1.6, 0.8, 1.5, 1.2)))
    assert not is_provisional(estimate(quiet(*[1.0, 1.4] * 16)))


def test_single_quiet_sample_replaces_busy_samples() -> None:
    found = estimate([*busy(*[9.0] * 20), *quiet(2.0), *busy(*[8.0] * 20)])
    assert (found.value, found.samples) == (2.0, 1)


def test_lower_half_of_busy_samples_is_provisional() -> None:
    found = estimate(busy(2.0, 9.0, 2.2, 7.0, 2.1))
    assert found.value == 2.1
    assert is_provisional(found)


def test_consistent_new_samples_replace_older_ones() -> None:
    before, after = [4.0, 4.1, 3.9] * 5, [6.0, 6.1, 5.9, 6.0, 6.2]
    assert estimate(quiet(*before, *after[:-1])).value == pytest.approx(4.1, abs=0.11)
    found = estimate(quiet(*before, *after))
    assert (found.value, found.samples) == (6.0, 5)
    assert estimate(quiet(*before, *after, 6.1, 6.0)).samples == 7


def test_disturbances_are_no_change() -> None:
    steady = [4.0, 4.1, 3.9, 4.0, 4.05] * 3
    assert estimate(quiet(*steady, 6.0, 4.0, 7.0, 4.1, 6.0)).value == pytest.approx(4.0, abs=0.11)


def test_samples_are_ordered_by_their_age_not_by_their_place() -> None:
    old, new = quiet(*[4.0] * 10, when_s=1.0), quiet(*[2.0] * 5, when_s=2.0)
    assert estimate([*new, *old]).value == estimate([*old, *new]).value == 2.0


@given(st.lists(st.builds(Sample, st.floats(0, 1e3), st.floats(0, 1e9), quiet=st.booleans()), min_size=1))
def test_an_estimate_lies_among_its_samples(samples: list[Sample]) -> None:
    found = estimate(samples)
    assert min(s.seconds for s in samples) <= found.value <= max(s.seconds for s in samples)
    assert (found.uncertainty or 0.0) > 0.0


# --- current speed of the machine ---------------------------------------------------------------------


def kinds(factor: float, count: int = 3) -> list[list[Sample]]:
    """Return samples of kinds of tasks that took one second a day ago, and ``factor`` in the last two runs."""
    return [[*quiet(*[1.0] * 8, when_s=0.0), *quiet(factor, factor, when_s=90_000.0)] for _ in range(count)]


def test_recent_runs_determine_the_current_pace() -> None:
    assert recent_slowdown(kinds(1.7), 80_000.0) == pytest.approx(1.7)
    assert recent_slowdown(kinds(1.05), 80_000.0) is None
    assert recent_slowdown(kinds(1.7, count=2), 80_000.0) is None  # two kinds of tasks are too few
    assert recent_slowdown(kinds(1.7), 99_000.0) is None  # the runs were yesterday's


def test_older_estimates_are_scaled_to_the_current_speed() -> None:
    old, new = quiet(*[2.0] * 8), quiet(*[2.0] * 8, when_s=90_000.0)
    slower = at_recent_speed(estimate(old), old, 1.7, 80_000.0)
    assert slower.value == pytest.approx(3.4)
    assert (slower.uncertainty or 0.0) > (estimate(old).uncertainty or 0.0)
    assert at_recent_speed(estimate(new), new, 1.7, 80_000.0) == estimate(new)
    assert at_recent_speed(estimate(old), old, None, 80_000.0) == estimate(old)
