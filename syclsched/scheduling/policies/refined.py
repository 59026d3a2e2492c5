# SPDX-License-Identifier: Apache-2.0
"""Refinement as a policy: list schedules, then a search with a default number of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syclsched.scheduling.policies.heft import Cpop, Heft, Peft
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable

if TYPE_CHECKING:
    from syclsched.scheduling.search.meter import Clock


@dataclass(frozen=True, slots=True)
class Refined:
    """The better of HEFT, CPOP and PEFT, refined by `syclsched.scheduling.search.refine`."""

    name: str = "refine"  # name that users type
    steps: int | None = None  # maximum number of moves; by default from the number of tasks
    seed: int = 0  # of the random numbers
    budget_s: float | None = None  # most seconds by the clock
    clock: Clock | None = None
    max_tasks: int | None = 0  # in larger problems ``auto`` leaves the policy out, as it refines by itself

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        from syclsched.scheduling.search import refine  # listing the policies needs no search
        from syclsched.scheduling.search.refinement import search_steps

        starts = [policy.schedule(problem) for policy in (Heft(), Cpop(), Peft())]
        steps = search_steps(problem) if self.steps is None else self.steps
        return refine(problem, starts, budget_s=self.budget_s, steps=steps, seed=self.seed, clock=self.clock)
