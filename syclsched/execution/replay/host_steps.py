# SPDX-License-Identifier: Apache-2.0
"""Host steps of a replay: they divide its device work into levels, submitted one after another.

A host thread of the runner for each lane of the host executes the steps; the thread that completes the last step before
a level submits that level. Level 0 depends on no host step: it is submitted at the start, so that devices work in the
meantime.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from syclsched.errors import RunCancelledError
from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.failures import FailureReason, Failures, propagate_device_failures, task_failed_error
from syclsched.execution.core.program import ProgramNode
from syclsched.execution.core.waiting import Flag, wait_flag
from syclsched.execution.lanes.eventfd_wakeup import EventFd
from syclsched.execution.lanes.host_thread import HostThread
from syclsched.execution.replay.host_sync import HostStep, HostSyncSchedule
from syclsched.interrupts import HOST_CALL
from syclsched.model.plan import Instruction

if TYPE_CHECKING:
    from syclsched.execution.replay.replay import Replay

#: Executes a step; it may raise.
StepCall = Callable[[], object]


@dataclass(frozen=True, slots=True)
class HostSteps:
    """The host steps of a plan instance."""

    hosts: Sequence[HostThread]  # execute them, one for each lane of the schedule
    levels: HostSyncSchedule
    ends: Sequence[int]  # number of commands up to each level
    due: Sequence[int]  # the first and last level, and those that have commands
    passed: Sequence[Sequence[int]]  # for each lane, the number of its steps before each of these levels
    calls: Mapping[int, StepCall]  # by instruction number
    retried: list[str]  # names of retried tasks, once per retry; the calls append to it


class HostStepRun:
    """Submits the levels of one replay as its host steps complete, and ends it when all have."""

    def __init__(self, run: Replay, steps: HostSteps, *, shared: bool) -> None:
        self._run = run
        self._levels, self._ends, self._due, self._calls = steps.levels, steps.ends, steps.due, steps.calls
        self._retried = steps.retried
        self._retried.clear()
        #: For each step: whether it waits for all work on the lanes.
        self.is_exclusive = (False,) * len(steps.levels.steps) if shared else steps.levels.is_exclusive
        only_host = all(self.is_exclusive) or not steps.levels.of
        #: Whether the worker submits, because submission blocks and must not delay host steps.
        self._submits_on_worker = run.loop.blocks and not only_host
        #: Whether the worker waits for submissions, because the host thread cannot always wait.
        self._waits_on_worker = not run.loop.blocks and not only_host
        #: Whether the host threads have the run.
        self.on_host_threads = False
        #: The thread that starts the run, and that must pass it to the host threads.
        self._starter_thread: int | None = None
        # Reentrant: a garbage collection under the lock may drop the run, which cancels it.
        self._lock = threading.RLock()
        #: Number of levels with submissions, as in `HostSteps.due`, whose submission was begun.
        self.begun_levels = 0
        #: One more than the last level that was submitted.
        self.levels_submitted = 0
        self._submitting = False
        self.is_done = [False] * len(steps.levels.steps)
        #: Instruction numbers of steps being executed.
        self.running: set[int] = set()
        #: Whether no more steps may be executed.
        self._closed = False
        #: Instruction numbers of steps that have completed or were cancelled.
        self.completed: set[int] = set()
        self._watched: dict[int, Flag] = {}
        self._lanes = tuple(
            HostLaneRun(self, run, steps.levels, lane, passed, host)
            for lane, (host, passed) in enumerate(zip(steps.hosts, steps.passed, strict=True))
        )
        self._lanes_left = set(self._lanes)
        self._is_over = False
        #: The run on whose host thread this one was started, as that of a loop's body: cancelled with it.
        self._outer_is_cancelled = HOST_CALL.is_cancelled

    # --- for the replay ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Submit level 0, unless submission blocks for the length of the run, and start the host threads; once."""
        if self.on_host_threads:
            return
        self._starter_thread = threading.get_ident()
        try:
            if not self._run.loop.blocks:
                self.submit_due()
        except BaseException:
            self._run.abort()
            raise
        finally:
            self._pass_to_host_threads()

    def cancelled(self) -> None:
        """Have the host threads end the run, which was cancelled."""
        if not self.on_host_threads and self._starter_thread in (None, threading.get_ident()):
            self._pass_to_host_threads()  # the start was interrupted, or will find the run ended
        else:
            self._wake_lanes()

    def close(self) -> bool:
        """Execute no more steps; return False if one is being executed: then the lanes close when it has ended."""
        self._closed = True
        return not self.running

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction is submitted, a host step completes, or the run ends; return False on time-out."""
        if self._is_submitted(number):
            return True
        flag = self._watched.setdefault(number, Flag())
        # Checked again: it may have been submitted between the first check and the registration.
        return self._is_submitted(number) or wait_flag(flag, timeout_s)

    def leave_out_rest(self) -> list[str]:
        """Cancel all steps that were not executed, at the end; return the retried tasks, once per retry."""
        for node in self._levels.nodes:
            if node.id not in self.completed:
                self._leave_out(node)
        self._notify_waiters()
        return list(self._retried)

    # --- for the lanes ----------------------------------------------------------------------------

    def submit_due(self) -> None:
        """Submit the levels whose steps have completed, or have the worker do it."""
        due = self._due
        while True:
            with self._lock:
                begun, at = self.begun_levels, self.begun_levels
                while at < len(due) and all(lane.has_passed(at) for lane in self._lanes):
                    at += 1
                # A run that is ending submits nothing more before all its lanes have stopped.
                if self._submitting or at == begun or (begun and self._run.ending and at < len(due)):
                    return
                self.begun_levels = at
                if self._submits_on_worker:
                    self._run.worker.post(partial(self._submit_levels, due[at - 1]))
                    return
                self._submitting = True
            try:
                self._submit_levels(due[at - 1])
            finally:
                self._submitting = False

    def execute(self, node: ProgramNode, number: int) -> bool:
        """Execute a step, or cancel it after a failure; return False if the run has ended."""
        run, instruction = self._run, node.instruction
        if run.has_overdue:
            run.note_overdue()
        if run.ending or run.failures.cancels(instruction) or (node.events and self._has_failed_input(node)):
            self._leave_out(node)
            return True
        self.running.add(number)
        if self._closed:  # read after the addition: `close` writes first, and then reads the running steps
            self.running.discard(number)
            return False
        call = self._calls[number]
        failed: BaseException | None = None
        record = Record(begun_ns := time.perf_counter_ns(), start_ns=begun_ns)
        HOST_CALL.is_cancelled = self._is_cancelled
        try:
            call()
        except BaseException as error:  # an error of a user function must reach the caller, not end the thread
            failed = error
        HOST_CALL.is_cancelled = None
        record.finish_ns = time.perf_counter_ns()
        try:
            if isinstance(failed, RunCancelledError) and self._is_cancelled():
                run.abort()
                self._leave_out(node)
                return True
            if failed is not None or run.has_overdue:
                self._note_end(instruction, record, failed)
            else:
                run.failures.done(instruction)
            self._set_record(number, record)
        finally:
            self.running.discard(number)
        return True

    @property
    def is_watched(self) -> bool:
        """Whether callers wait for instructions."""
        return bool(self._watched)

    def step_done(self, index: int, wakes: Sequence[int]) -> None:
        """Wake waiters for a step that has completed or was cancelled."""
        self.is_done[index] = True
        for lane in wakes:
            self._lanes[lane].wake()
        self._notify_waiters()

    def lane_ended(self, lane: HostLaneRun) -> None:
        """End the run if its last lane has ended."""
        with self._lock:
            self._lanes_left.discard(lane)
        self._end_if_over()

    def fail(self, error: BaseException) -> None:
        """Cancel the run because an error stops its host steps."""
        self._run.fail(error)
        self._wake_lanes()

    # --- inside -----------------------------------------------------------------------------------

    def _is_cancelled(self) -> bool:
        outer = self._outer_is_cancelled
        return self._run.cancelled or (outer is not None and outer())

    def _pass_to_host_threads(self) -> None:
        for lane in self._lanes:
            lane.begin()
        self.on_host_threads = True

    def _wake_lanes(self) -> None:
        for lane in self._lanes:
            lane.wake()

    def _submit_levels(self, level: int) -> None:
        """Submit all levels up to one."""
        last = len(self._levels.steps)
        try:
            self._run.submit(self._ends[level], last=level == last)
            if level < last and self._waits_on_worker and not self.is_exclusive[level]:
                self._run.wait_on_worker()
        except BaseException as error:
            if not self.on_host_threads:  # still on the caller's thread
                raise
            self._run.fail(error)
        finally:
            self.levels_submitted = level + 1
            self._notify_waiters()
            if self._submits_on_worker or len(self._lanes) > 1:
                self._wake_lanes()
            self._end_if_over()

    def _end_if_over(self) -> None:
        """End the run once no lane has steps left and no more submissions follow."""
        with self._lock:
            if self._is_over or self._lanes_left or not self._run.submission_ended:
                return
            self._is_over = True
        self._run.watch.steps_done(self._run, on_worker=self._submits_on_worker)

    def _is_submitted(self, number: int) -> bool:
        run = self._run
        if run.finished.is_set() or run.submission_ended:
            return True
        if run.program.nodes[number].on_host:
            return number in self.completed
        return self.levels_submitted > self._levels.of[number]

    def _notify_waiters(self) -> None:
        for number, flag in list(self._watched.items()):
            if self._is_submitted(number):
                flag.set()

    def _note_end(self, instruction: Instruction, record: Record, failed: BaseException | None) -> None:
        """Note the end of a step that may have failed or be late."""
        run, number = self._run, instruction.id
        run.note_overdue()
        if run.is_late(number):
            record.outcome = "failed"
        elif failed is None:
            run.failures.done(instruction)
        else:
            reason: FailureReason = "raised" if instruction.kind == "host" else "copy"
            record.outcome = run.outcomes[number] = "failed"
            with self._lock:
                run.failures.record(instruction, task_failed_error(instruction, failed, "raised"), reason)
                run.failures.lost(instruction, begun=True)

    def _has_failed_input(self, node: ProgramNode) -> bool:
        """Return whether a step depends on an instruction that failed on its device."""
        run = self._run
        if not run.loop.any_failed(node.events):
            return False
        so_far = Failures(run.program.tasks)
        so_far.not_started, so_far.invalid = set(run.failures.not_started), set(run.failures.invalid)
        instructions = (instruction for _, instruction in run.program.plan.instructions())
        return node.id in propagate_device_failures(so_far, instructions, run.loop.failed())

    def _leave_out(self, node: ProgramNode) -> None:
        record = Record(time.perf_counter_ns(), "cancelled")
        self._run.outcomes[node.id] = "cancelled"
        with self._lock:
            self._run.failures.lost(node.instruction)
        self._set_record(node.id, record)

    def _set_record(self, number: int, record: Record) -> None:
        if self._run.recording:
            self._run.host_records[number] = record
        self.completed.add(number)


class HostLaneRun:
    """The steps of one lane of the host in one replay, executed in order by the lane's thread."""

    def __init__(
        self,
        run: HostStepRun,
        replay: Replay,
        levels: HostSyncSchedule,
        lane: int,
        passed: Sequence[int],
        host: HostThread,
    ) -> None:
        self._run, self._replay, self._host = run, replay, host
        self._indices, self._steps = levels.lanes[lane], levels.steps_of_lanes[lane]
        #: Number of steps before each level that is due, and the first of these levels that has not been passed.
        self._passed = passed
        self._level = bisect_right(passed, 0)
        #: Number of completed steps.
        self._position = 0
        #: Position of the last step for which the alarm was requested.
        self._alarm_set_for = -1

    def begin(self) -> None:
        """Have the lane's thread execute the steps; callable again after an interrupted call."""
        self._host.take(self)

    def wake(self) -> None:
        """Let the lane's thread check the steps again."""
        self._host.wake()

    def has_passed(self, level: int) -> bool:
        """Return whether all steps of the lane before a level, by its index in `HostSteps.due`, have completed."""
        return self._position >= self._passed[level]

    # --- for the host thread ----------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Number of completed steps of the lane."""
        return self._position

    @property
    def stepped(self) -> bool:
        """Whether no step of the lane is left, or no more may be executed."""
        return self._position == len(self._steps) or self._replay.submission_ended

    def advance(self, most: int) -> bool:
        """Execute the next step if it is ready and its index is below ``most``; return whether the run advanced."""
        at, run, replay = self._position, self._run, self._replay
        if run.begun_levels == 0:
            run.submit_due()
            return True
        if at >= most or at == len(self._steps) or replay.submission_ended:
            return False
        step = self._steps[at]
        if (step.level or step.before) and not (self._is_ready(step) or replay.ending):
            return False
        if step.node is not None and not run.execute(step.node, step.number):
            return False
        self._position = at + 1
        if step.wakes or run.is_watched:
            run.step_done(self._indices[at], step.wakes)
        if at + 1 >= self._passed[self._level]:
            self._level = bisect_right(self._passed, at + 1)
            run.submit_due()
        return True

    def wait_if_exclusive(self) -> bool:
        """Wait for the next step's predecessors if no other work is in flight; return whether that was so."""
        # A CPU device makes the waiting thread execute kernels; with other work in flight it would return late.
        at, run = self._position, self._run
        step = self._steps[at]
        if run.levels_submitted < step.level or not run.is_exclusive[self._indices[at]] or self._replay.ending:
            return False
        self._replay.loop.wait_for_slots(step.events)
        return True

    def notify_on(self, alarm: EventFd) -> bool:
        """Have an alarm signalled when predecessors of the next step complete; return whether it will be."""
        at, loop = self._position, self._replay.loop
        step = self._steps[at]
        if self._run.levels_submitted < step.level or not self._others_are_done(step):
            return True  # the thread that submits, or that completes the other step, signals it
        if self._alarm_set_for < at:
            pending = [n for n in step.events if loop.is_pending(n)]
            if alarm.fd is None or not all(loop.signal_eventfd(number, alarm.fd) for number in pending):
                return False
            self._alarm_set_for = at
            if not pending:  # all have completed in the meantime
                alarm.signal()
        return True

    def fail(self, error: BaseException) -> None:
        """Cancel the run because an error stops its host steps."""
        self._run.fail(error)

    def end(self) -> None:
        """Note that the lane's thread has left the run."""
        self._run.lane_ended(self)

    def _is_ready(self, step: HostStep) -> bool:
        if self._run.levels_submitted < step.level or not self._others_are_done(step):
            return False
        is_pending = self._replay.loop.is_pending
        return not (step.events and any(is_pending(number) for number in step.events))

    def _others_are_done(self, step: HostStep) -> bool:
        done = self._run.is_done
        return not step.before or all(done[index] for index in step.before)
