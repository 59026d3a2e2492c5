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
    """The better of HEFT, CPOP and PEFT, refined by `syclsched.scheduling.refine.refine`.

    Parameters
    ----------
    name : str
        What users type.
    steps : int or None
        Moves that the search may try; by the number of tasks if not given.
    seed : int
        Of its random numbers.
    max_tasks : int or None
        Larger problems are left to other policies by ``auto``, which refines by itself.
    """

    name: str = "refine"
    steps: int | None = None
    seed: int = 0
    max_tasks: int | None = 0

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule.

        Parameters
        ----------
        problem : Problem
            What is to be scheduled.

        Returns
        -------
        Timetable
            Never worse than those of the three.

        Raises
        ------
        PolicyError
            If the data of a task cannot be brought to any device that can run it.
        """
        starts = [policy.schedule(problem) for policy in (Heft(), Cpop(), Peft())]
        return refine(problem, starts, steps=self.steps, seed=self.seed)
