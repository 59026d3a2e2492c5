# SPDX-License-Identifier: Apache-2.0
"""Dispatcher thread of a run: submits instructions as they become ready, and waits for messages otherwise."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping
from typing import Literal, cast

from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue
from syclsched.devices.programs.executables import Executable, needs_python
from syclsched.errors import DeadlineError, MemoryLimitError
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.execution_records import Outcome, Record
from syclsched.execution.core.failures import FailureReason, propagate_device_failures, task_failed_error
from syclsched.execution.core.program import Program, ProgramNode
from syclsched.execution.core.safeguards import Safeguards
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.dispatch.base_engines import ProgramEngine
from syclsched.execution.dispatch.readiness import HOST_AHEAD, Readiness
from syclsched.execution.dispatch.turns import TURNS, Turn, devices_of, message_lanes
from syclsched.execution.lanes.instruction_commands import CommandCache
from syclsched.execution.lanes.instruction_submitter import InstructionSubmitter, SubmissionRequest
from syclsched.execution.lanes.lanes import Completion, DeviceLane, HostLane
from syclsched.execution.memory.buffers import BufferTable
from syclsched.execution.memory.memory_admission import MemoryAdmission
from syclsched.execution.memory.statuses import read_statuses
from syclsched.model.text.bulk_objects import paused_collection

#: Messages to the dispatcher besides completions: memory may have been freed, a throttled lane may submit again, the
#: run was cancelled, a task is past its deadline.
DispatcherMessage = Literal["memory", "room", "cancel", "overdue"]


class Dispatcher(ProgramEngine):
    """Engine that submits the instructions of one program in the order in which they become ready."""

    failing = "the dispatcher failed"

    def __init__(
        self,
        program: Program,
        work: dict[int, InstructionWork],
        buffers: BufferTable,
        queues: dict[str, SyclQueue],
        *,
        record: bool,
        executables: Mapping[int, Executable] | None = None,
        sharing: Safeguards | None = None,
    ) -> None:
        super().__init__(program, work, buffers, queues, record=record, executables=executables)
        self._pinned = {buffers.memory_of(piece.status) for piece in work.values() if piece.status is not None}
        self._loop_in_c = self._events.loop
        self._inbox: queue.SimpleQueue[Completion | DispatcherMessage] = queue.SimpleQueue()
        self._admission = MemoryAdmission(
            program,
            buffers,
            self._events,
            self._pinned,
            freed=lambda: self._readiness.unpark(),
            wake=lambda: self._inbox.put("memory"),
        )
        #: The run's turns on devices that it shares; None if it takes none, or has not begun.
        self.turn: Turn | None = None
        #: Its priority and share; None if it takes no turns.
        self._sharing = sharing
        self._owner = None if executables is None else id(executables)  # the part that all runs of a bound plan share
        self._messages = (
            message_lanes(program.plan.platform, program.plan.lanes) if self.takes_turns else frozenset[int]()
        )
        self._readiness = Readiness(program.lanes, self._admission.prepared, 1 if self.takes_turns else HOST_AHEAD)
        self._signals_due = 0
        self._throttled = 0

    @property
    def takes_turns(self) -> bool:
        """Whether each instruction waits for the run's turn."""
        return self._sharing is not None

    # --- for other threads ------------------------------------------------------------------------

    def event(self, number: int) -> SyclEvent | None:
        """Return the event of a submitted device instruction; None if it has completed without one."""
        return self._events.get(number)

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted, completed or cancelled."""
        return number in self._events

    def any_failed(self) -> bool:
        """Return whether a submitted instruction has failed and the failure is not recorded yet."""
        return self._events.any_failed()

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed, was cancelled, or was empty."""
        return self.finished.is_set() or self._events.is_complete(number)

    @property
    def completed(self) -> bool:
        """Whether every instruction was executed."""
        return self._readiness.finished and all(r.outcome != "cancelled" for r in self.records.values())

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Mark a running task as failed because it is past its deadline, and cancel its dependents."""
        super().overdue(number, error)
        self._inbox.put("overdue")

    def _be_cancelled(self) -> None:
        self._loop_in_c.stop()
        self._inbox.put("cancel")

    # --- the thread -------------------------------------------------------------------------------

    def _go(self) -> None:
        self._prepare()
        begun_ns = time.thread_time_ns()
        self._loop()
        self.counts.dispatch_ns = time.thread_time_ns() - begun_ns

    def _prepare(self) -> None:
        """Compile, allocate memory, create the lanes and read the clocks, before the first submission."""
        self._compile()
        with paused_collection():
            self.buffers.prepare(self._admission.prepared.values())
        for number in self._admission.prepared:
            self._events.put(number, None)
        self._lanes = self._make_lanes(self._inbox.put, lambda: self._ending)
        if not any(needs_python(executable) for executable in self._executables.values()):
            self._loop_in_c.use_native_queues()
        self._loop_in_c.time_calls(self.recording)
        if self._sharing is not None:
            plan, how = self.program.plan, self._sharing
            self.turn = TURNS.join(how.priority, how.share or 1.0, devices_of(plan), self._has_work, self._owner)
        commands = CommandCache(
            self._loop_in_c, self.program, self._work, self._executables, self.buffers, self._queue_of
        )
        with paused_collection():
            commands.prepare()
        self._submitter = InstructionSubmitter(self._lanes, self._events, self.counts, self, commands, limited=True)
        if self.recording:
            self.clocks = self._lanes.with_new_last_anchor(self.clocks, self._loop_in_c.stamp)

    def _loop(self) -> None:
        readiness = self._readiness
        submitter = self._submitter
        while submitter.gathered or not readiness.finished:
            if not self._inbox.empty():
                self._handle(self._inbox.get())
                continue
            node = readiness.take()
            if node is not None:
                self._dispatch(node)
            elif submitter.gathered:
                submitter.flush()
            elif not (readiness.parked and self._retry_allocations()):
                self._handle(self._inbox.get())

    def _dispatch(self, node: ProgramNode) -> None:
        instruction = node.instruction
        if instruction.kind == "alloc":
            self._allocate(node, force=False)
        elif instruction.kind == "free":
            if self._ending:  # keep values that recovery may need
                self.failures.not_started.add(node.id)
            else:
                self._admission.free(node)
            self._readiness.submitted(node)
        elif self.must_skip(node):
            self._submitter.flush()  # in order: `Failures` tracks the latest write of each buffer
            self._skip_taken(node)
        elif node.on_host:
            self._start_on_host(node)
        else:
            self._submit(node)

    def _skip_taken(self, node: ProgramNode) -> None:
        if node.on_host:
            self._readiness.submitted(node)
            self._skip_on_host(node)
        else:
            self.skip(SubmissionRequest(node, None, None))
            self._readiness.submitted(node)

    def _skip_on_host(self, node: ProgramNode) -> None:
        """Skip a host instruction but wait for its predecessors, because its successors rely on that order."""
        self.failures.lost(node.instruction)
        self.records[node.id] = Record(now_ns(), "cancelled")
        if not self._ending:
            self._host_lane(node).skip(node, self._submitter.events_before(node))
        else:
            self._put_event(node)
            self._readiness.completed(node)

    @property
    def _ending(self) -> bool:
        """Whether no more instructions may start."""
        return self.cancelled or self.failures.halted

    def _submit(self, node: ProgramNode) -> None:
        lane = self._device_lane(node)
        if self.turn is not None:
            lane.pacing.limits = self.turn.ahead
        if not lane.pacing.may_submit():
            self._readiness.park(node)
            self._throttled += 1
            lane.call_when_ready(lambda: self._inbox.put("room"))
            return
        if not self._has_turn(node):
            return
        self._submitter.take(SubmissionRequest(node, self._work.get(node.id), self._executables.get(node.id)))
        self._readiness.submitted(node)
        if self.turn is not None:
            self._submitter.flush()  # gathered instructions are not counted as ahead

    # --- for the submitter: implements `SubmissionHandler` ----------------------------------------

    def must_skip(self, node: ProgramNode) -> bool:
        """Return whether an instruction must not start: a predecessor has failed, or the run is ending."""
        failures = self.failures
        if self.cancelled or failures.halted:
            return True
        if failures.none:
            return False
        # A buffer may be missing because its allocation failed.
        allocated = all((use.array, use.space) in self.buffers for use in node.instruction.uses)
        return not allocated or failures.cancels(node.instruction)

    def skip(self, request: SubmissionRequest) -> None:
        """Record an instruction that is not submitted, and order its successors."""
        node = request.node
        self.failures.lost(node.instruction)
        self.records[node.id] = Record(now_ns(), "cancelled")
        self._release_successors(request, ordered=not self._ending)

    def submitted(self, request: SubmissionRequest, submit_ns: int) -> None:
        """Record a submission, and watch for the completion if host instructions depend on it."""
        node, program = request.node, self.program
        number = node.id
        if self.recording:
            self.records[number] = request.record or Record(submit_ns)
        lane = self._submitter.lanes.devices[node.lane]
        lane.submitted(node)
        self.failures.done(node.instruction)
        if number in program.waited_for:
            self.counts.events += 1
        if number in program.signals:
            self._signals_due += 1
            lane.watch(node, cast(SyclEvent, self._events.get(number)))
        self._notify_waiters(number)

    def refused(self, request: SubmissionRequest, error: Exception) -> None:
        """Record an instruction that the runtime refuses, and order its successors."""
        node, work, instruction = request.node, request.work, request.node.instruction
        if self.recording and request.record is not None:
            self.records[node.id] = request.record
        begun = work is not None and not work.implementation.is_kernel
        reason: FailureReason = "copy" if instruction.kind == "copy" else "submission"
        self._failed(instruction, task_failed_error(instruction, error, "could not be submitted:"), reason, begun=begun)
        self._release_successors(request, ordered=True)

    def _release_successors(self, request: SubmissionRequest, *, ordered: bool) -> None:
        """Release the successors of a failed or skipped instruction, after its predecessors if ordered.

        Those of its own lane are among them: memory is freed when the last one of a lane that uses it has completed.
        """
        node = request.node
        if ordered:
            self._submitter.put_noop(request)
            self._notify_waiters(node.id)
        else:
            self._put_event(node)
        if node.id in self.program.signals:
            self._readiness.completed(node)

    def _has_turn(self, node: ProgramNode) -> bool:
        """Return whether an instruction may start beside other runs; else it is parked until it may."""
        if self.turn is None or node.lane in self._messages:
            return True
        if self.turn.may_start(node.instruction.duration_s, lambda: self._inbox.put("room")):
            return True
        self._readiness.park(node)
        self._throttled += 1
        return False

    def _has_work(self) -> bool:
        """Return whether started instructions are at work on devices; for other threads."""
        lanes = self._lanes
        return lanes is not None and any(lane.pacing.has_work() for lane in lanes.devices.values())

    def _start_on_host(self, node: ProgramNode) -> None:
        if not self._has_turn(node):
            return
        if self._submitter.gathered:
            self._submitter.flush()  # it may wait for some of the batch, which must not wait for it
            if self.must_skip(node):
                self._skip_taken(node)
                return
        self._readiness.submitted(node)
        self.records[node.id] = Record(now_ns())
        work, executable = self._work.get(node.id), self._executables.get(node.id)
        self._host_lane(node).start(node, work, executable, self._submitter.events_before(node))

    def _handle(self, message: Completion | DispatcherMessage) -> None:
        if isinstance(message, Completion):
            if not message.node.on_host:
                self._note_signalled(message)
                return
            if not message.unexecuted:
                self._note_completed(message)
            for node in self._host_lane(message.node).take_unexecuted(message):
                if self.must_skip(node):
                    self._skip_on_host(node)
                else:
                    self.records[node.id] = Record(now_ns())
                    self._host_lane(node).restart(node)
            return
        if message == "memory":
            self._admission.note_wakeup()
            if not self._ending:  # instructions that are skipped then do not wait for those before
                self._admission.execute_due_frees()
        elif message == "room":
            self._throttled -= 1
        elif message == "overdue":
            self._note_overdue()
        self._readiness.unpark()

    def _note_signalled(self, completion: Completion) -> None:
        self._signals_due -= 1
        if completion.error is not None:
            error = task_failed_error(completion.node.instruction, completion.error, "failed:")
            self._failed(completion.node.instruction, error, "device", begun=True)
        self._readiness.completed(completion.node)

    def _note_completed(self, completion: Completion) -> None:
        node, record = completion.node, self.records[completion.node.id]
        completion.record_in(record)
        self._charge(completion)
        if completion.error is not None:
            begun = completion.start_ns is not None
            reason: FailureReason = (
                "raised" if begun and node.instruction.kind == "host" else "copy" if begun else "device"
            )
            self._failed(
                node.instruction, task_failed_error(node.instruction, completion.error, "raised"), reason, begun=begun
            )
        elif completion.start_ns is None:
            self.failures.lost(node.instruction)
        elif node.id in self._overdue:
            record.outcome = "failed"
        else:
            self.failures.done(node.instruction)
        self._put_event(node)
        self._readiness.completed(node)

    def _charge(self, completion: Completion) -> None:
        """Charge the run for the time by which a function of the host took longer than predicted."""
        start_ns, finish_ns, node = completion.start_ns, completion.finish_ns, completion.node
        if self.turn is None or start_ns is None or finish_ns is None or node.lane in self._messages:
            return
        longer_s = (finish_ns - start_ns) * 1e-9 - node.instruction.duration_s
        if longer_s > 0.0:
            self.turn.took_longer(longer_s)

    def _note_overdue(self) -> None:
        for number, error in list(self._overdue.items()):
            if number not in self.failures.invalid:
                self._failed(self.program.nodes[number].instruction, error, "deadline", begun=True)
                if number in self.records:
                    self.records[number].outcome = "failed"

    def _put_event(self, node: ProgramNode) -> None:
        """Note that an instruction has completed, or will not be executed."""
        self._events.put(node.id, None)
        self._notify_waiters(node.id)

    def _device_lane(self, node: ProgramNode) -> DeviceLane:
        assert self._lanes is not None
        return self._lanes.devices[node.lane]

    def _host_lane(self, node: ProgramNode) -> HostLane:
        assert self._lanes is not None
        return self._lanes.hosts[node.lane]

    # --- memory -----------------------------------------------------------------------------------

    def _allocate(self, node: ProgramNode, *, force: bool) -> None:
        instruction = node.instruction
        if self._ending:
            self._admission.skip(instruction)
        else:
            try:
                if not self._admission.allocate(instruction, force=force):
                    self._readiness.park(node)
                    return
            except MemoryLimitError as error:
                self._failed(node.instruction, task_failed_error(instruction, error, "no memory:"), "memory")
        self._events.put(node.id, None)
        self._readiness.submitted(node)

    def _retry_allocations(self) -> bool:
        """Retry parked allocations; return False if the dispatcher must wait for a message."""
        if self._ending or self._admission.execute_due_frees():
            self._readiness.unpark()
            return True
        if self._admission.expect() or self._readiness.running or self._signals_due or self._throttled:
            return False
        # Nothing submitted will free memory, so the plan's peak is wrong. Exceed it rather than deadlock.
        node = self._readiness.take_parked()
        if node is not None:
            self._allocate(node, force=True)
        return True

    # --- the end ----------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Wait for submitted instructions, execute the frees, and read the outcomes and status values."""
        try:
            if self._lanes is not None:
                self._lanes.finish()
        finally:
            if self.turn is not None:
                self.turn.end()
        self._admission.stop()
        self._admission.execute_due_frees()
        self._read_outcomes()
        if self.recording and self._lanes is not None and self.error is None:
            self.clocks = self._lanes.with_new_last_anchor(self.clocks, self._loop_in_c.stamp)
        self._events.close()
        passed = self._events.__contains__
        self._set_outcomes(read_statuses(self.program, self._work, self.buffers, self.failures, passed))
        for buffer in self._pinned:
            if buffer not in {self.buffers.memory_of(kept) for kept, _ in self.program.final_buffers.values()}:
                self.buffers.free(buffer)
        if self._lanes is not None:
            self._lanes.release()
        self._executables.clear()
        self.counts.peak_bytes, self.counts.held_bytes = dict(self.buffers.peak_bytes), dict(self.buffers.held_bytes)

    def _read_outcomes(self) -> None:
        """Read device failures and device times, before the events are released."""
        self._note_overdue()
        late = bool(self._overdue)
        instructions = (instruction for _, instruction in self.program.plan.instructions())
        self._set_outcomes(propagate_device_failures(self.failures, instructions, self._events.failed(), walk=late))
        loop = self._loop_in_c
        if self.recording:
            # Including work that Python submitted to these queues: SYCL's event times may use another clock.
            records = {n: r for n, r in self.records.items() if r.first_event is None and loop.has_event(n)}
            for record, times in zip(records.values(), loop.times(list(records)), strict=True):
                record.device_ns = times

    def _set_outcomes(self, outcomes: Mapping[int, Outcome]) -> None:
        for number, outcome in outcomes.items():
            if number in self.records:
                self.records[number].outcome = outcome
