# SPDX-License-Identifier: Apache-2.0
"""How long to sleep between two looks at something that nobody reports."""

from __future__ import annotations


def nap_s(waited_s: float, shortest_s: float, longest_s: float) -> float:
    """Return how long to sleep before the next look: a sixteenth of the time that was waited so far, within limits."""
    return min(longest_s, max(shortest_s, waited_s / 16))
