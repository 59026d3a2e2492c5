# SPDX-License-Identifier: Apache-2.0
"""Back-off of polling loops. Pure."""

from __future__ import annotations


def backoff_s(waited_s: float, shortest_s: float, longest_s: float) -> float:
    """Return the seconds to sleep before the next poll: 1/16 of the time waited so far, within limits."""
    return min(longest_s, max(shortest_s, waited_s / 16))
