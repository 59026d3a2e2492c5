# SPDX-License-Identifier: Apache-2.0
"""Predicted seconds of a task, and how those of a sequence follow from those of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.costs.rates import Rates
from syclsched.model.platform import Device

#: From the surest to the least sure; a sum is as sure as its least sure part.
_ORIGINS = ("measured", "modelled", "spec-sheet", "stated", "scaled", "assumed")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted seconds of a task."""

    seconds: float  # alone on the machine
    #: ``measured`` (history), ``modelled`` (roofline of a measured profile), ``spec-sheet`` (roofline of a published
    #: one), ``stated`` (given with a task that has costs instead of code), ``scaled`` (given for a reference core) or
    #: ``assumed`` (the device has no profile).
    origin: str
    spread_s: float | None = None  # median absolute deviation of what was measured; None if it was not


def sequence_estimate(steps: Sequence[Estimate], rates: Rates, device: Device) -> Estimate:
    """Return what a sequence of steps on one lane takes.

    On a device each step is still a submission of its own, and its time has the gap between two kernels of one queue
    in it already, so that the steps add up; but the last cannot start before all are submitted. What is saved is the
    engine's work per task, which is not part of a task's time. The host launches nothing: of the launches that the
    roofline adds to every function, only the first remains.
    """
    seconds = sum(e.seconds for e in steps)
    if device.is_host:
        seconds -= rates.launch_s * sum(1 for e in steps[1:] if e.origin != "measured")
    elif device.profile is not None:
        submission_s = device.profile.launch.submission_s.value
        seconds = max(seconds, (len(steps) - 1) * submission_s + steps[-1].seconds)
    return Estimate(seconds, max((e.origin for e in steps), key=_ORIGINS.index))
