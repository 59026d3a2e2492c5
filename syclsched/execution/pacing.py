# SPDX-License-Identifier: Apache-2.0
"""How far submission may run ahead of a device, so that a cancelled run ends soon. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

#: A lane is given this much predicted work ahead, but never fewer nor more instructions than these.
AHEAD_S = 0.25
FEWEST_AHEAD, MOST_AHEAD = 16, 1000


class Pacing:
    """What one lane has before it."""

    def __init__(self, is_complete: Callable[[int], bool]) -> None:
        self._is_complete = is_complete
        self._ahead: deque[tuple[int, float]] = deque()
        self._ahead_s = 0.0

    def add(self, number: int, duration_s: float) -> None:
        """Note that an instruction was submitted."""
        self._ahead.append((number, duration_s))
        self._ahead_s += duration_s

    def has_room(self) -> bool:
        """Return whether another instruction may be submitted now."""
        if self._within():
            return True
        while self._ahead and self._is_complete(self._ahead[0][0]):
            self._ahead_s -= self._ahead.popleft()[1]
        return self._within()

    def half_way(self) -> int:
        """Return the instruction after which half of what is ahead remains: time to go on, the lane not run dry."""
        return self._ahead[len(self._ahead) // 2][0]

    def _within(self) -> bool:
        count = len(self._ahead)
        return count < FEWEST_AHEAD or (count < MOST_AHEAD and self._ahead_s < AHEAD_S)
