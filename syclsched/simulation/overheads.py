# SPDX-License-Identifier: Apache-2.0
"""Host overhead per instruction. No other module has these numbers."""

from __future__ import annotations

from typing import NamedTuple

from syclsched.model.platform import Platform

#: The engine's time per instruction, on top of the runtime's, if the profile has no ``dispatch_s``.
DISPATCH_S = 10e-6

#: From the end of device work to the start of a host function that waits for it, or back, without ``handoff_s``.
HANDOFF_S = 100e-6


class Overheads(NamedTuple):
    """Host overhead in seconds per instruction."""

    submission_s: float  # of the submitting thread, which submits device instructions one after another
    handoff_s: float  # between device work and a host function, if one waits for the other


def host_overheads(platform: Platform) -> Overheads:
    """Return the host overheads of a platform."""
    if not platform.submission_s:
        return Overheads(0.0, 0.0)
    dispatch_s, handoff_s = platform.dispatch_s, platform.handoff_s
    if dispatch_s is None:
        dispatch_s = platform.submission_s + DISPATCH_S
    return Overheads(dispatch_s, HANDOFF_S if handoff_s is None else handoff_s)
