# SPDX-License-Identifier: Apache-2.0
"""Optional checks and time limits of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from syclsched.model.text.units import check_seconds


@dataclass(frozen=True, slots=True)
class Safeguards:
    """Checks and time limits of one run."""

    debug: bool = False  # execute one instruction at a time, and check each task for undeclared writes
    #: Execute one instruction at a time; the first task that writes a NaN or an infinity fails.
    nan_guard: bool = False
    #: Seconds after which the watchdog warns of a running task; by default a multiple of the task's prediction, and
    #: at least ten seconds. ``math.inf`` for never.
    watchdog_s: float | None = None
    deadline_s: float | None = None  # seconds that the whole run may take

    def __post_init__(self) -> None:
        for name in ("watchdog_s", "deadline_s"):
            check_seconds(getattr(self, name), name)

    @property
    def stepped(self) -> bool:
        """Whether instructions are executed one at a time."""
        return self.debug or self.nan_guard


#: Defaults: no checks, and only the watchdog's warnings.
DEFAULT_SAFEGUARDS = Safeguards()


class SafeguardOptions(TypedDict, total=False):
    """The fields of `Safeguards` as keyword arguments of a call."""

    debug: bool
    nan_guard: bool
    watchdog_s: float | None
    deadline_s: float | None
