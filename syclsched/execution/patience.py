# SPDX-License-Identifier: Apache-2.0
"""How long a run is waited for, without a limit, in which nothing goes on any more. Told the time; reads no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from syclsched.execution.stuck import Position

#: A wait without a limit ends when nothing has begun or ended for so long, and for so many times what it was to take.
HANG_S, HANG_TIMES = 600.0, 30.0
#: Between two looks.
LOOK_S: Final = 1.0


class Patience:
    """Whether a run still goes on, by looks at where its lanes are."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._seen: tuple[tuple[str, int, bool], ...] | None = None
        self._since_s = 0.0

    def held_s(self, positions: Iterable[Position], now_s: float) -> float | None:
        """Return for how long nothing has gone on, if that is too long; else None."""
        at = list(positions)
        seen = tuple((p.lane, p.number, p.runs) for p in at)
        if seen != self._seen:
            self._seen, self._since_s = seen, now_s
        longest_s = max((p.predicted_s for p in at if p.runs), default=0.0)
        held_s = now_s - self._since_s
        return held_s if held_s >= max(self._least_s, HANG_TIMES * longest_s) else None
