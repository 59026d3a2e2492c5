# SPDX-License-Identifier: Apache-2.0
"""How long tasks take against the estimates, learnt while they run: for each device, and for each kind of task on it.

A kind is what the estimates cannot tell apart: one kernel on one size of data. Of each kind the latest ratios of
measured to estimated time are kept; their median is what estimates are multiplied by once there are three, after ratios
farther from it than five times the MAD (scaled to a standard deviation) have been set aside. Until then, and for kinds
that have not run on a device yet, the device's own drift stands in: measured over estimated seconds of all its tasks,
newer ones counting more, and a prior that says the estimates are right. A measurement counts there as no more than ten
times what was expected, so that one spike does not turn a device into a slow one.

References
----------
.. [1] P. J. Rousseeuw, C. Croux, "Alternatives to the median absolute deviation", Journal of the American Statistical
   Association 88(424), 1993: the MAD's scale, 1.4826.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.tables import Floats, Ints

#: How fast measurements of a device are forgotten: what the last but one counts relative to the last.
MEMORY = 0.9
#: Measurements of a device count against this many mean tasks that took just as long as estimated.
PRIOR_TASKS = 4.0
#: Ratios kept of each kind on each device, and how many must be there to be believed.
KEPT, ENOUGH = 16, 3
#: A measurement of a device counts as no more than this many times what was expected.
MOST_RATIO = 10.0
#: Ratios farther from the median than this many standard deviations are spikes.
SPIKE = 5.0
_MAD_SCALE = 1.4826


class Drift(NamedTuple):
    """What was measured. Changed in place."""

    of_device: Floats  # what estimates on each device are to be multiplied by
    of_kind: Floats  # the same of each kind; 0 where too little is known
    ratios: Floats  # the latest measurements over estimates
    counts: Ints  # how many there have been
    #: Sums, newer tasks counting more.
    measured_s: Floats
    estimated_s: Floats
    totals: Floats  # seconds of the prior, and over all tasks the estimated seconds and the sum of deviations from them
    work: Floats  # to work in


def new_drift(seconds: Floats, kinds: int) -> Drift:
    """Return a drift in which nothing was measured yet."""
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
def note(drift: Drift, kind: int, device: int, measured_s: float, estimated_s: float) -> float:
    """Note how long a task took; return how far off estimates were so far, over their sum."""
    totals = drift.totals
    totals[1] += estimated_s
    totals[2] += abs(measured_s - estimated_s)
    counted_s = min(measured_s, MOST_RATIO * estimated_s * drift.of_device[device])
    drift.measured_s[device] = MEMORY * drift.measured_s[device] + counted_s
    drift.estimated_s[device] = MEMORY * drift.estimated_s[device] + estimated_s
    against_s = drift.estimated_s[device] + totals[0]
    if against_s > 0.0:
        drift.of_device[device] = (drift.measured_s[device] + totals[0]) / against_s
    if estimated_s > 0.0:
        count = drift.counts[kind, device]
        drift.ratios[kind, device, count % KEPT] = measured_s / estimated_s
        drift.counts[kind, device] = count + 1
        if count + 1 >= ENOUGH:
            drift.of_kind[kind, device] = _robust(drift, kind, device)
    if totals[1] > 0.0:
        return float(totals[2] / totals[1])
    return math.inf if totals[2] > 0.0 else 0.0


@lean
def _robust(drift: Drift, kind: int, device: int) -> float:
    """Return the median of a kind's ratios without spikes."""
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
    """Return the median of the first numbers, which are sorted."""
    for n in range(1, count):
        value, place = work[n], n
        while place > 0 and work[place - 1] > value:
            work[place] = work[place - 1]
            place -= 1
        work[place] = value
    half = count // 2
    return float(work[half] if count % 2 else 0.5 * (work[half - 1] + work[half]))
