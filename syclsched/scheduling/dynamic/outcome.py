# SPDX-License-Identifier: Apache-2.0
"""Result of a run under a dynamic policy: times of tasks, decisions, and losses by failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from syclsched.scheduling.tables import NOTHING
from syclsched.scheduling.timetable import Timetable

#: Why a task did not finish: an input was lost with a device; no device is left that can run it and get its data; a
#: predecessor did not finish; the policy did not start it (for example one that always follows its plan).
Reason = Literal["data", "device", "after", "policy"]


class LoggedDecision(NamedTuple):
    """A decision of the policy, as executed."""

    time_s: float  # time of the decision
    #: The task and its lane.
    task: int
    processor: int
    start: bool  # whether it was started; else put into the queue
    source: int  # the lane whose queue held it; `NOTHING` if none


class InterruptedTask(NamedTuple):
    """A task that was stopped by a device failure."""

    #: The task and its lane.
    task: int
    processor: int
    #: When it had started (or was to start, if it still waited for data), and when it was stopped.
    start_s: float
    stopped_s: float


class UnfinishedTask(NamedTuple):
    """A task that did not finish."""

    task: int  # index of the task
    reason: Reason  # ``data``, ``device``, ``after`` or ``policy``: see `Reason`


@dataclass(frozen=True, slots=True)
class DynamicRun:
    """Result of a run under a dynamic policy."""

    #: Times of each task by the true durations: valid for the true problem if no device failed. An unfinished task has
    #: the processor `NOTHING` and NaN times.
    timetable: Timetable
    log: tuple[LoggedDecision, ...]  # every decision, in order
    makespan_s: float  # end of the last task that finished, or of the last copy of a wanted result
    #: Tasks stopped by failures, in order; each was started again or is among the unfinished ones.
    interrupted: tuple[InterruptedTask, ...] = ()
    undone: tuple[UnfinishedTask, ...] = ()  # unfinished tasks, in the problem's order
    #: Items lost with a device that a task needed, or that were wanted as results.
    lost_items: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every task finished and every result is where it is wanted."""
        return not self.undone and not self.lost_items

    @property
    def stolen(self) -> int:
        """Number of tasks taken out of another lane's queue."""
        return sum(1 for entry in self.log if entry.source not in (NOTHING, entry.processor))
