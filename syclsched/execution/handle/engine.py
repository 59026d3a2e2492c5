# SPDX-License-Identifier: Apache-2.0
"""Interfaces of engines, which execute the plan of a `Run`, and of its recovery."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from syclsched.errors import DeadlineError, SyclschedError
from syclsched.execution.core.clock import ClockMap
from syclsched.execution.core.execution_records import Counts, Record
from syclsched.execution.core.failures import FailureReason, Failures
from syclsched.execution.core.program import Program
from syclsched.execution.core.progress import LaneCount, LaneProgress
from syclsched.execution.core.waiting import OneShotFlag
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.handle.trace_merging import EngineTrace
from syclsched.execution.memory.buffers import BufferLookup
from syclsched.model.access import RowRange
from syclsched.model.plan import Instruction
from syclsched.model.recovery import Recovery


class EndedEngine(Protocol):
    """Values and failures of an engine that has ended."""

    @property
    def program(self) -> Program:
        """The executed program."""

    @property
    def buffers(self) -> BufferLookup:
        """Buffers of the run."""

    @property
    def failures(self) -> Failures:
        """Failures so far."""

    @property
    def error(self) -> SyclschedError | None:
        """Error of the run itself, as opposed to one of its tasks."""

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled."""

    @property
    def owns_buffers(self) -> bool:
        """Whether the run owns its buffers, so that results may share their memory."""

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted, completed or cancelled."""


class Engine(EndedEngine, Protocol):
    """Executes a plan once."""

    when_finished: Callable[[], None] | None
    """Called on the engine's thread, as its last action."""

    hung: bool
    """Whether callers have stopped waiting for the engine because it hangs."""

    @property
    def counts(self) -> Counts:
        """Counters of the run so far."""

    @property
    def finished(self) -> OneShotFlag:
        """Set when the run has ended, with or without an error."""

    @property
    def completed(self) -> bool:
        """Whether every instruction was executed."""

    @property
    def recording(self) -> bool:
        """Whether the run is traced."""

    @property
    def records(self) -> Mapping[int, Record]:
        """Execution records by instruction number."""

    @property
    def clocks(self) -> Mapping[str, ClockMap]:
        """Device clock maps by lane name."""

    def start(self) -> None:
        """Start execution."""

    def cancel(self) -> None:
        """Stop submitting; submitted instructions still complete. Returns at once."""

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the run to end."""

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction has been submitted or the run has ended; return False on time-out."""

    def event(self, number: int) -> object:
        """Return the event of a submitted device instruction; None if it has completed without one."""

    def statuses_behind(self, array: str) -> list[InstructionWork]:
        """Return the tasks with a status value that an array's final value depends on, in the plan's order."""

    def any_failed(self) -> bool:
        """Return whether a submitted instruction has failed and the failure is not recorded yet."""

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed, was cancelled, or was empty."""

    def positions(self) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes; callable on any thread."""

    def lane_counts(self) -> list[LaneCount]:
        """Return the number of completed tasks of each lane; callable on any thread."""

    @property
    def first_submission_ns(self) -> int | None:
        """Host's clock at the first submission; None before it, or if the engine submits as soon as it starts."""

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Mark a running task as failed because it is past its deadline, and cancel its dependents.

        Callable on any thread. Submitted instructions still execute, but their results count as missing.
        """

    def what_is_left(self) -> str:
        """Describe in words the current instruction of each unfinished lane."""


class RunRecovery(Protocol):
    """Recovery of one run: makes an engine for the remaining tasks after a failure."""

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """The recoveries so far."""

    @property
    def deadlines_s(self) -> Mapping[int, float]:
        """Deadlines of the remaining tasks, by instruction number in the latest engine."""

    @property
    def error(self) -> SyclschedError | None:
        """The first error that cannot be recovered from."""

    def halts(self, instruction: Instruction, reason: FailureReason) -> bool:
        """Return whether a failure will be recovered from: the engine then stops submitting other tasks."""

    def successor(self, engine: Engine) -> Engine | None:
        """Return an engine for the remaining tasks after one has ended; None if nothing is to be recovered."""

    def check_not_lost(self, array: str, rows: RowRange | None) -> None:
        """Raise the first cause if an array, or one of the given rows, will never have a value."""


class EngineRecorder(Protocol):
    """A store for the records of finished engines."""

    def add(
        self,
        engine: Engine,
        generation: int = 0,
        before: tuple[EngineTrace, ...] = (),
        recoveries: tuple[Recovery, ...] = (),
    ) -> None:
        """Keep the records of a run's last engine, and the traces of the engines before its recoveries."""
