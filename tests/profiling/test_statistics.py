# SPDX-License-Identifier: Apache-2.0
"""Medians, outliers, confidence intervals, and sampling on a virtual clock."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.errors import MeasurementError
from syclsched.model.profile import Quantity
from syclsched.profiling.statistics import (
    InterruptedMeasurement,
    Sampler,
    is_settled,
    median_absolute_deviation,
    median_interval,
    rate,
    split_spikes,
    summarise,
)

SAMPLES = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60)


class VirtualClock:
    """A clock that advances only during timed work."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(SAMPLES)
def test_nothing_is_lost_and_only_high_samples_are_spikes(samples: list[float]) -> None:
    kept, spikes = split_spikes(samples)
    assert sorted(kept + spikes) == sorted(samples)
    assert len(kept) * 2 >= len(samples)
    assert all(s > max(kept) for s in spikes)


def test_a_spike_is_found_and_reported() -> None:
    quantity = summarise([1.0, 1.01, 0.99, 1.0, 1.02, 9.0])
    assert quantity.spikes == 1
    assert quantity.samples == 5
    assert quantity.value == 1.0
    assert quantity.mad == pytest.approx(0.01)


def test_scatter_is_not_taken_for_spikes() -> None:
    assert split_spikes([1.0, 1.5, 2.0, 2.5, 3.0]) == ([1.0, 1.5, 2.0, 2.5, 3.0], [])


def test_samples_that_hardly_vary_have_no_spikes_within_a_tenth() -> None:
    assert split_spikes([1.0] * 5 + [1.09, 1.11]) == ([1.0] * 5 + [1.09], [1.11])


@given(SAMPLES, st.floats(0.5, 4.0))
def test_mad_scales_with_the_samples(samples: list[float], factor: float) -> None:
    scaled = median_absolute_deviation([s * factor for s in samples])
    assert scaled == pytest.approx(factor * median_absolute_deviation(samples), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("n", "low", "high"),
    # Tables of order statistics give these ranks for 95 % (for instance Hahn and Meeker, Statistical Intervals).
    [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (30, 10, 21), (100, 40, 61)],
)
def test_interval_takes_the_ranks_of_the_tables(n: int, low: int, high: int) -> None:
    assert median_interval([float(i) for i in range(1, n + 1)]) == (low, high)


def test_five_samples_are_too_few_for_an_interval() -> None:
    assert median_interval([1.0] * 5) is None
    assert not is_settled([1.0] * 5, 0.02)
    assert is_settled([1.0] * 6, 0.02)


@given(st.lists(st.floats(0.1, 10.0), min_size=6, max_size=80))
def test_interval_encloses_the_median(samples: list[float]) -> None:
    interval = median_interval(samples)
    assert interval is not None
    assert interval[0] <= statistics.median(samples) <= interval[1]


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [1.0, -1.0], [math.inf]])
def test_impossible_samples_are_refused(samples: list[float]) -> None:
    with pytest.raises(MeasurementError):
        summarise(samples)


def test_rate_keeps_the_relative_spread() -> None:
    speed = rate(Quantity(0.5, 0.05, 7, 1), 100.0)
    assert (speed.value, speed.samples, speed.spikes) == (200.0, 7, 1)
    assert speed.mad / speed.value == pytest.approx(0.1)
    with pytest.raises(MeasurementError, match="zero"):
        rate(Quantity(0.0), 1.0)


# --- sampling ---------------------------------------------------------------------------------------


def test_sampling_ends_when_the_median_is_certain() -> None:
    clock = VirtualClock()

    def sample() -> float:
        clock.now += 0.1
        return 2.0

    assert Sampler(clock=clock).sample_until(sample, budget_s=1e6) == Quantity(2.0, 0.0, 7, 0)
    assert clock.now == pytest.approx(0.7)


def test_sampling_ends_with_the_budget() -> None:
    clock = VirtualClock()
    values = iter(range(1, 1000))

    def sample() -> float:
        clock.now += 1.0
        return float(next(values))  # never converges

    quantity = Sampler(clock=clock).sample_until(sample, budget_s=10.0)
    assert quantity.samples + quantity.spikes == 10


def test_one_sample_is_taken_even_without_budget() -> None:
    assert Sampler(clock=VirtualClock()).sample_until(lambda: 3.0, budget_s=0.0) == Quantity(3.0, 0.0, 1, 0)


def test_after_the_deadline_only_one_sample_is_taken() -> None:
    clock = VirtualClock()
    clock.now = 11.0
    assert Sampler(clock=clock, deadline_s=10.0).sample_until(lambda: 1.0, budget_s=100.0).samples == 1


def test_sampling_never_exceeds_its_most_samples() -> None:
    values = iter(range(1, 1000))
    quantity = Sampler(clock=VirtualClock(), max_samples=15).sample_until(lambda: float(next(values)), 1.0)
    assert quantity.samples == 15


def test_interruption_stops_before_the_next_sample() -> None:
    taken: list[float] = []

    def sample() -> float:
        taken.append(1.0)
        return float(len(taken))

    sampler = Sampler(clock=VirtualClock(), interrupted=lambda: len(taken) >= 3)
    with pytest.raises(InterruptedMeasurement):
        sampler.sample_until(sample, 1.0)
    assert len(taken) == 3


def test_timed_reads_the_clock_around_the_work() -> None:
    clock = VirtualClock()

    def work() -> None:
        clock.now += 0.25

    assert Sampler(clock=clock).timed(work)() == 0.25
