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
    """A decision as it was carried out.

    Parameters
    ----------
    time_s : float
        When.
    task, processor : int
        What went where.
    start : bool
        Whether to run, or into the queue.
    source : int
        The lane in whose queue it was; `NOTHING` if in none.
    """

    time_s: float
    task: int
    processor: int
    start: bool
    source: int


class Interrupted(NamedTuple):
    """A task that was stopped as a device failed.

    Parameters
    ----------
    task, processor : int
        What was stopped where.
    start_s, stopped_s : float
        When it had started (or was to start, if it still waited for data), and when it was stopped.
    """

    task: int
    processor: int
    start_s: float
    stopped_s: float


class Undone(NamedTuple):
    """A task that was not done.

    Parameters
    ----------
    task : int
        Which.
    reason : str
        ``data``, ``device``, ``after`` or ``policy``: see `Reason`.
    """

    task: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class DynamicRun:
    """What happened.

    Parameters
    ----------
    timetable : Timetable
        When each task ran, by the true times: valid for the true problem if no device failed. Of a task that was not
        done the processor is `NOTHING`, and the times are no numbers.
    log : tuple of Logged
        Every decision, in order.
    makespan_s : float
        When everything was done that was done: tasks, and copies of results to where they are wanted.
    interrupted : tuple of Interrupted, optional
        Tasks stopped by failures, in order; each started again, or is among those not done.
    undone : tuple of Undone, optional
        Tasks that were not done, in the problem's order.
    lost_items : tuple of int, optional
        Items that were lost with a device and would have been needed: by a task, or as a result where it is wanted.
    """

    timetable: Timetable
    log: tuple[Logged, ...]
    makespan_s: float
    interrupted: tuple[Interrupted, ...] = ()
    undone: tuple[Undone, ...] = ()
    lost_items: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every task was done and every result is where it is wanted."""
        return not self.undone and not self.lost_items

    @property
    def stolen(self) -> int:
        """How many tasks were taken out of another lane's queue."""
        return sum(1 for entry in self.log if entry.source not in (NOTHING, entry.processor))
