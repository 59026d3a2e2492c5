# SPDX-License-Identifier: Apache-2.0
"""What a `Run` needs of whatever does its work: the dispatcher, or a replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from syclsched.errors import DeadlineError, SyclschedError
from syclsched.execution.buffers import Buffers
from syclsched.execution.clock import ClockMap
from syclsched.execution.failures import Failures
from syclsched.execution.program import Program
from syclsched.execution.records import Counts, Record
from syclsched.execution.stuck import Position
from syclsched.execution.waiting import Waitable
from syclsched.execution.work import Work


class Engine(Protocol):
    """Runs a plan, once."""

    when_finished: Callable[[], None] | None
    """Called on the engine's thread, last of all."""

    given_up: bool
    """Whether nobody waits for its end any more, because it hangs."""

    @property
    def program(self) -> Program:
        """What is done."""

    @property
    def buffers(self) -> Buffers:
        """Where values lie."""

    @property
    def counts(self) -> Counts:
        """What was counted so far."""

    @property
    def failures(self) -> Failures:
        """What failed so far."""

    @property
    def finished(self) -> Waitable:
        """Set when the run has ended, well or not."""

    @property
    def error(self) -> SyclschedError | None:
        """What the run itself failed of."""

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""

    @property
    def through(self) -> bool:
        """Whether everything was done: nothing was cancelled."""

    @property
    def lasting(self) -> bool:
        """Whether the buffers are the run's own, so that their memory may be given out."""

    @property
    def recording(self) -> bool:
        """Whether there will be a trace."""

    @property
    def records(self) -> Mapping[int, Record]:
        """What each instruction did, by number."""

    @property
    def clocks(self) -> Mapping[str, ClockMap]:
        """Maps of the device clocks, by lane name."""

    def start(self) -> None:
        """Begin."""

    def cancel(self) -> None:
        """Submit nothing more; what was submitted ends. Returns at once."""

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end."""

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction has been submitted or the run has ended; return False if the time was up first."""

    def event(self, number: int) -> Any:
        """Return the event of a submitted device instruction, None if it has completed without one."""

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted, completed or cancelled."""

    def statuses_behind(self, array: str) -> list[Work]:
        """Return the tasks with a status that an array's last value depends on, in the plan's order."""

    def any_failed(self) -> bool:
        """Return whether something has failed on its device after it was submitted, and is yet to be noted."""

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed, was cancelled, or had nothing to do."""

    def positions(self) -> list[Position]:
        """Return what the lanes that are not done are at; on any thread."""

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Let something that runs fail, because it is past its deadline, and cancel what depends on it.

        On any thread. What was submitted runs all the same; its results count as missing.
        """

    def what_is_left(self) -> str:
        """Return what lanes are at, and what that waits for, in words."""
