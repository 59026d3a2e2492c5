# SPDX-License-Identifier: Apache-2.0
"""Debug engine: executes one instruction at a time and inspects each task, for ``debug`` and ``nan_guard``."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from dataclasses import replace

from syclsched.devices.native.host_tasks import wait_for
from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue
from syclsched.errors import MemoryLimitError, TaskFailedError
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.failures import FailureReason, task_failed_error
from syclsched.execution.core.program import Buffer, Program, ProgramNode
from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.dispatch.base_engines import ProgramEngine
from syclsched.execution.dispatch.debug_checks import DebugCheck, UndeclaredWriteCheck
from syclsched.execution.lanes.lanes import Completion
from syclsched.execution.memory.buffers import BufferTable
from syclsched.execution.memory.statuses import failed_status
from syclsched.model.plan import Instruction


class DebugEngine(ProgramEngine):
    """Engine that executes one program once, one instruction at a time in the plan's order."""

    failing = "a step failed"

    def __init__(
        self,
        program: Program,
        work: dict[int, InstructionWork],
        buffers: BufferTable,
        queues: dict[str, SyclQueue],
        inspections: Sequence[DebugCheck],
        *,
        record: bool,
    ) -> None:
        super().__init__(program, work, buffers, queues, record=record)
        self._inspections = inspections
        self._completed: set[int] = set()
        #: Number of the instruction being executed; only one runs at a time, over all lanes.
        self._at: int | None = None
        self._all_executed = False
        self._reports: queue.SimpleQueue[Completion] = queue.SimpleQueue()

    # --- for other threads ------------------------------------------------------------------------

    def event(self, number: int) -> SyclEvent | None:
        """Return None: every submitted instruction has completed."""
        return None

    def passed(self, number: int) -> bool:
        """Return whether an instruction has completed or was cancelled."""
        return number in self._completed

    def any_failed(self) -> bool:
        """Return False: each instruction's failure is recorded at once."""
        return False

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed, was cancelled, or had nothing to do."""
        return self.finished.is_set() or number in self._completed

    @property
    def completed(self) -> bool:
        """Whether every instruction was executed and none was cancelled."""
        return self._all_executed and all(r.outcome != "cancelled" for r in self.records.values())

    def positions(self) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes; callable on any thread."""
        return [replace(position, begun=position.number == self._at) for position in self._positions.now()]

    # --- the thread -------------------------------------------------------------------------------

    def _go(self) -> None:
        self._compile()
        for inspection in self._inspections:
            if isinstance(inspection, UndeclaredWriteCheck):
                inspection.watch_constants(self._executables.values())
        self._lanes = self._make_lanes(self._reports.put, lambda: self.cancelled)
        for _, instruction in self.program.plan.instructions():
            self._execute(self.program.nodes[instruction.id])
        self._all_executed = not self.cancelled

    def _finish(self) -> None:
        if self._lanes is not None:
            self._lanes.finish()
        self.counts.peak_bytes = dict(self.buffers.peak_bytes)

    def _execute(self, node: ProgramNode) -> None:
        instruction = node.instruction
        if instruction.kind == "alloc":
            self._allocate(instruction)
        elif instruction.kind == "free":
            use = instruction.uses[0]
            self.buffers.free((use.array, use.space))
        elif self._must_skip(instruction):
            self.failures.lost(instruction)
            self.records[node.id] = Record(now_ns(), "cancelled")
        else:
            self._execute_inspected(node)
        self._completed.add(node.id)
        self._notify_waiters(node.id)

    def _must_skip(self, instruction: Instruction) -> bool:
        if self.cancelled or self.failures.cancels(instruction):
            return True
        return any((use.array, use.space) not in self.buffers for use in instruction.uses)

    def _allocate(self, instruction: Instruction) -> None:
        if self.cancelled:
            return
        use = instruction.uses[0]
        try:
            self.buffers.allocate((use.array, use.space))
        except MemoryLimitError as error:
            self._failed(instruction, task_failed_error(instruction, error, "no memory:"), "memory", begun=False)

    def _execute_inspected(self, node: ProgramNode) -> None:
        """Execute one instruction, wait for it, and run the inspections."""
        instruction, work = node.instruction, self._work.get(node.id)
        if work is not None:
            for inspection in self._inspections:
                inspection.before(instruction, work)
        record = Record(now_ns())
        record.start_ns = record.submit_ns
        failure: TaskFailedError | None = None
        reason: FailureReason = "raised" if node.on_host else "device"
        self._at = node.id
        try:
            failure = self._perform(node, work)
        except Exception as error:
            failure = task_failed_error(instruction, error, "failed:")
        self._at = None
        record.finish_ns = now_ns()
        if failure is None and node.id in self._overdue:
            failure, reason = self._overdue[node.id], "deadline"
        if failure is None and work is not None and (failure := failed_status(work, self.buffers)) is not None:
            reason = "status"
        if work is not None:
            # Run all inspections even after a failure: they find invalid buffers, which must not be used.
            for found in [inspection.after(instruction, work) for inspection in self._inspections]:
                if failure is None and found is not None:
                    failure, reason = found, "check"
        if self.recording or failure is not None:
            self.records[node.id] = record
        if failure is None:
            self.failures.done(instruction)
            return
        record.outcome = "failed"
        self._failed(instruction, failure, reason, begun=True)
        for inspection in self._inspections:
            if isinstance(inspection, UndeclaredWriteCheck):
                self.failures.invalidate(self._with_segments(inspection.changed))

    def _perform(self, node: ProgramNode, work: InstructionWork | None) -> TaskFailedError | None:
        executable, lanes = self._executables.get(node.id), self._lanes
        assert lanes is not None
        if not node.on_host:
            self.counts.submissions += 1
            wait_for(lanes.devices[node.lane].submit(node, work, executable, []))
            lanes.devices[node.lane].release()
            return None
        host = lanes.hosts[node.lane]
        host.start(node, work, executable, [])
        completion = self._reports.get()
        host.take_unexecuted(completion)
        return None if completion.error is None else task_failed_error(node.instruction, completion.error, "raised")

    def _with_segments(self, buffers: set[Buffer]) -> set[Buffer]:
        segments = self.program.segments
        return buffers | {(s.name, space) for array, space in buffers for s in segments.get(array, ())}
