# SPDX-License-Identifier: Apache-2.0
"""Schedules: device, lane, implementation, start and finish of every task."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.model.profile import Count, Name, NonNegative, Text
from syclsched.model.text.json_serialisation import Serialisable
from syclsched.model.text.units import plural


class WeaklyReferable:
    """Base with ``__weakref__``: values derived from a plan or a schedule are kept as long as it lives."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True)
class Assignment(Serialisable):
    """Placement and times of one task.

    Parameters
    ----------
    task, device : str
        Names.
    lane : int
        Index of the device's lane.
    implementation : str or None
        Name of the operation's implementation; None for a barrier.
    start_s, finish_s : float
        Seconds from the start of the run, by the scheduler's model.
    """

    task: Name
    device: Name
    lane: Count
    implementation: Name | None
    start_s: NonNegative
    finish_s: NonNegative


@dataclass(frozen=True, slots=True)
class Schedule(Serialisable, WeaklyReferable):
    """Result of a scheduling policy.

    Parameters
    ----------
    policy : str
        The policy that made it.
    assignments : tuple of Assignment
        One per task, in an order that respects dependencies.
    """

    policy: Text
    assignments: tuple[Assignment, ...]

    def __repr__(self) -> str:
        return f"<Schedule of policy {self.policy!r}: {plural(len(self.assignments), 'task')}>"

    @property
    def makespan_s(self) -> float:
        """Finish time of the last task, by the scheduler's model."""
        return max((a.finish_s for a in self.assignments), default=0.0)
