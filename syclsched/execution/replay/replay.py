# SPDX-License-Identifier: Apache-2.0
"""Replay of a bound plan: prepared commands, submitted by the compiled loop with hundreds in one call.

`Replay` implements the same `Engine` protocol as the dispatcher. It is composed of a submission strategy, an end watch
and, if the plan has any, host steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

from syclsched.devices.native.sycl_types import Waitable
from syclsched.errors import DeadlineError, ExecutionError, SyclschedError
from syclsched.execution.core.clock import ClockMap
from syclsched.execution.core.execution_records import Counts, Outcome, Record, Times
from syclsched.execution.core.failures import Failures, propagate_device_failures
from syclsched.execution.core.program import Buffer, Program
from syclsched.execution.core.progress import LaneProgress, ProgressReporting, ProgressTracker
from syclsched.execution.core.waiting import Flag
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.memory.buffers import AllocatedBuffer, BufferLookup, BufferTable
from syclsched.execution.memory.statuses import read_statuses, statuses_behind
from syclsched.execution.replay.end_watch import EndWatch
from syclsched.execution.replay.host_steps import HostStepRun, HostSteps
from syclsched.execution.replay.submission import SubmissionStrategy
from syclsched.interrupts import interrupts_deferred


class _BorrowedBuffers(BufferLookup):
    """One run's view of a bound plan's buffers; the view becomes empty when the next run begins."""

    def __init__(self, table: BufferTable) -> None:
        self._table: BufferTable | None = table

    def get(self, buffer: Buffer) -> AllocatedBuffer | None:
        """Return a buffer; None if it was freed or the view was cleared."""
        return None if self._table is None else self._table.get(buffer)

    def clear(self) -> None:
        """Empty the view; the bound plan keeps the buffers."""
        self._table = None


class Replay(ProgressReporting):
    """Runs a bound plan once.

    Its parts bring the commands to the lanes (`submission`), execute the host steps between them (`steps`), and wait
    for the end of the run (`watch`). After the last submission an instruction without an event was refused or
    cancelled.
    """

    def __init__(
        self,
        program: Program,
        with_status: Mapping[int, InstructionWork],
        buffers: BufferTable,
        worker: WorkerThread,
        clocks: Callable[[], Mapping[str, ClockMap]],
        submission: SubmissionStrategy,
        watch: EndWatch,
        steps: HostSteps | None,
        *,
        constant_bytes: dict[str, int],
        record: bool,
    ) -> None:
        self.program = program
        self.buffers = _BorrowedBuffers(buffers)
        self.counts = Counts(
            submissions=len(submission.commands),
            events=len(program.waited_for),
            peak_bytes=dict(buffers.peak_bytes),
            held_bytes=dict(buffers.held_bytes),
            constant_bytes=constant_bytes,
        )
        self.failures = Failures(program.tasks)
        self.finished = Flag()
        self.error: SyclschedError | None = None
        self.cancelled = False
        self.recording = record
        self.owns_buffers = False
        #: Whether `start` was called and has returned.
        self.begun = False
        self.hung = False
        self.when_finished: Callable[[], None] | None = None
        self.commands, self.loop = submission.commands, submission.loop
        self.worker = worker
        self.clock_maps = clocks
        self.steps = steps
        self.watch = watch
        self._submission = submission
        self._with_status = with_status
        # Reentrant: a garbage collection under the lock may drop this run, which cancels it.
        self._lock = threading.RLock()
        self._submitting = self._ended = False
        self._over = self._ending_posted = False
        #: Whether the worker ends the run after it has submitted everything.
        self.ends_itself = False
        #: Set when the worker has submitted everything, or others submit.
        self.submitted_all = Flag()
        self._all_executed = self._all = False
        self._done: frozenset[int] = frozenset()
        self.outcomes: dict[int, Outcome] = {}
        #: Times of a run that was submitted completely.
        self.times: Times | None = None
        self._overdue: dict[int, DeadlineError] = {}
        self._noted_overdue: dict[int, object] = {}
        self._submit_ns: dict[int, int] = {}
        self._device_ns: dict[int, tuple[int, int]] = {}
        #: Records of host instructions.
        self.host_records: dict[int, Record] = {}
        self._waited_events = 0
        #: Executes the host steps; None without, and after the end.
        self._step_run = None if steps is None else HostStepRun(self, steps, shared=watch.shares_lanes)

    # --- engine interface -------------------------------------------------------------------------

    def start(self) -> None:
        """Start the run as its submission strategy does."""
        self._submission.start(self)
        self.begun = True

    def cancel(self) -> None:
        """Stop submitting; submitted commands and a running step still complete. Returns at once."""
        if self._submission.is_under_way and not self.begun:
            self.start()  # it must be taken over in any case
        steps = self._step_run
        with self._lock:
            if not self._over:
                self.cancelled = True
                self.loop.stop()
                if not self._submitting and not (steps is not None and steps.on_host_threads):
                    self.close_submission()
                if self._ended:
                    self.watch.cancelled(self)
        if steps is not None:
            steps.cancelled()

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction is submitted, a host step completes, or the run ends; return False on time-out."""
        steps = self._step_run
        if steps is not None:
            return steps.wait_submitted(number, timeout_s)
        return not self.loop.blocks or self.submitted_all.wait(timeout_s) or self.finished.is_set()

    def event(self, number: int) -> Waitable | None:
        """Return the event of an instruction; None if it has completed or was never submitted."""
        with self._lock:
            return None if self._over or not self.loop.has_event(number) else self.loop.event(number)

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted or, on the host, has completed or was cancelled."""
        steps = self._step_run
        with self._lock:
            if self.program.nodes[number].on_host:
                return self._all_executed or steps is None or number in steps.completed
            return (
                self._all_executed
                or self._all
                or number in self._done
                or (not self._over and self._submission.has_submitted(number))
            )

    def any_failed(self) -> bool:
        """Return whether a submitted instruction has failed and the failure is not recorded yet."""
        with self._lock:
            return not self._over and (bool(self._overdue) or bool(self.loop.failed()))

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed or was cancelled."""
        steps = self._step_run
        with self._lock:
            if self._over:
                return True
            if self.program.nodes[number].on_host:
                return steps is None or number in steps.completed
            return self._submission.is_complete(number, ended=self._ended)

    @property
    def times_each_call(self) -> bool:
        """Whether the times of each library call are known, and not only shares of the time of several."""
        return self._submission.times_each_call

    @property
    def first_submission_ns(self) -> int | None:
        """None: a replay submits as soon as it is started."""
        return None

    @property
    def completed(self) -> bool:
        """Whether every instruction was executed."""
        return self._all_executed

    def statuses_behind(self, array: str) -> list[InstructionWork]:
        """Return the tasks with a status value that an array's final value depends on, in the plan's order."""
        return statuses_behind(self.program, self._with_status, array) if self._with_status else []

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Mark a running task as past its deadline; it and its dependents fail when the run has ended."""
        self._overdue[number] = error

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the run to end."""
        self.finished.wait(timeout_s)

    def positions(self) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes; callable on any thread."""
        return self.watch.positions(self)

    def own_positions(self) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes, ignoring other instances."""
        steps, found = self._step_run, self._positions.now()
        if steps is None:
            return found
        nodes = self.program.nodes
        return [replace(p, begun=p.number in steps.running) if nodes[p.number].on_host else p for p in found]

    @cached_property
    def _positions(self) -> ProgressTracker:
        return ProgressTracker(
            self.program, self.is_complete, lambda n: self._submission.has_begun(n) or self.passed(n)
        )

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

    # --- submission -------------------------------------------------------------------------------

    def execute(self) -> None:
        """Submit everything, wait for it, and end the run; on the worker."""
        self.ends_itself = True
        try:
            self.submit(len(self.commands.commands), last=True)
        except BaseException as error:
            self.error = self.ended_by(error)
        finally:
            self.submitted_all.set()
        self.end()

    def submit_until(self, count: int) -> None:
        """Submit up to a number of commands; after the last one, start waiting for the end of the run.

        After the last one that waits for no host step, the host threads take over.
        """
        if self.steps is None:
            whole = len(self.commands.commands)
            self.submit(min(count, whole), last=count >= whole)
        elif count < self.steps.ends[0]:
            self.submit(count, last=False)
        elif (steps := self._step_run) is not None:
            steps.begin()

    def submit(self, count: int, *, last: bool) -> None:
        """Submit up to a number of commands; if they are the last, start waiting for the end of the run."""
        end = self.commands.submissions_of(count)
        begun_ns, processor_ns = time.perf_counter_ns(), time.thread_time_ns()
        try:
            with self._lock:
                if self._ended:
                    return
                self._submitting = True
            self._all = self._submission.submit(self, end)
            self._all_executed = last and (self._all or not self.cancelled)
        except SyclschedError as error:
            self.error, last = error, True
        except BaseException:
            self.cancelled = True  # submitted commands still run to their end
            raise
        finally:
            self.counts.submission_ns += time.perf_counter_ns() - begun_ns
            self.counts.dispatch_ns += time.thread_time_ns() - processor_ns
            with self._lock:
                self._submitting = False
                if last or self.cancelled:
                    self.close_submission()

    def wait_on_worker(self) -> None:
        """Have the worker wait for the latest submissions: a CPU device computes on the waiting thread, too."""
        with self._lock:
            if self._ended or self.loop.uses_lane_threads:  # lane threads need no waiting thread
                return
            commands, portions = self.commands, self.commands.event_ranges(self._waited_events)
            self._waited_events += len(portions)
            self.worker.post(lambda: commands.wait(portions))

    def close_submission(self) -> None:
        """Submit nothing more, and start waiting for the end of the run, once; under the lock."""
        if not self._ended:
            if self._step_run is not None and not self._step_run.close():
                self.cancelled = True  # nothing more starts; the lane whose step is the last to end closes it
                return
            self.counts.barriers = self.commands.fences
            self.watch.submitted(self)
            self._ended = True  # last: after an interrupt before this line, this is called again

    # --- the state of the run, for its parts ------------------------------------------------------

    @property
    def ending(self) -> bool:
        """Whether no more instructions may start."""
        return self.cancelled or self.failures.halted

    @property
    def submission_ended(self) -> bool:
        """Whether no more submissions follow."""
        return self._ended

    def abort(self) -> None:
        """Cancel the run at once; submitted commands still complete."""
        with self._lock:
            self.cancelled = True
            self.close_submission()

    def fail(self, error: BaseException) -> None:
        """Cancel the run because of an error that is no task's."""
        self.error = self.ended_by(error)
        self.abort()

    def ended_by(self, error: BaseException) -> SyclschedError:
        """Return the run's error after an error that is no task's; the first one stays."""
        if self.error is not None:
            return self.error
        if isinstance(error, SyclschedError):
            return error
        return ExecutionError(
            f"the run could not be ended: {type(error).__name__}: {error}",
            where=f"plan {self.program.plan.name!r}",
        )

    @property
    def has_overdue(self) -> bool:
        """Whether any task is past its deadline."""
        return bool(self._overdue)

    def is_late(self, number: int) -> bool:
        """Return whether a task is past its deadline."""
        return number in self._overdue

    def note_overdue(self) -> None:
        """Record the tasks that are past their deadlines, and cancel their dependents."""
        noted = object()
        for number, error in list(self._overdue.items()):
            if number in self.failures.invalid or self._noted_overdue.setdefault(number, noted) is not noted:
                continue  # another thread has, or does
            instruction = self.program.nodes[number].instruction
            self.failures.record(instruction, error, "deadline")
            self.failures.lost(instruction, begun=True)
            self.outcomes[number] = "failed"

    # --- the end ----------------------------------------------------------------------------------

    def end_if_complete(self) -> bool:
        """End the run if it is completely submitted and has completed on its devices; return whether it has ended."""
        with self._lock:
            if self._ending_posted or not self._ended:
                return self.finished.is_set()
            if any(self.loop.is_pending(number) for number in self.program.last_of_lanes):
                return False
            self._ending_posted = True
        with interrupts_deferred():  # on the caller's thread: an interrupt is the caller's, not a failure of this run
            self.end()
        return True

    def post_end(self) -> None:
        """Have the worker end the run, unless another thread does; under the lock."""
        if not self._ending_posted:
            self._ending_posted = True
            self.worker.post(self.end)

    def end(self) -> None:
        """Wait for submitted instructions, and read the outcomes and times."""
        if self._over:  # called a second time
            return
        try:
            if self._step_run is not None:
                self.counts.retried = self._step_run.leave_out_rest()
            self._submission.wait()
            submitted = self._submitted()
            self.note_overdue()
            late = bool(self._overdue)
            instructions = (instruction for _, instruction in self.program.plan.instructions())
            self.outcomes |= propagate_device_failures(self.failures, instructions, self.loop.failed(), walk=late)
            if self.recording:
                self._record(submitted)
            done = frozenset(submitted if self._with_status or not self._all else ()) - self.outcomes.keys()
            if self._with_status:
                self.outcomes |= read_statuses(
                    self.program, self._with_status, self.buffers, self.failures, done.__contains__
                )
            self._done = done
        except BaseException as error:
            self.error = self.ended_by(error)
        finally:
            try:
                with self._lock:
                    self._over = True
                    self._recycle_events()
            finally:
                self.finished.set()
                self.submitted_all.set()
                self._step_run = None  # which refers to this run
                if self.when_finished is not None:
                    self.when_finished()
                    self.when_finished = None

    def _recycle_events(self) -> None:
        if not self._waited_events:
            self.loop.reset()
            self.commands.begin()  # a run cancelled before its start must find none of these events
            return
        # On the worker, after its pending waits: it may be waiting for one of these events.
        release = self.loop.detach_events()
        self.commands.begin()
        self.commands.use_new_events()
        self.worker.post(release)

    def _record(self, submitted: list[int]) -> None:
        """Read the times before the events are recycled; the trace is built on request."""
        for number, record in self.host_records.items():  # its inputs may have proved invalid
            record.outcome = self.outcomes.get(number, record.outcome)
        if self._all:
            self.times = Times(self.commands.slot_numbers, *self._submission.all_times(), self.host_records)
            return
        self._submit_ns, self._device_ns = self._submission.times_of(self, submitted)
        for number in self.commands.slots:
            if number not in self._submit_ns:
                self._submit_ns[number] = time.perf_counter_ns()
                self.outcomes.setdefault(number, "cancelled")

    def _submitted(self) -> list[int]:
        numbers = self.commands.slots
        return numbers if self._all else [number for number in numbers if self._submission.has_submitted(number)]
