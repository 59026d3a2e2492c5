# SPDX-License-Identifier: Apache-2.0
"""Stall time-out for waits without a time limit. The caller passes the time; this module reads no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from syclsched.execution.core.progress import LaneProgress

#: A wait without a limit ends after this many seconds without progress, and this multiple of the predicted duration.
HANG_S, HANG_TIMES = 600.0, 30.0
#: Seconds between two checks for progress.
CHECK_INTERVAL_S: Final = 1.0


class StallTimeout:
    """Detects a stalled run from the progress of its lanes."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._seen: tuple[tuple[str, int, bool], ...] | None = None
        self._since_s = 0.0

    def stalled_s(self, positions: Iterable[LaneProgress], now_s: float) -> float | None:
        """Return the seconds without progress if they exceed the limit; else None."""
        current = list(positions)
        seen = tuple((p.lane, p.number, p.runs) for p in current)
        if seen != self._seen:
            self._seen, self._since_s = seen, now_s
        longest_s = max((p.predicted_s for p in current if p.runs), default=0.0)
        held_s = now_s - self._since_s
        return held_s if held_s >= max(self._least_s, HANG_TIMES * longest_s) else None
