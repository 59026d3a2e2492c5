# SPDX-License-Identifier: Apache-2.0
"""Base classes of engines: their own thread, and the lanes, buffers and failures of a program."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from syclsched.devices.memory.constant_uploads import uploaded_bytes
from syclsched.devices.native.submission_library import load_library
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import Executable
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import DeadlineError, ExecutionError, SyclschedError, TaskFailedError
from syclsched.execution.core.clock import ClockMap
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.execution_records import Counts, Record
from syclsched.execution.core.failures import FailureReason, Failures
from syclsched.execution.core.program import Program
from syclsched.execution.core.progress import ProgressReporting
from syclsched.execution.core.thread_pool import THREADS, Lease
from syclsched.execution.core.waiting import wait_flag
from syclsched.execution.core.work import InstructionWork, compile_work
from syclsched.execution.lanes.lane_set import LaneSet
from syclsched.execution.lanes.lanes import Completion, by_index, device_names
from syclsched.execution.memory.buffers import BufferTable
from syclsched.execution.memory.statuses import statuses_behind
from syclsched.model.plan import Instruction
from syclsched.progress import Progress, reported


class ThreadedEngine(ABC):
    """Runs once, on its own thread."""

    #: Message prefix for errors that are no `SyclschedError`.
    failing: ClassVar[str]

    def __init__(self, name: str, place: str, *, record: bool) -> None:
        self.counts = Counts()
        self.finished = threading.Event()
        self.error: SyclschedError | None = None
        self.cancelled = False
        self.recording = record
        self.owns_buffers = True
        self.hung = False
        #: Called, on the thread, with the kernels that it compiles first; as for `syclsched.run`.
        self.progress: Progress | bool | None = False
        #: Called on the thread, as its last action.
        self.when_finished: Callable[[], None] | None = None
        self._name, self._place = name, place
        self._watched: dict[int, threading.Event] = {}
        self._thread: Lease | None = None

    # --- for other threads ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the engine's thread."""
        self._thread = THREADS.start(self._run, self._name)

    def cancel(self) -> None:
        """Stop submitting; submitted instructions still complete. Returns at once."""
        if not self.finished.is_set():
            self.cancelled = True
            self._be_cancelled()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the engine's thread to finish."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    @abstractmethod
    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted, completed or cancelled."""

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction has been submitted or cancelled, or the run has ended."""
        if self.passed(number) or self.finished.is_set():
            return True
        flag = self._watched.setdefault(number, threading.Event())
        self._be_watched()
        # Checked again: the thread may have submitted it between the first check and the registration.
        return self.passed(number) or self.finished.is_set() or wait_flag(flag, timeout_s)

    # --- for subclasses ---------------------------------------------------------------------------

    @abstractmethod
    def _go(self) -> None:
        """Execute everything; on the engine's thread."""

    @abstractmethod
    def _finish(self) -> None:
        """Wait for submitted instructions and read the outcomes, even if `_go` failed; on the engine's thread."""

    def _reporting(self) -> AbstractContextManager[Progress | None]:
        """Return a context in which compilation is reported."""
        return reported(f"compilation of {self._place}", self.progress)

    def _be_cancelled(self) -> None:  # noqa: B027 - an engine that polls needs no wake-up
        """Wake the engine's thread after a cancellation; on any other thread."""

    def _be_watched(self) -> None:  # noqa: B027 - as above
        """Make the engine's thread check for new waiters, if it does not after each submission; on any other thread."""

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._go()
        except SyclschedError as error:
            self.error = error
        except BaseException as error:
            self.error = self._broken(self.failing, error)
        finally:
            try:
                self._finish()
            except BaseException as error:
                self.error = self.error or self._broken("the run could not be ended", error)
            finally:
                self.finished.set()
                for flag in list(self._watched.values()):
                    flag.set()
                if self.when_finished is not None:
                    self.when_finished()
                    self.when_finished = None

    def _broken(self, prefix: str, error: BaseException) -> ExecutionError:
        wrapped = ExecutionError(f"{prefix}: {type(error).__name__}: {error}", where=self._place)
        wrapped.__cause__ = error
        return wrapped

    def _notify_waiters(self, number: int) -> None:
        """Wake the threads that wait for an instruction's submission."""
        if self._watched and (flag := self._watched.pop(number, None)) is not None:
            flag.set()


class ProgramEngine(ThreadedEngine, ProgressReporting):
    """Runs one program, once."""

    def __init__(
        self,
        program: Program,
        work: dict[int, InstructionWork],
        buffers: BufferTable,
        queues: dict[str, SyclQueue],
        *,
        record: bool,
        executables: Mapping[int, Executable] | None = None,
    ) -> None:
        super().__init__(f"syclsched {program.plan.name}", f"plan {program.plan.name!r}", record=record)
        self.program = program
        self.buffers = buffers
        self.failures = Failures(program.tasks)
        self.records: dict[int, Record] = {}
        self.clocks: dict[str, ClockMap] = {}
        self._work = work
        self._queues = queues
        self._executables: dict[int, Executable] = dict(executables or {})
        self._overdue: dict[int, DeadlineError] = {}
        self._lanes: LaneSet | None = None
        #: Queues by lane index.
        self._queue_of = by_index(program.plan, queues)
        devices = device_names(program.plan)
        self._events = EventTable(SubmissionLoop(load_library(), self._queue_of, program.slots, devices))

    @property
    def first_submission_ns(self) -> int | None:
        """Host's clock at the first submission that has a record; None before it."""
        try:
            return next((record.submit_ns for record in self.records.values()), None)
        except RuntimeError:  # a record was added at this moment
            return None

    def statuses_behind(self, array: str) -> list[InstructionWork]:
        """Return the tasks with a status value that an array's final value depends on, in the plan's order."""
        return statuses_behind(self.program, self._work, array)

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Mark a running task as failed because it is past its deadline, and cancel its dependents."""
        self._overdue[number] = error

    def _compile(self) -> None:
        """Compile all work not compiled yet, before the first submission."""
        if not self._executables:
            with self._reporting() as progress:
                self._executables = compile_work(self.program, self._work, self._queues, self.buffers.uploads, progress)
        self.counts.constant_bytes = uploaded_bytes(self._executables.values())

    def _make_lanes(self, report: Callable[[Completion], None], ending: Callable[[], bool]) -> LaneSet:
        """Make the lanes of the plan; see `LaneSet`."""
        plan = self.program.plan
        threads = plan.platform.host_threads
        return LaneSet(plan.lanes, self._queue_of, self.buffers, self._events, self.counts, report, ending, threads)

    def _failed(
        self, instruction: Instruction, error: TaskFailedError, reason: FailureReason, *, begun: bool = False
    ) -> None:
        self.failures.record(instruction, error, reason)
        self.failures.lost(instruction, begun=begun)
