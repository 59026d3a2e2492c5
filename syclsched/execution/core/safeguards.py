# SPDX-License-Identifier: Apache-2.0
"""Optional checks of a run, and limits of its time and of its use of devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

from syclsched.errors import ArgumentError
from syclsched.model.text.units import check_seconds


@dataclass(frozen=True, slots=True)
class Safeguards:
    """Checks of one run, and limits of its time and of its use of devices."""

    debug: bool = False  # execute one instruction at a time, and check each task for undeclared writes
    #: Execute one instruction at a time; the first task that writes a NaN or an infinity fails.
    nan_guard: bool = False
    #: Seconds after which the watchdog warns of a running task; by default a multiple of the task's prediction, and
    #: at least ten seconds. ``math.inf`` for never.
    watchdog_s: float | None = None
    deadline_s: float | None = None  # seconds that the whole run may take
    #: 0, or less for a run that waits while runs of higher priority have work on its devices.
    priority: int = 0
    #: Weight of the run beside others of its priority that have a share; without one it submits all work at once.
    share: float | None = None

    def __post_init__(self) -> None:
        if type(self.priority) is not int or self.priority > 0:
            raise ArgumentError(
                f"{self.priority!r} is no priority",
                where="priority",
                hint="Give 0, or less for a run that waits for others; to have a run go first, give the others less",
            )
        if self.share is not None and not (isinstance(self.share, (int, float)) and 0.0 < self.share < math.inf):
            raise ArgumentError(f"{self.share!r} is no share", where="share", hint="Give a positive number, or nothing")
        if self.takes_turns and self.stepped:
            raise ArgumentError("debug and nan_guard run step by step and take no turns", where="priority and share")
        for name in ("watchdog_s", "deadline_s"):
            check_seconds(getattr(self, name), name)

    @property
    def measurable(self) -> bool:
        """Whether the times of the run say how long its tasks take alone."""
        return not (self.stepped or self.takes_turns)

    @property
    def takes_turns(self) -> bool:
        """Whether instructions wait for the run's turn."""
        return self.priority < 0 or self.share is not None

    @property
    def stepped(self) -> bool:
        """Whether instructions are executed one at a time."""
        return self.debug or self.nan_guard

    def check_dynamic(self) -> None:
        """Refuse options that a run under a dynamic policy does not support."""
        if self.stepped:
            raise ArgumentError("debug and nan_guard run step by step and need a plan", where="dynamic")


#: Defaults: no checks, and only the watchdog's warnings.
DEFAULT_SAFEGUARDS = Safeguards()


class SafeguardOptions(TypedDict, total=False):
    """The fields of `Safeguards` as keyword arguments of a call."""

    debug: bool
    nan_guard: bool
    watchdog_s: float | None
    deadline_s: float | None
    priority: int
    share: float | None
