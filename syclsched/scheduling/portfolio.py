# SPDX-License-Identifier: Apache-2.0
"""All policies on one problem: their timetables, checked and ranked by the scheduler's model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from syclsched.errors import CapabilityError, PlanError, PolicyError, SyclschedError
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.registry import get
from syclsched.scheduling.timetable import Timetable
from syclsched.scheduling.validate import validate

#: Relative difference of makespans that is no difference.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One policy's answer.

    Parameters
    ----------
    policy : str
        Whose.
    suffix : str
        Which part of the platform it was given, in brackets; empty for the whole.
    problem : Problem
        What it was asked.
    timetable : Timetable
        What it answered; valid.
    makespan_s : float
        By the scheduler's model, wanted results included.
    """

    policy: str
    suffix: str
    problem: Problem
    timetable: Timetable
    makespan_s: float

    @property
    def label(self) -> str:
        """What to call it."""
        return self.policy + self.suffix

    def same_as(self, other: Entry) -> bool:
        """Whether both put the same tasks at the same times on the same devices."""
        return (
            abs(self.makespan_s - other.makespan_s) <= ROUNDING * self.makespan_s
            and self._places() == other._places()
            and self.timetable.start_s.tobytes() == other.timetable.start_s.tobytes()
        )

    def devices(self) -> frozenset[str]:
        """Return the devices that are given anything to do."""
        used = set(self.problem.tables.processor_device[self.timetable.processor].tolist())
        return frozenset(self.problem.devices[device] for device in used)

    def _places(self) -> list[tuple[str, int]]:
        places = [(self.problem.devices[device], lane) for device, lane in self.problem.processors]
        return [places[p] for p in self.timetable.processor.tolist()]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A policy that has no answer.

    Parameters
    ----------
    policy, suffix : str
        As in `Entry`.
    error : SyclschedError
        Why.
    """

    policy: str
    suffix: str
    error: SyclschedError

    @property
    def label(self) -> str:
        """What to call it."""
        return self.policy + self.suffix


def ask(problem: Problem, policy: str, suffix: str = "") -> Entry:
    """Return a policy's answer, checked by the independent validator.

    Parameters
    ----------
    problem : Problem
        What is to be scheduled.
    policy : str
        A registered name.
    suffix : str, optional
        As in `Entry`.

    Returns
    -------
    Entry
        The answer.

    Raises
    ------
    PolicyError, CapabilityError
        As the policy does; or if there is none of that name.
    PlanError
        If its timetable is wrong.
    """
    timetable = get(policy).schedule(problem)
    validate(problem, timetable, policy=policy)
    return Entry(policy, suffix, problem, timetable, makespan_s(problem, timetable))


def ask_all(problem: Problem, policies: Iterable[str], suffix: str = "") -> tuple[list[Entry], list[Refusal]]:
    """Return the answers of several policies, and the refusals of those that have none.

    Parameters
    ----------
    problem : Problem
        What is to be scheduled.
    policies : iterable of str
        Registered names.
    suffix : str, optional
        As in `Entry`.

    Returns
    -------
    (list of Entry, list of Refusal)
        In the order of the policies.
    """
    entries: list[Entry] = []
    refusals: list[Refusal] = []
    for policy in policies:
        try:
            entries.append(ask(problem, policy, suffix))
        except (CapabilityError, PlanError, PolicyError) as error:
            refusals.append(Refusal(policy, suffix, error))
    return entries, refusals


def distinct(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries by rising makespan, each timetable once, under the label that came first.

    Parameters
    ----------
    entries : sequence of Entry
        Of one or several problems.

    Returns
    -------
    list of Entry
        Equal makespans in the order given.
    """
    found: list[Entry] = []
    for entry in sorted(entries, key=lambda e: e.makespan_s):
        if not any(entry.same_as(other) for other in reversed(found)):
            found.append(entry)
    return found
