# SPDX-License-Identifier: Apache-2.0
"""Refinement as a policy: list schedules, then the search for so many steps as are worth while."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.policies.cpop import Cpop
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.policies.peft import Peft
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.refine import refine
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Refined:
    """The better of HEFT, CPOP and PEFT, refined by `syclsched.scheduling.refine.refine`."""

    name: str = "refine"  # what users type
    steps: int | None = None  # moves that the search may try; by the number of tasks if not given
    seed: int = 0  # of its random numbers
    max_tasks: int | None = 0  # larger problems are left to other policies by ``auto``, which refines by itself

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        starts = [policy.schedule(problem) for policy in (Heft(), Cpop(), Peft())]
        return refine(problem, starts, steps=self.steps, seed=self.seed)
