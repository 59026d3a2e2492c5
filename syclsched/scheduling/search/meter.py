# SPDX-License-Identifier: Apache-2.0
"""Budget meter of a search: spent share by steps, or by a clock that the caller provides.

This module reads no clock of its own: with a budget of steps a search is a function of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass(slots=True)
class Meter:
    """Budget in steps or in seconds; with both, steps count until the seconds are over."""

    steps: int | None  # maximum number of moves
    budget_s: float | None  # maximum seconds, by the clock
    clock: Clock | None = None  # returns seconds; needed with ``budget_s`` only
    done: int = field(default=0, init=False)  # moves made so far
    _begun_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.clock is not None:
            self._begun_s = self.clock()

    def count(self, steps: int) -> None:
        """Add steps to those made."""
        self.done += steps

    def left(self, steps: int) -> int:
        """Return ``steps``, or fewer if the budget ends before."""
        return steps if self.steps is None else min(steps, self.steps - self.done)

    def spent(self) -> float:
        """Return the spent share of the budget; 1 or more when it is exhausted."""
        share = 0.0
        if self.steps is not None:
            share = self.done / self.steps if self.steps > 0 else 1.0
        if self.budget_s is not None and self.clock is not None:
            passed_s = self.clock() - self._begun_s
            passed = passed_s / self.budget_s if self.budget_s > 0.0 else 1.0
            # As long as there is time, a search of so many steps is the same whatever the time.
            if self.steps is None or passed >= 1.0:
                share = max(share, passed)
        return share
