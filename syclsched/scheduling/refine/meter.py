# SPDX-License-Identifier: Apache-2.0
"""How much of a search's budget is spent: counted in steps, or read from a clock that the caller brings.

This room reads no clock of its own: with a budget of steps a search is a function of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass(slots=True)
class Meter:
    """A budget and what is spent of it; whichever of the two budgets ends first counts."""

    steps: int | None  # moves that may be tried
    budget_s: float | None  # seconds that may pass, by the clock
    clock: Clock | None = None  # returns seconds; needed for the seconds only
    done: int = field(default=0, init=False)  # moves that were tried
    _begun_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.clock is not None:
            self._begun_s = self.clock()

    def count(self, steps: int) -> None:
        """Note that steps were made."""
        self.done += steps

    def left(self, steps: int) -> int:
        """Return as many steps as asked for, or fewer if the budget has no more."""
        return steps if self.steps is None else min(steps, self.steps - self.done)

    def spent(self) -> float:
        """Return the share of the budget that is spent; 1 or more when it is over."""
        share = 0.0
        if self.steps is not None:
            share = self.done / self.steps if self.steps > 0 else 1.0
        if self.budget_s is not None and self.clock is not None:
            passed_s = self.clock() - self._begun_s
            share = max(share, passed_s / self.budget_s if self.budget_s > 0.0 else 1.0)
        return share
