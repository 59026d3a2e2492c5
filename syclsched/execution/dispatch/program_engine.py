# SPDX-License-Identifier: Apache-2.0
"""Base class of engines that execute a program on lanes: compiled work, buffers, lanes and failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from syclsched.devices.memory.constant_uploads import uploaded_bytes
from syclsched.devices.native.submission_library import load_library
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import Executable
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import DeadlineError, TaskFailedError
from syclsched.execution.core.clock import ClockMap
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.failures import FailureReason, Failures
from syclsched.execution.core.program import Program
from syclsched.execution.core.progress import ProgressReporting
from syclsched.execution.core.work import InstructionWork, compile_work
from syclsched.execution.dispatch.threaded_engine import ThreadedEngine
from syclsched.execution.lanes.lane_set import LaneSet
from syclsched.execution.lanes.lanes import Completion, by_index, device_names
from syclsched.execution.memory.buffers import BufferTable
from syclsched.execution.memory.statuses import statuses_behind
from syclsched.model.plan import Instruction


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

    def statuses_behind(self, array: str) -> list[InstructionWork]:
        """Return the tasks with a status value that an array's final value depends on, in the plan's order."""
        return statuses_behind(self.program, self._work, array)

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Mark a running task as failed because it is past its deadline, and cancel its dependents."""
        self._overdue[number] = error

    def _compile(self) -> None:
        """Compile all work not compiled yet, before the first submission."""
        if not self._executables:
            self._executables = compile_work(self.program, self._work, self._queues, self.buffers.uploads)
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
