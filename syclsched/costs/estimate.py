# SPDX-License-Identifier: Apache-2.0
"""Predicted seconds of a task, and of a sequence of tasks from those of its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.costs.rates import Rates
from syclsched.model.platform import Device
from syclsched.model.profile import Quantity

#: From the most to the least reliable. A sum has the origin of its least reliable term.
_ORIGINS = ("measured", "modelled", "spec-sheet", "stated", "scaled", "assumed")

#: Relative uncertainty by origin, of estimates without measurements of the task; stated times are taken as they are.
_UNCERTAINTY = {"modelled": 0.5, "spec-sheet": 1.0, "stated": 0.0, "scaled": 0.5, "assumed": 2.0}

#: Factor from the MAD of normally distributed samples to two standard errors of their median: 2 x 1.4826 x 1.2533.
_MAD_TO_ERROR = 3.716

#: Least relative uncertainty of a measurement (memory placement, clock frequencies), and the largest reported one.
_LEAST_UNCERTAINTY, _MOST_UNCERTAINTY = 0.02, 10.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted seconds of a task."""

    seconds: float  # without other tasks on the machine
    #: ``measured`` (history), ``modelled`` (roofline of a measured profile), ``spec-sheet`` (roofline of a published
    #: profile), ``stated`` (given with a cost-only task), ``scaled`` (given for a reference core) or ``assumed`` (the
    #: device has no profile).
    origin: str
    uncertainty: float = 0.0  # relative uncertainty of the seconds


def uncertainty_of(origin: str, *, busy: bool = False) -> float:
    """Return the relative uncertainty of an estimate that is no measurement; ``busy``: rates of a busy machine."""
    return _UNCERTAINTY[origin] * (2.0 if busy else 1.0)


def relative_uncertainty(quantity: Quantity) -> float:
    """Return the relative uncertainty of a measured number: as stated, else two standard errors of the median."""
    if quantity.uncertainty is not None:
        return quantity.uncertainty
    if not quantity.value:
        return _LEAST_UNCERTAINTY
    error = _MAD_TO_ERROR * quantity.mad / math.sqrt(max(quantity.samples, 1))
    return min(max(error / quantity.value, _LEAST_UNCERTAINTY), _MOST_UNCERTAINTY)


def sequence_estimate(steps: Sequence[Estimate], rates: Rates, device: Device) -> Estimate:
    """Return the estimate of a sequence of steps on one lane.

    On a device every step is a submission, and its time already includes the gap to the next kernel of the queue, so
    the times add up; but the last step cannot start before all are submitted. The host has no launches: of the launch
    times that the roofline adds to every function, only the first remains.
    """
    seconds = sum(e.seconds for e in steps)
    if device.is_host:
        seconds -= rates.launch_s * sum(1 for e in steps[1:] if e.origin != "measured")
    elif device.profile is not None:
        submission_s = device.profile.launch.submission_s.value
        seconds = max(seconds, (len(steps) - 1) * submission_s + steps[-1].seconds)
    uncertain_s = sum(e.seconds * e.uncertainty for e in steps)
    origin = max((e.origin for e in steps), key=_ORIGINS.index)
    return Estimate(seconds, origin, uncertain_s / seconds if seconds > 0.0 else 0.0)
