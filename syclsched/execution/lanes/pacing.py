# SPDX-License-Identifier: Apache-2.0
"""Submission pacing: a limit on the work queued ahead of a lane, so that a cancelled run ends soon. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

#: Seconds of predicted work queued per lane, and bounds on the number of queued instructions.
AHEAD_S = 0.25
FEWEST_AHEAD, MOST_AHEAD = 16, 1000


@dataclass(frozen=True, slots=True)
class Ahead:
    """Limits of the work queued ahead of a lane: predicted seconds, but always ``fewest`` instructions."""

    seconds: float = AHEAD_S
    fewest: int = FEWEST_AHEAD


class Pacing:
    """The submitted, incomplete instructions of one lane."""

    def __init__(self, is_complete: Callable[[int], bool]) -> None:
        self._is_complete = is_complete
        #: Limits of the work ahead; they may be changed at any time.
        self.limits = Ahead()
        self._ahead: deque[tuple[int, float]] = deque()
        self._ahead_s = 0.0

    def add(self, number: int, duration_s: float) -> None:
        """Note that an instruction was submitted."""
        self._ahead.append((number, duration_s))
        self._ahead_s += duration_s

    def may_submit(self) -> bool:
        """Return whether another instruction may be submitted now."""
        if self._below_limit():
            return True
        while self._ahead and self._is_complete(self._ahead[0][0]):
            self._ahead_s -= self._ahead.popleft()[1]
        return self._below_limit()

    def has_work(self) -> bool:
        """Return whether an instruction is incomplete; usable from any thread."""
        try:
            return not self._is_complete(self._ahead[-1][0])
        except IndexError:
            return False

    def midpoint(self) -> int:
        """Return the middle queued instruction: submission resumes when it completes, before the lane runs empty."""
        return self._ahead[(len(self._ahead) - 1) // 2][0]

    def _below_limit(self) -> bool:
        count = len(self._ahead)
        return count < self.limits.fewest or (count < MOST_AHEAD and self._ahead_s < self.limits.seconds)
