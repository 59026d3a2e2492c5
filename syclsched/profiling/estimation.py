# SPDX-License-Identifier: Apache-2.0
"""Robust estimates of durations from samples of different age, load and number, and of a device's speed today.

Samples taken while other processes used the machine, or contradicted by later ones, count only where there are no
others. If the newest of the rest differ consistently from the older ones, the machine or the code has changed, and the
older ones do not count. The estimate carries a relative uncertainty: from `PROVISIONAL` on it is used, but measured
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from syclsched.costs.estimate import relative_uncertainty
from syclsched.costs.history import PROVISIONAL, Sample
from syclsched.model.profile import Quantity
from syclsched.profiling.statistics import median_absolute_deviation, summarise

#: Number of samples that is enough, and number from which on their spread is the duration's own.
ENOUGH, MANY = 5, 16

#: The newest samples differ from the older ones if their median does by this share, and by so many deviations.
_DRIFT_SHARE, _DRIFT_SIGMAS = 0.10, 3.0

#: Relative MAD from which on samples are scattered.
_SCATTERED = 0.15

#: Runs, and least kinds of tasks in them, that tell a device's speed today.
_LAST_RUNS, _KINDS = 2, 3

#: Relative uncertainty of an estimate from a single sample, and of one from samples of a busy machine.
_SINGLE, _BUSY = 0.5, 1.0


def estimate(samples: Sequence[Sample]) -> Quantity:
    """Return median, spread and uncertainty of a duration."""
    samples = sorted(samples, key=lambda sample: sample.when_s)  # stable: those of unknown age stay in order, first
    trusted = [sample.seconds for sample in samples if sample.quiet]
    if not trusted:
        # Other processes only make durations longer: the lower half is closest to that of a quiet machine.
        busy = sorted(sample.seconds for sample in samples[-MANY:])
        found = summarise(busy[: len(busy) // 2 + 1], source="history")
        return replace(found, samples=len(busy), spikes=0, uncertainty=_BUSY)
    found = summarise(_since_change(trusted), source="history")
    return replace(found, uncertainty=_uncertainty(found))


def recent_slowdown(kinds: Iterable[Sequence[Sample]], since_s: float) -> float | None:
    """Return how much longer tasks take lately than usual: the median ratio over kinds of tasks in recent runs.

    Machines change speed by the hour without any load that can be seen. None if the last runs tell nothing else than
    the estimates do.
    """
    ratios: list[float] = []
    for samples in kinds:
        trusted = [sample for sample in samples if sample.quiet]
        recent = [sample.seconds for sample in trusted if sample.when_s >= since_s]
        usual = estimate(trusted).value if len(trusted) >= ENOUGH else 0.0
        if recent and usual > 0.0:
            ratios.append(_median(recent[-_LAST_RUNS:]) / usual)
    found = _median(ratios) if len(ratios) >= _KINDS else 1.0
    return found if abs(found - 1.0) > _DRIFT_SHARE else None


def at_recent_speed(quantity: Quantity, samples: Sequence[Sample], factor: float | None, since_s: float) -> Quantity:
    """Return an estimate at today's pace, unless most of its trusted samples are as recent."""
    trusted = [sample.when_s for sample in samples if sample.quiet]
    if factor is None or not trusted or _median(trusted) >= since_s:
        return quantity
    uncertainty = relative_uncertainty(quantity) + _DRIFT_SHARE
    return replace(quantity, value=quantity.value * factor, mad=quantity.mad * factor, uncertainty=uncertainty)


def _uncertainty(found: Quantity) -> float:
    least = relative_uncertainty(found)
    if found.samples == 1:
        return max(least, _SINGLE)
    # Samples that still vary after many measurements do so by nature.
    scattered = found.mad > _SCATTERED * found.value and found.samples < MANY
    return max(least, PROVISIONAL) if found.samples < ENOUGH or scattered else least


def _since_change(seconds: Sequence[float]) -> Sequence[float]:
    """Return the samples since the last lasting change of the duration; all, if there was none."""
    newest, older = seconds[-ENOUGH:], seconds[:-ENOUGH]
    if not older:
        return seconds
    before, now = _median(older), _median(newest)
    spread = 1.4826 * median_absolute_deviation(older)

    def is_new(sample: float) -> bool:
        return abs(sample - now) < abs(sample - before)

    if abs(now - before) <= max(_DRIFT_SHARE * before, _DRIFT_SIGMAS * spread) or not all(map(is_new, newest)):
        return seconds
    begin = len(older)
    while begin and is_new(seconds[begin - 1]):
        begin -= 1
    return seconds[begin:]


def _median(values: Sequence[float]) -> float:
    from statistics import median  # it imports exact fractions and decimals, and few processes have samples to compare

    return median(values)
