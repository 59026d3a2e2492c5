# SPDX-License-Identifier: Apache-2.0
"""What happened in a run under a dynamic policy: when tasks ran, what was decided, and what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from syclsched.scheduling.tables import NOTHING
from syclsched.scheduling.timetable import Timetable

#: Why a task was not done: what it reads was lost with a device; no device that can run it and get its data is left; it
#: comes after one that was not done; the policy did not start it, such as a plan that is followed come what may.
Reason = Literal["data", "device", "after", "policy"]


class Logged(NamedTuple):
    """A decision as it was carried out."""

    time_s: float  # when
    #: What went where.
    task: int
    processor: int
    start: bool  # whether to run, or into the queue
    source: int  # the lane in whose queue it was; `NOTHING` if in none


class Interrupted(NamedTuple):
    """A task that was stopped as a device failed."""

    #: What was stopped where.
    task: int
    processor: int
    #: When it had started (or was to start, if it still waited for data), and when it was stopped.
    start_s: float
    stopped_s: float


class Undone(NamedTuple):
    """A task that was not done."""

    task: int  # which
    reason: Reason  # ``data``, ``device``, ``after`` or ``policy``: see `Reason`


@dataclass(frozen=True, slots=True)
class DynamicRun:
    """What happened."""

    #: When each task ran, by the true times: valid for the true problem if no device failed. Of a task that was not
    #: done the processor is `NOTHING`, and the times are no numbers.
    timetable: Timetable
    log: tuple[Logged, ...]  # every decision, in order
    makespan_s: float  # when everything was done that was done: tasks, and copies of results to where they are wanted
    #: Tasks stopped by failures, in order; each started again, or is among those not done.
    interrupted: tuple[Interrupted, ...] = ()
    undone: tuple[Undone, ...] = ()  # tasks that were not done, in the problem's order
    #: Items that were lost with a device and would have been needed: by a task, or as a result where it is wanted.
    lost_items: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every task was done and every result is where it is wanted."""
        return not self.undone and not self.lost_items

    @property
    def stolen(self) -> int:
        """How many tasks were taken out of another lane's queue."""
        return sum(1 for entry in self.log if entry.source not in (NOTHING, entry.processor))
