# SPDX-License-Identifier: Apache-2.0
"""Replay of a bound plan: prepared commands, submitted by the compiled loop with hundreds in one call.

`Replay` implements the same `Engine` protocol as the dispatcher.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from syclsched.devices.native.host_tasks import wait_for
from syclsched.devices.native.sycl_types import Waitable
from syclsched.devices.submission.command_list import CommandList
from syclsched.devices.submission.commands import Batch, Command
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import DeadlineError, ExecutionError, SyclschedError
from syclsched.execution.core.clock import ClockMap
from syclsched.execution.core.execution_records import Counts, Outcome, Record, Times
from syclsched.execution.core.failures import FailureReason, Failures, task_failed_error
from syclsched.execution.core.program import Buffer, Program
from syclsched.execution.core.progress import ProgressReporting
from syclsched.execution.core.waiting import Flag
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.lanes.failure_detection import read_device_failures, read_statuses
from syclsched.execution.memory.buffers import AllocatedBuffer, BufferTable
from syclsched.execution.memory.statuses import statuses_behind


class _BorrowedBuffers:
    """One run's view of a bound plan's buffers; the view becomes empty when the next run begins."""

    def __init__(self, table: BufferTable) -> None:
        self._table: BufferTable | None = table

    def get(self, buffer: Buffer) -> AllocatedBuffer | None:
        """Return a buffer; None if it was freed or the view was cleared."""
        return None if self._table is None else self._table.get(buffer)

    def __getitem__(self, buffer: Buffer) -> AllocatedBuffer:
        found = self.get(buffer)
        if found is None:
            raise KeyError(buffer)
        return found

    def __contains__(self, buffer: Buffer) -> bool:
        return self.get(buffer) is not None

    def clear(self) -> None:
        """Empty the view; the bound plan keeps the buffers."""
        self._table = None


class Replay(ProgressReporting):
    """Runs a bound plan once.

    `start` submits everything before it returns: an instruction that then has no event was refused or cancelled.
    """

    def __init__(
        self,
        program: Program,
        work: Mapping[int, InstructionWork],
        with_status: Mapping[int, InstructionWork],
        commands: CommandList,
        loop: SubmissionLoop,
        buffers: BufferTable,
        worker: WorkerThread,
        clocks: Callable[[], Mapping[str, ClockMap]],
        *,
        record: bool,
    ) -> None:
        self.program = program
        self.buffers = _BorrowedBuffers(buffers)
        self.counts = Counts()
        self.failures = Failures(program.tasks)
        self.finished = Flag()
        self.error: SyclschedError | None = None
        self.cancelled = False
        self.recording = record
        self.lasting = False
        #: Whether `start` was called.
        self.begun = False
        #: Whether library calls are timed one by one; otherwise only the end of all of them is known.
        self.time_each_call = False
        self.given_up = False
        self.when_finished: Callable[[], None] | None = None
        self._work = work
        self._with_status = with_status
        self._commands = commands
        self._loop = loop
        self._worker = worker
        self.clock_maps = clocks
        self._peak_bytes, self._held_bytes = dict(buffers.peak_bytes), dict(buffers.held_bytes)
        # Reentrant: a garbage collection under the lock may drop this run, which cancels it.
        self._lock = threading.RLock()
        self._submitting = self._ended = False
        self._over = False
        self._submitted_all = Flag()
        self._through = self._all = False
        self._done: frozenset[int] = frozenset()
        self._batches: list[Batch] = []
        self.outcomes: dict[int, Outcome] = {}
        #: Times of a run that was submitted completely.
        self.times: Times | None = None
        self._overdue: dict[int, DeadlineError] = {}
        self._submit_ns: dict[int, int] = {}
        self._device_ns: dict[int, tuple[int, int]] = {}
        #: Records of host instructions.
        self.host_records: dict[int, Record] = {}
        self._lent = 0

    # --- engine interface -------------------------------------------------------------------------

    def start(self) -> None:
        """Submit everything; if submission blocks for the length of the run, do so on the worker and return at once."""
        self.begun = True
        self._commands.begin()
        self._loop.time_calls(self.recording and self.time_each_call)
        if self._loop.blocks:
            self._worker.post(self._submit_all)
        else:
            self._submit_all()

    def _submit_all(self) -> None:
        try:
            self.submit_until(len(self._commands.commands))
        except BaseException as error:
            if not self._worker.is_current:  # the caller's thread
                raise
            self.error = self._ended_by(error)
        finally:
            self._submitted_all.set()

    def submit_until(self, count: int) -> None:
        """Submit up to a number of commands; after the last one, start waiting for the end of the run."""
        end = self._commands.submissions_of(min(count, len(self._commands.commands)))
        begun_ns, processor_ns = time.perf_counter_ns(), time.thread_time_ns()
        whole = True
        try:
            with self._lock:
                if self._ended:
                    return
                self._submitting = True
            whole = self._submit_to(end)
            self._through = whole and not self.cancelled
        except SyclschedError as error:
            self.error = error
        except BaseException:
            self.cancelled = True  # submitted commands still run to their end
            raise
        finally:
            self.counts.submission_ns += time.perf_counter_ns() - begun_ns
            self.counts.dispatch_ns += time.thread_time_ns() - processor_ns
            with self._lock:
                self._submitting = False
                if whole or self.cancelled:
                    self._end()

    def _submit_to(self, end: int) -> bool:
        """Submit everything before submission number ``end``; return whether nothing remains to be submitted."""
        done = self._commands.submit(end)
        self._all = done == len(self._commands)
        if done < end:
            self._submit_rest(done)
        return self._all or done < end

    def cancel(self) -> None:
        """Stop submitting; submitted commands still complete. Returns at once."""
        with self._lock:
            if not self._over:
                self.cancelled = True
                self._loop.stop()
                if not self._submitting:
                    self._end()

    def _end(self) -> None:
        """Start waiting for the end of the run, once."""
        if not self._ended:
            self.counts.submissions = len(self._commands)
            self.counts.barriers = self._commands.fences
            self.counts.events = len(self.program.waited_for)
            self.counts.peak_bytes, self.counts.held_bytes = self._peak_bytes, self._held_bytes
            self._await_end()
            self._ended = True  # last: after an interrupt before this line, `_end` is called again

    def _await_end(self) -> None:
        self._worker.post(self._finish)

    def _lend(self) -> None:
        """Have the worker wait for the latest submissions: a CPU device computes on the waiting thread, too."""
        if self._loop.uses_lane_threads:  # lane threads need no waiting thread
            return
        commands, portions = self._commands, self._commands.event_ranges(self._lent)
        self._lent += len(portions)
        self._worker.post(lambda: commands.wait(portions))

    def _recycle_events(self) -> None:
        if not self._lent:
            self._loop.reset()
            self._commands.begin()  # a run cancelled before its start must find none of these events
            return
        # On the worker, after its pending waits: it may be waiting for one of these events.
        give_back = self._loop.let_go()
        self._commands.begin()
        self._commands.use_new_events()
        self._worker.post(give_back)

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until all commands have been submitted; return whether they have."""
        return not self._loop.blocks or self._submitted_all.wait(timeout_s) or self.finished.is_set()

    def event(self, number: int) -> Waitable | None:
        """Return the event of an instruction; None if it has completed or was never submitted."""
        with self._lock:
            return None if self._over or not self._loop.has_event(number) else self._loop.event(number)

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted."""
        with self._lock:
            return (
                self._through or self._all or number in self._done or (not self._over and self._loop.has_event(number))
            )

    def any_failed(self) -> bool:
        """Return whether a submitted instruction has failed and the failure is not recorded yet."""
        with self._lock:
            return not self._over and (bool(self._overdue) or bool(self._loop.failed()))

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed or was cancelled."""
        with self._lock:
            return self._over or (self._loop.is_complete(number) if self._loop.has_event(number) else self._ended)

    @property
    def completed(self) -> bool:
        """Whether every instruction was executed."""
        return self._through

    def statuses_behind(self, array: str) -> list[InstructionWork]:
        """Return the tasks with a status value that an array's final value depends on, in the plan's order."""
        return statuses_behind(self.program, self._with_status, array) if self._with_status else []

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Mark a running task as past its deadline; it and its dependents fail when the run has ended."""
        self._overdue[number] = error

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the run to end."""
        self.finished.wait(timeout_s)

    @cached_property
    def clocks(self) -> Mapping[str, ClockMap]:
        """Device clock maps by lane name."""
        return self.clock_maps()

    @cached_property
    def records(self) -> dict[int, Record]:
        """Execution records by instruction number, once the run has ended."""
        if self.times is not None:
            return self.times.records(self.outcomes)
        found = dict(self.host_records)
        for number, submit_ns in self._submit_ns.items():
            found[number] = Record(submit_ns, self.outcomes.get(number, "done"), device_ns=self._device_ns.get(number))
        return found

    def _submit_rest(self, done: int, end: int | None = None) -> None:
        """Submit the rest after a refused submission, without its dependents; or mark the rest as cancelled."""
        self.cancelled = self.cancelled or self._loop.stopped
        partial = self._commands.sequence_around(done)
        if partial is not None:
            reason = partial.refusal or "the runtime refuses it in the middle of its steps"
            self._refused(partial.slot, reason, begun=True)
        self._submit_apart(each for joint in self._commands.commands_from(done, end) for each in joint.apart())

    def _submit_apart(self, commands: Iterable[Command], *, begun: bool = False) -> None:
        """Submit commands one by one, except cancelled ones; they may be the rest of a partly submitted command."""
        for command in commands:
            instruction = self.program.nodes[command.slot].instruction
            if self.cancelled or self.failures.halted or self.failures.cancels(instruction):
                self.outcomes[command.slot] = "cancelled"
            else:
                batch = self._loop.submit([command])
                self._batches.append(batch)
                if batch.done:
                    self._submit_ns[command.slot] = batch.submit_ns[0]
                    self.failures.done(instruction)
                else:
                    why = "the runtime refuses it in the middle of its steps" if begun else "the runtime refuses it"
                    self._refused(command.slot, command.refusal or why, begun=begun)
                continue
            self._skip(command.slot, begun=begun)

    def _skip(self, number: int, *, begun: bool = False) -> None:
        """Record a skipped instruction, and submit a fence in its place: others may depend on its predecessors."""
        node = self.program.nodes[number]
        self.failures.lost(node.instruction, begun=begun)
        self._submit_ns[number] = time.perf_counter_ns()
        if not (self.cancelled or self.failures.halted):
            batch = self._loop.submit([self._loop.fence(number, node.lane, node.events)])
            self._batches.append(batch)
            if not batch.done:  # even the fence is refused: the host waits
                for before in node.events:
                    if self._loop.has_event(before):
                        wait_for(self._loop.event(before))

    def _refused(self, number: int, why: str, *, begun: bool = False) -> None:
        instruction = self.program.nodes[number].instruction
        self.outcomes[number] = "cancelled" if self._loop.stopped else "failed"
        if self._loop.stopped:
            self.cancelled = True
        else:
            reason: FailureReason = "copy" if instruction.kind == "copy" else "submission"
            error = task_failed_error(instruction, ExecutionError(why), "could not be submitted:")
            self.failures.record(instruction, error, reason)
        self._skip(number, begun=begun)

    # --- the end, on the worker -------------------------------------------------------------------

    def _finish(self) -> None:
        if self._over:  # called a second time
            return
        try:
            self._commands.wait()
            for batch in self._batches:
                self._loop.wait(batch)
            submitted = self._submitted()
            self._note_overdue()
            late = bool(self._overdue)
            self.outcomes |= read_device_failures(self._loop, self.program, self.failures, walk=late)
            if self.recording:
                self._record(submitted)
            done = frozenset(submitted if self._with_status or not self._all else ()) - self.outcomes.keys()
            self.outcomes |= read_statuses(
                self.program, self._with_status, self.buffers, self.failures, done.__contains__
            )
            self._done = done
        except BaseException as error:
            self.error = self._ended_by(error)
        finally:
            try:
                with self._lock:
                    self._over = True
                    self._recycle_events()
            finally:
                self.finished.set()
                if self.when_finished is not None:
                    self.when_finished()
                    self.when_finished = None

    def _note_overdue(self) -> None:
        for number, error in list(self._overdue.items()):
            if number in self.failures.spoilt:
                continue
            instruction = self.program.nodes[number].instruction
            self.failures.record(instruction, error, "deadline")
            self.failures.lost(instruction, begun=True)
            self.outcomes[number] = "failed"

    def _ended_by(self, error: BaseException) -> SyclschedError:
        return self.error or ExecutionError(
            f"the run could not be ended: {type(error).__name__}: {error}",
            where=f"plan {self.program.plan.name!r}",
        )

    def _record(self, submitted: list[int]) -> None:
        """Read the times before the events are recycled; the trace is built on request."""
        submit_ns = self._commands.submit_ns()
        if self._all:
            self.times = Times(self._commands.slot_numbers, submit_ns, *self._commands.times(), self.host_records)
            return
        done = set(submitted)
        known_ns = dict(zip(self._commands.slots, submit_ns.tolist(), strict=True))
        self._submit_ns = {number: known_ns[number] for number in submitted} | self._submit_ns
        self._device_ns = dict(zip(submitted, self._loop.times(submitted), strict=True))
        now = time.perf_counter_ns()
        for number in self._commands.slots:
            if number not in done and number not in self._submit_ns:
                self._submit_ns[number] = now
                self.outcomes[number] = "cancelled"

    def _submitted(self) -> list[int]:
        numbers = self._commands.slots
        return numbers if self._all else [number for number in numbers if self._loop.has_event(number)]
