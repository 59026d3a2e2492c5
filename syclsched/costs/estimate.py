# SPDX-License-Identifier: Apache-2.0
"""Predicted seconds of a task, and of a sequence of tasks from those of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.costs.rates import Rates
from syclsched.model.platform import Device

#: From the most to the least reliable. A sum has the origin of its least reliable term.
_ORIGINS = ("measured", "modelled", "spec-sheet", "stated", "scaled", "assumed")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted seconds of a task."""

    seconds: float  # without other tasks on the machine
    #: ``measured`` (history), ``modelled`` (roofline of a measured profile), ``spec-sheet`` (roofline of a published
    #: profile), ``stated`` (given with a cost-only task), ``scaled`` (given for a reference core) or ``assumed`` (the
    #: device has no profile).
    origin: str
    spread_s: float | None = None  # median absolute deviation of the measurements; None without measurements


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
    return Estimate(seconds, max((e.origin for e in steps), key=_ORIGINS.index))
