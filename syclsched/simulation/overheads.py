# SPDX-License-Identifier: Apache-2.0
"""What the host adds to every instruction: the one place that knows these numbers."""

from __future__ import annotations

from typing import NamedTuple

from syclsched.model.platform import Platform

#: The engine's own work per instruction, besides the runtime's; where the profile has no `dispatch_s`.
DISPATCH_S = 10e-6

#: From the end of work on a device to the host function that waits for it, or back; where it has no `handoff_s`.
HANDOFF_S = 100e-6


class Overheads(NamedTuple):
    """Seconds of the host for each instruction."""

    #: The submitting thread's time for one instruction on a device; submissions go one after another.
    submission_s: float
    handoff_s: float  # between work on a device and a host function, one of which waits for the other


def host_overheads(platform: Platform) -> Overheads:
    """Return what the host adds on a platform."""
    if not platform.submission_s:
        return Overheads(0.0, 0.0)
    dispatch_s, handoff_s = platform.dispatch_s, platform.handoff_s
    if dispatch_s is None:
        dispatch_s = platform.submission_s + DISPATCH_S
    return Overheads(dispatch_s, HANDOFF_S if handoff_s is None else handoff_s)
