# SPDX-License-Identifier: Apache-2.0
"""Host steps of a replay: they divide its device work into levels, submitted one after another.

The runner's host thread executes each step, and then submits the next level. Level 0 depends on no host step: it is
submitted at the start, so that devices work in the meantime.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.failures import FailureReason, Failures, propagate_device_failures, task_failed_error
from syclsched.execution.core.program import ProgramNode
from syclsched.execution.core.waiting import Flag, wait_flag
from syclsched.execution.lanes.eventfd_wakeup import EventFd
from syclsched.execution.lanes.host_thread import HostThread
from syclsched.execution.replay.host_sync import HostSyncSchedule

if TYPE_CHECKING:
    from syclsched.execution.replay.replay import Replay

#: Executes a step; it may raise.
StepCall = Callable[[], object]


@dataclass(frozen=True, slots=True)
class HostSteps:
    """The host steps of a plan instance."""

    host: HostThread  # executes them
    levels: HostSyncSchedule
    ends: Sequence[int]  # number of commands up to each level
    calls: Mapping[int, StepCall]  # by instruction number
    retried: list[str]  # names of retried tasks, once per retry; the calls append to it


class HostStepRun:
    """Executes the host steps of one replay, and submits its levels."""

    def __init__(self, run: Replay, steps: HostSteps, *, shared: bool) -> None:
        self._run = run
        self._host, self._levels, self._ends, self._calls = steps.host, steps.levels, steps.ends, steps.calls
        self._retried = steps.retried
        self._retried.clear()
        #: For each step: whether it waits for all work on the lanes.
        self._is_exclusive = (False,) * len(steps.levels.steps) if shared else steps.levels.is_exclusive
        all_exclusive = all(self._is_exclusive)
        #: Whether the worker submits, because submission blocks and must not delay host steps.
        self._submits_on_worker = run.loop.blocks and not all_exclusive
        #: Whether the worker waits for submissions, because the host thread cannot always wait.
        self._waits_on_worker = not run.loop.blocks and not all_exclusive
        #: Whether the host thread has the run.
        self.on_host_thread = False
        #: The thread that starts the run, and that must pass it to the host thread.
        self._starter_thread: int | None = None
        #: Number of levels whose submission was requested, and number submitted.
        self._levels_requested = self._levels_submitted = 0
        self._steps_done = 0
        #: Instruction number of the step being executed.
        self.running: int | None = None
        #: Instruction numbers of steps that have completed or were cancelled.
        self.completed: set[int] = set()
        #: Index of the last step for which the alarm was requested.
        self._alarm_set_for = -1
        self._watched: dict[int, Flag] = {}

    # --- for the replay ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Submit level 0, unless submission blocks for the length of the run, and start the host thread; once."""
        if self.on_host_thread:
            return
        self._starter_thread = threading.get_ident()
        try:
            if not self._run.loop.blocks:
                self._request_level()
        except BaseException:
            self._run.abort()
            raise
        finally:
            self._pass_to_host_thread()

    def cancelled(self) -> None:
        """Have the host thread end the run, which was cancelled."""
        if not self.on_host_thread and self._starter_thread in (None, threading.get_ident()):
            self._pass_to_host_thread()  # the start was interrupted, or will find the run ended
        else:
            self._host.wake()

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
                self._leave_out(node, Record(time.perf_counter_ns()))
        self._notify_waiters()
        return list(self._retried)

    # --- for the host thread ----------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Number of completed steps."""
        return self._steps_done

    @property
    def stepped(self) -> bool:
        """Whether all steps have completed and no more submissions follow."""
        return self._run.submission_ended

    def advance(self, most: int) -> bool:
        """Execute the next step if it is ready and its index is below ``most``; return whether the run advanced."""
        if self._levels_requested == 0:
            self._request_level()
            return True
        at, steps = self._steps_done, self._levels.steps
        if self.stepped or self._levels_submitted < self._levels_requested or at == len(steps) or at >= most:
            return False
        if not self._run.ending and any(self._run.loop.is_pending(number) for number in steps[at].events):
            return False
        node = steps[at].node
        if node is not None:
            self._execute_or_cancel(node)
        self._steps_done += 1
        self._notify_waiters()
        self._request_level()
        return True

    def wait_if_exclusive(self) -> bool:
        """Wait for the next step's predecessors if no other work is in flight; return whether that was so."""
        # A CPU device makes the waiting thread execute kernels; with other work in flight it would return late.
        at = self._steps_done
        if self._levels_submitted < self._levels_requested or not self._is_exclusive[at] or self._run.ending:
            return False
        self._run.loop.wait_for_slots(self._levels.steps[at].events)
        return True

    def notify_on(self, alarm: EventFd) -> bool:
        """Have an alarm signalled when predecessors of the next step complete; return whether it will be."""
        if self._levels_submitted < self._levels_requested:
            return True  # the submitting thread signals it
        at, loop = self._steps_done, self._run.loop
        if self._alarm_set_for < at:
            pending = [n for n in self._levels.steps[at].events if loop.is_pending(n)]
            if alarm.fd is None or not all(loop.signal_eventfd(number, alarm.fd) for number in pending):
                return False
            self._alarm_set_for = at
            if not pending:  # all have completed in the meantime
                alarm.ring()
        return True

    def fail(self, error: BaseException) -> None:
        """Cancel the run because an error stops its host steps."""
        self._run.fail(error)

    def end(self) -> None:
        """End the run once all its steps have completed."""
        self._run.watch.steps_done(self._run, on_worker=self._submits_on_worker)

    # --- inside -----------------------------------------------------------------------------------

    def _pass_to_host_thread(self) -> None:
        self._host.take(self)
        self.on_host_thread = True

    def _request_level(self) -> None:
        """Submit the next level, or have the worker do it."""
        self._levels_requested += 1
        if self._submits_on_worker:
            self._run.worker.post(self._submit_level)
        else:
            self._submit_level()

    def _submit_level(self) -> None:
        level, last = self._levels_submitted, len(self._levels.steps)
        try:
            if level == last or self._ends[level] > (self._ends[level - 1] if level else 0):
                self._run.submit(self._ends[level], last=level == last)
                if level < last and self._waits_on_worker and not self._is_exclusive[level]:
                    self._run.lend()
        except BaseException as error:
            if not self.on_host_thread:  # still on the caller's thread
                raise
            self._run.fail(error)
        finally:
            self._levels_submitted += 1
            self._notify_waiters()
            if self._submits_on_worker:
                self._host.wake()

    def _is_submitted(self, number: int) -> bool:
        run = self._run
        if run.finished.is_set() or run.submission_ended:
            return True
        if run.program.nodes[number].on_host:
            return number in self.completed
        return self._levels_submitted > self._levels.of[number]

    def _notify_waiters(self) -> None:
        for number, flag in list(self._watched.items()):
            if self._is_submitted(number):
                flag.set()

    def _execute_or_cancel(self, node: ProgramNode) -> None:
        """Execute a step, or cancel it after a failure."""
        run = self._run
        run.note_overdue()
        record = Record(time.perf_counter_ns())
        if run.ending or run.failures.cancels(node.instruction) or self._has_failed_input(node):
            self._leave_out(node, record)
        else:
            self._perform(node, record)
            self._set_record(node, record)

    def _perform(self, node: ProgramNode, record: Record) -> None:
        run, instruction = self._run, node.instruction
        failed: BaseException | None = None
        self.running = node.id
        record.start_ns = time.perf_counter_ns()
        try:
            self._calls[node.id]()
        except BaseException as error:  # an error of a user function must reach the caller, not end the thread
            failed = error
        record.finish_ns = time.perf_counter_ns()
        self.running = None
        run.note_overdue()
        if run.is_late(node.id):
            record.outcome = "failed"
        elif failed is None:
            run.failures.done(instruction)
        else:
            reason: FailureReason = "raised" if instruction.kind == "host" else "copy"
            record.outcome = run.outcomes[node.id] = "failed"
            run.failures.record(instruction, task_failed_error(instruction, failed, "raised"), reason)
            run.failures.lost(instruction, begun=True)

    def _has_failed_input(self, node: ProgramNode) -> bool:
        """Return whether a step depends on an instruction that failed on its device."""
        run = self._run
        if not run.loop.any_failed(node.events):
            return False
        so_far = Failures(run.program.tasks)
        so_far.left_out, so_far.spoilt = set(run.failures.left_out), set(run.failures.spoilt)
        instructions = (instruction for _, instruction in run.program.plan.instructions())
        return node.id in propagate_device_failures(so_far, instructions, run.loop.failed())

    def _leave_out(self, node: ProgramNode, record: Record) -> None:
        record.outcome = self._run.outcomes[node.id] = "cancelled"
        self._run.failures.lost(node.instruction)
        self._set_record(node, record)

    def _set_record(self, node: ProgramNode, record: Record) -> None:
        if self._run.recording:
            self._run.host_records[node.id] = record
        self.completed.add(node.id)
