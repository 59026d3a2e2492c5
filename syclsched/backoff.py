# SPDX-License-Identifier: Apache-2.0
"""Back-off of polling loops. Pure."""

from __future__ import annotations


def backoff(waited: float, shortest: float, longest: float, share: float = 1 / 16) -> float:
    """Return the time to sleep before the next poll: a share of the time waited so far, within limits.

    All times are in one unit. A share of 1 doubles the sleep each time; use it where polling itself takes time that
    others need. Compiled loops (`@lean`) compile this function, too.
    """
    return min(longest, max(shortest, share * waited))
