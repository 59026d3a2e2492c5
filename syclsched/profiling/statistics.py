# SPDX-License-Identifier: Apache-2.0
"""Robust statistics of repeated measurements: median, MAD, spikes, and the stopping rule of sampling."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from syclsched.errors import MeasurementError
from syclsched.model.profile import Quantity

#: Factor from the MAD of a normal distribution to its standard deviation.
_MAD_TO_SIGMA = 1.4826

#: A sample this many (estimated) standard deviations above the median is a spike ...
_SPIKE_SIGMAS = 5.0

#: ... provided it is also this share above the median, so that nearly constant samples have none.
_SPIKE_MARGIN = 0.10


class InterruptedMeasurement(MeasurementError):
    """Sampling was stopped by the user; earlier measurements stay valid."""


def median_absolute_deviation(samples: Sequence[float]) -> float:
    """Return the median of the distances from the median."""
    centre = statistics.median(samples)
    return statistics.median(abs(s - centre) for s in samples)


def split_spikes(samples: Sequence[float]) -> tuple[list[float], list[float]]:
    """Split samples into normal ones and spikes: disturbed samples far above the median, never below."""
    if len(samples) < 3:
        return list(samples), []
    centre = statistics.median(samples)
    spread = _MAD_TO_SIGMA * median_absolute_deviation(samples)
    limit = centre + max(_SPIKE_SIGMAS * spread, _SPIKE_MARGIN * centre)
    return [s for s in samples if s <= limit], [s for s in samples if s > limit]


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """Return a distribution-free 95 % confidence interval of the median, from two order statistics.

    The k-th smallest and k-th largest of n samples enclose the true median with probability
    ``1 - 2 P(B <= k - 1)``, B binomial with n trials of probability 1/2 (David and Nagaraja, Order Statistics,
    3rd ed., 7.1). The largest k that keeps 95 % is taken.
    """
    n = len(samples)
    tail, k = 0.0, 0
    while k < n:
        tail += math.comb(n, k) * 0.5**n
        if 1.0 - 2.0 * tail < 0.95:
            break
        k += 1
    if k == 0:
        return None
    ordered = sorted(samples)
    return ordered[k - 1], ordered[n - k]


def is_settled(samples: Sequence[float], relative: float) -> bool:
    """Return whether the median's 95 % confidence interval lies within ``relative`` of the median on both sides."""
    interval = median_interval(samples)
    if interval is None:
        return False
    centre = statistics.median(samples)
    return interval[1] - centre <= relative * centre and centre - interval[0] <= relative * centre


def summarise(samples: Sequence[float], *, source: str | None = None) -> Quantity:
    """Return median, MAD and counts of samples, without spikes."""
    if not samples:
        raise MeasurementError("no samples were taken")
    if any(not math.isfinite(s) or s < 0 for s in samples):
        raise MeasurementError("a sample is negative or not finite", hint="The device's clock cannot be used")
    kept, spikes = split_spikes(samples)
    return Quantity(
        value=statistics.median(kept),
        mad=median_absolute_deviation(kept),
        samples=len(kept),
        spikes=len(spikes),
        source=source,
    )


def rate(seconds: Quantity, amount: float) -> Quantity:
    """Convert a time into a rate: ``amount`` per second, with the same relative spread."""
    if seconds.value <= 0:
        raise MeasurementError("the measured time is zero", hint="The device's clock is too coarse for this work")
    value = amount / seconds.value
    return Quantity(value, value * seconds.mad / seconds.value, seconds.samples, seconds.spikes)


@dataclass(frozen=True, slots=True)
class Sampler:
    """Sampling rules; the clock is a parameter so that tests need not wait."""

    relative: float = 0.02  # target half-width of the confidence interval, relative to the median
    #: Fewest samples for a stop before the budget ends, and most in any case.
    min_samples: int = 7
    max_samples: int = 2000
    deadline_s: float = math.inf  # time on the clock after which each number gets one sample
    clock: Callable[[], float] = time.perf_counter  # seconds since an arbitrary time
    interrupted: Callable[[], bool] = lambda: False  # called before every sample; true to stop

    def check(self) -> None:
        """Raise `InterruptedMeasurement` if the user asked to stop."""
        if self.interrupted():
            raise InterruptedMeasurement("the measurement was interrupted")

    def samples_until(self, sample: Callable[[], float], budget_s: float) -> list[float]:
        """Take samples until the median's confidence interval is small enough, or the budget ends."""
        samples: list[float] = []
        end = min(self.clock() + budget_s, self.deadline_s)
        while len(samples) < self.max_samples:
            self.check()
            samples.append(sample())
            if len(samples) >= self.min_samples and is_settled(split_spikes(samples)[0], self.relative):
                break
            if self.clock() >= end:
                break
        return samples

    def sample_until(self, sample: Callable[[], float], budget_s: float) -> Quantity:
        """Return median and MAD of `samples_until`, without spikes."""
        return summarise(self.samples_until(sample, budget_s))

    def timed(self, work: Callable[[], object]) -> Callable[[], float]:
        """Return a function that does ``work`` once and returns the seconds it took."""

        def sample() -> float:
            start = self.clock()
            work()
            return self.clock() - start

        return sample
