# SPDX-License-Identifier: Apache-2.0
"""Budget of a search: steps, or seconds of a clock that the caller provides, and a random seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from syclsched.errors import PolicyError
from syclsched.scheduling import Problem, Timetable
from syclsched.scheduling.objectives import (
    Aim,
    SearchResult,
    search,
)
from syclsched.scheduling.registry import AUTO
from syclsched.scheduling.search import default_steps, refine
from syclsched.scheduling.search.meter import Clock


def budget_end_s(budget_s: float | None, clock: Clock | None) -> float | None:
    """Return the clock time at which a budget ends; None if there is no budget."""
    if budget_s is None:
        return None
    if clock is None or not budget_s >= 0.0:
        raise PolicyError(
            f"a budget of {budget_s!r} s {'without a clock' if clock is None else 'is not zero or more'}",
            where=f"policy {AUTO!r}",
            hint="Pass time.perf_counter as clock, or give steps instead",
        )
    return clock() + budget_s


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """Limits of a search."""

    steps: int | None
    end_s: float | None
    clock: Clock | None
    seed: int

    def part(self, share: float) -> SearchBudget:
        """Return a budget that ends when this share of the remaining seconds is over; steps are not divided."""
        left_s = self.left_s()
        if left_s is None or self.clock is None:
            return self
        return replace(self, end_s=self.clock() + share * left_s)

    def reduced(self, tasks: int, share: float) -> SearchBudget:
        """Return a budget with this share of the default steps for a number of tasks, if no limit was given."""
        if self.steps is not None or self.end_s is not None:
            return self
        return replace(self, steps=max(1, int(share * default_steps(tasks))))

    def left_s(self) -> float | None:
        """Return the remaining seconds; None if there is no time limit."""
        if self.end_s is None or self.clock is None:
            return None
        return max(0.0, self.end_s - self.clock())

    def refine(self, problem: Problem, timetables: Sequence[Timetable]) -> Timetable:
        """Return a timetable that is at least as good as the best of those given."""
        budget_s = self.left_s()
        return refine(problem, timetables, budget_s=budget_s, steps=self.steps, seed=self.seed, clock=self.clock)

    def search(self, problem: Problem, aim: Aim, timetables: Sequence[Timetable]) -> SearchResult:
        """Return the best timetable found for an objective."""
        return search(
            problem, aim, timetables=timetables, budget_s=self.left_s(), steps=self.steps, seed=self.seed,
            clock=self.clock,
        )  # fmt: skip
