# SPDX-License-Identifier: Apache-2.0
"""Policy portfolio: the timetables of several policies for one problem, validated and ranked by makespan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from syclsched.errors import CapabilityError, PlanError, PolicyError, SyclschedError
from syclsched.progress import StepCounter
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.registry import get
from syclsched.scheduling.timetable import Timetable
from syclsched.scheduling.validate import validate

#: Makespans that differ relatively by less are equal.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class PolicyResult:
    """Timetable of one policy for a problem."""

    policy: str  # name of the policy
    suffix: str  # the devices that the policy was restricted to, in brackets; empty for all
    problem: Problem  # the problem it was given
    timetable: Timetable  # its valid timetable
    makespan_s: float  # by the scheduler's model, wanted results included

    @property
    def label(self) -> str:
        """Name to show for it."""
        return self.policy + self.suffix

    def equals_schedule(self, other: PolicyResult) -> bool:
        """Whether both schedule the same tasks at the same times on the same devices."""
        return (
            abs(self.makespan_s - other.makespan_s) <= ROUNDING * self.makespan_s
            and self._places() == other._places()
            and self.timetable.start_s.tobytes() == other.timetable.start_s.tobytes()
        )

    def timetable_for(self, problem: Problem) -> Timetable | None:
        """Return the timetable for the same problem on other devices; None if they do not have all that it uses."""
        if problem is self.problem:
            return self.timetable
        number = {(problem.devices[device], lane): n for n, (device, lane) in enumerate(problem.processors)}
        places = self._places()
        if not number.keys() >= set(places):
            return None
        return replace(self.timetable, processor=np.array([number[place] for place in places], np.int64))

    def devices(self) -> frozenset[str]:
        """Return the devices that have at least one task."""
        used = set(self.problem.tables.processor_device[self.timetable.processor].tolist())
        return frozenset(self.problem.devices[device] for device in used)

    def _places(self) -> list[tuple[str, int]]:
        places = [(self.problem.devices[device], lane) for device, lane in self.problem.processors]
        return [places[p] for p in self.timetable.processor.tolist()]


@dataclass(frozen=True, slots=True)
class PolicyRefusal:
    """Error of a policy that cannot schedule a problem."""

    #: As in `PolicyResult`.
    policy: str
    suffix: str
    error: SyclschedError  # the reason

    @property
    def label(self) -> str:
        """Name to show for it."""
        return self.policy + self.suffix


def run_policy(problem: Problem, policy: str, suffix: str = "") -> PolicyResult:
    """Return the timetable of a policy, checked by the independent validator."""
    timetable = get(policy).schedule(problem)
    validate(problem, timetable, policy=policy)
    return PolicyResult(policy, suffix, problem, timetable, makespan_s(problem, timetable))


def run_policies(
    problem: Problem, policies: Iterable[str], suffix: str = "", steps: StepCounter | None = None
) -> tuple[list[PolicyResult], list[PolicyRefusal]]:
    """Return the timetables of several policies, and the errors of the policies that have none."""
    entries: list[PolicyResult] = []
    refusals: list[PolicyRefusal] = []
    for policy in policies:
        if steps is not None:
            steps.begin(f"policy {policy}{suffix}")
        try:
            entries.append(run_policy(problem, policy, suffix))
        except (CapabilityError, PlanError, PolicyError) as error:
            refusals.append(PolicyRefusal(policy, suffix, error))
    return entries, refusals


def distinct(entries: Sequence[PolicyResult]) -> list[PolicyResult]:
    """Return entries by rising makespan, each timetable once, under its first label."""
    found: list[PolicyResult] = []
    for entry in sorted(entries, key=lambda e: e.makespan_s):
        if not any(entry.equals_schedule(other) for other in reversed(found)):
            found.append(entry)
    return found
