# SPDX-License-Identifier: Apache-2.0
"""Correction of duration estimates by measurements during a run, per device and per kind of task on it.

A kind is a set of tasks with equal estimates: one kernel on one data size. For each kind the latest ratios of measured
to estimated time are kept. From three ratios on, estimates are multiplied by their median, after outliers are removed:
ratios farther from the median than five times the MAD (scaled to a standard deviation). Before that, and for kinds that
have not run on a device, the drift of the device is used: measured over estimated seconds of all its tasks, newer tasks
weighted more, with a prior of exact estimates. A measurement counts there at most ten times its expectation, so that
one spike does not turn a device into a slow one. Tasks without an estimate, such as barriers and messages, do not
count.

References
----------
.. [1] P. J. Rousseeuw, C. Croux, "Alternatives to the median absolute deviation", Journal of the American Statistical
   Association 88(424), 1993: the MAD's scale, 1.4826.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.tables import Floats, Ints

#: Decay of a device's measurements: weight of one measurement relative to the next.
MEMORY = 0.9
#: The prior of a device has the weight of this many mean tasks that took exactly their estimates.
PRIOR_TASKS = 4.0
#: Number of ratios kept for each kind on each device, and number needed before they are used.
KEPT, ENOUGH = 16, 3
#: A measurement of a device counts at most as this multiple of its expectation.
MOST_RATIO = 10.0
#: Ratios farther from the median than this many standard deviations are outliers.
SPIKE = 5.0
_MAD_SCALE = 1.4826


class Drift(NamedTuple):
    """Measurements and correction factors; changed in place."""

    of_device: Floats  # factor for estimates on each device
    of_kind: Floats  # factor for each kind on each device; 0 with too few measurements
    ratios: Floats  # the latest ratios of measured to estimated time
    counts: Ints  # number of ratios so far
    #: Weighted sums, newer tasks counting more.
    measured_s: Floats
    estimated_s: Floats
    totals: Floats  # seconds of the prior; over all tasks, sum of estimates and sum of absolute deviations
    work: Floats  # scratch


def new_drift(seconds: Floats, kinds: int) -> Drift:
    """Return a drift without measurements."""
    devices = seconds.shape[1]
    finite = seconds[np.isfinite(seconds)]
    prior_s = PRIOR_TASKS * float(finite.mean()) if len(finite) else 0.0
    return Drift(
        np.ones(devices),
        np.zeros((kinds, devices)),
        np.zeros((kinds, devices, KEPT)),
        np.zeros((kinds, devices), np.int64),
        np.zeros(devices),
        np.zeros(devices),
        np.array([prior_s, 0.0, 0.0]),
        np.zeros(KEPT),
    )


@lean
def record_duration(drift: Drift, kind: int, device: int, measured_s: float, estimated_s: float) -> float:
    """Record the duration of a task; return the sum of all deviations so far over the sum of estimates."""
    totals = drift.totals
    if estimated_s > 0.0:
        totals[1] += estimated_s
        totals[2] += abs(measured_s - estimated_s)
        counted_s = min(measured_s, MOST_RATIO * estimated_s * drift.of_device[device])
        drift.measured_s[device] = MEMORY * drift.measured_s[device] + counted_s
        drift.estimated_s[device] = MEMORY * drift.estimated_s[device] + estimated_s
        drift.of_device[device] = (drift.measured_s[device] + totals[0]) / (drift.estimated_s[device] + totals[0])
        count = drift.counts[kind, device]
        drift.ratios[kind, device, count % KEPT] = measured_s / estimated_s
        drift.counts[kind, device] = count + 1
        if count + 1 >= ENOUGH:
            drift.of_kind[kind, device] = _robust(drift, kind, device)
    return float(totals[2] / totals[1]) if totals[1] > 0.0 else 0.0


@lean
def _robust(drift: Drift, kind: int, device: int) -> float:
    """Return the median of a kind's ratios without outliers."""
    count = min(drift.counts[kind, device], KEPT)
    ratios, work = drift.ratios[kind, device], drift.work
    for n in range(count):
        work[n] = ratios[n]
    middle = _median(work, count)
    for n in range(count):
        work[n] = abs(ratios[n] - middle)
    spread = _MAD_SCALE * _median(work, count)
    if spread == 0.0:
        return middle
    kept = 0
    for n in range(count):
        if abs(ratios[n] - middle) <= SPIKE * spread:
            work[kept] = ratios[n]
            kept += 1
    return _median(work, kept)


@lean
def _median(work: Floats, count: int) -> float:
    """Return the median of the first ``count`` numbers; sorts them in place."""
    for n in range(1, count):
        value, place = work[n], n
        while place > 0 and work[place - 1] > value:
            work[place] = work[place - 1]
            place -= 1
        work[place] = value
    half = count // 2
    return float(work[half] if count % 2 else 0.5 * (work[half - 1] + work[half]))
