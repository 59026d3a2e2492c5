# SPDX-License-Identifier: Apache-2.0
"""Budget of a search: steps, or seconds of a clock that the caller provides, and a random seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from syclsched.errors import PolicyError
from syclsched.scheduling import Problem, Timetable
from syclsched.scheduling.objectives import (
    Aim,
    SearchResult,
    search,
)
from syclsched.scheduling.policies.refined import Refined
from syclsched.scheduling.registry import AUTO
from syclsched.scheduling.search import default_steps, refine
from syclsched.scheduling.search.meter import Clock
from syclsched.scheduling.search.refinement import search_steps


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


class SearchOptions(TypedDict, total=False):
    """Options of the search of ``auto``, but for a number of steps."""

    budget_s: float | None
    clock: Clock | None  # needed with a budget
    seed: int


def budget_of(
    steps: int | None, budget_s: float | None = None, clock: Clock | None = None, seed: int = 0
) -> SearchBudget:
    """Return the budget of these options."""
    return SearchBudget(steps, budget_end_s(budget_s, clock), clock, seed)


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """Limits of a search."""

    steps: int | None
    end_s: float | None
    clock: Clock | None
    seed: int
    share: float = 1.0  # of the usual steps, where no limit is given

    def part(self, share: float) -> SearchBudget:
        """Return a budget that ends when this share of the remaining seconds is over; steps are not divided."""
        left_s = self.left_s()
        if left_s is None or self.clock is None:
            return self
        return replace(self, end_s=self.clock() + share * left_s)

    def reduced(self, share: float) -> SearchBudget:
        """Return a budget with this share of the usual steps, if no limit was given."""
        return replace(self, share=share)

    def steps_of(self, usual: int) -> int | None:
        """Return the limit of steps of a search, where ``usual`` is their number without a limit."""
        if self.steps is not None or self.end_s is not None:
            return self.steps
        return max(1, int(self.share * usual))

    def left_s(self) -> float | None:
        """Return the remaining seconds; None if there is no time limit."""
        if self.end_s is None or self.clock is None:
            return None
        return max(0.0, self.end_s - self.clock())

    def refine(self, problem: Problem, timetables: Sequence[Timetable]) -> Timetable:
        """Return a timetable that is at least as good as the best of those given."""
        budget_s, steps = self.left_s(), self.steps_of(search_steps(problem))
        return refine(problem, timetables, budget_s=budget_s, steps=steps, seed=self.seed, clock=self.clock)

    def refine_by_policy(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy `refine`, which has its own steps; its best one when the seconds end."""
        steps = max(1, int(self.share * search_steps(problem)))
        return Refined(steps=steps, budget_s=self.left_s(), clock=self.clock).schedule(problem)

    def search(self, problem: Problem, aim: Aim, timetables: Sequence[Timetable]) -> SearchResult:
        """Return the best timetable found for an objective."""
        steps = self.steps if self.share == 1.0 else self.steps_of(default_steps(len(problem)))
        return search(
            problem, aim, timetables=timetables, budget_s=self.left_s(), steps=steps, seed=self.seed, clock=self.clock
        )
