# SPDX-License-Identifier: Apache-2.0
"""Schedules: for every task its device, lane, implementation, start and finish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from syclsched.model.profile import Count, Name, NonNegative, Text

_STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where and when one task runs.

    Parameters
    ----------
    task, device : str
        Names.
    lane : int
        Which of the device's lanes.
    implementation : str or None
        Which of the operation's implementations; None for a barrier.
    start_s, finish_s : float
        By the scheduler's model, from the start of the run.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    task: Name
    device: Name
    lane: Count
    implementation: Name | None
    start_s: NonNegative
    finish_s: NonNegative


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a policy produces.

    Parameters
    ----------
    policy : str
        Which policy made it.
    assignments : tuple of Assignment
        One per task, in an order that respects dependencies.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    policy: Text
    assignments: tuple[Assignment, ...]

    @property
    def makespan_s(self) -> float:
        """Finish of the last task, by the scheduler's model."""
        return max((a.finish_s for a in self.assignments), default=0.0)
