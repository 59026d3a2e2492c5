# SPDX-License-Identifier: Apache-2.0
"""What a run is watched for, as its caller chooses."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.model.units import check_seconds


@dataclass(frozen=True, slots=True)
class Safeguards:
    """How a run is watched over."""

    debug: bool = False  # do one instruction at a time, and check after each that it wrote nothing but what it declares
    #: Do one instruction at a time, and let the first task fail that writes a NaN or an infinity.
    nan_guard: bool = False
    #: Seconds after which a task that still runs is warned of; by default a multiple of its prediction, and at least
    #: ten seconds. ``math.inf`` for never.
    watchdog_s: float | None = None
    deadline_s: float | None = None  # seconds that the whole run may take

    def __post_init__(self) -> None:
        for name in ("watchdog_s", "deadline_s"):
            check_seconds(getattr(self, name), name)

    @property
    def stepped(self) -> bool:
        """Whether instructions are done one at a time."""
        return self.debug or self.nan_guard


#: Nothing is asked for: only the watchdog warns.
USUAL = Safeguards()
