# SPDX-License-Identifier: Apache-2.0
"""Replay of a plan with host tasks: device work is submitted in levels, separated by host steps.

The runner's host thread executes each step, and then submits the next level. Level 0 depends on no host step: it is
submitted at the start, so that devices work in the meantime.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.failures import FailureReason, Failures, propagate_device_failures, task_failed_error
from syclsched.execution.core.program import ProgramNode
from syclsched.execution.core.progress import LaneProgress, ProgressTracker
from syclsched.execution.core.waiting import Flag, wait_flag
from syclsched.execution.lanes.eventfd_wakeup import EventFd
from syclsched.execution.lanes.host_thread import HostThread
from syclsched.execution.replay.host_sync import HostSyncSchedule
from syclsched.execution.replay.replay import Replay
from syclsched.execution.replay.stream_replay import StagedReplay

#: Executes a step; it may raise.
StepCall = Callable[[], object]


class HostStepReplay(Replay):
    """A replay with host steps.

    `PlanInstance`, which makes it, sets `host`, `levels`, `ends`, `calls` and `retried`.
    """

    host: HostThread
    levels: HostSyncSchedule
    #: Number of commands up to each level.
    ends: Sequence[int]
    #: Callables of the host steps, by instruction number.
    calls: Mapping[int, StepCall]
    #: Names of retried tasks, once per retry.
    retried: list[str]

    #: Whether the host thread has the run.
    _on_host_thread = False
    #: The thread that starts the run, and that must pass it to the host thread.
    _starter_thread: int | None = None
    _concluded = False
    #: Number of levels whose submission was requested, and number submitted.
    _levels_requested = _levels_submitted = 0
    #: Number of submissions made or skipped; and whether they are made one by one, after a failure.
    _submissions_done = 0
    _one_by_one = False
    _steps_done = 0
    #: Instruction number of the step being executed.
    _running: int | None = None
    #: Index of the last step for which the alarm was requested.
    _alarm_set_for = -1

    # --- engine interface -------------------------------------------------------------------------

    def start(self) -> None:
        """Submit level 0, unless submission blocks for the length of the run, and start the host thread."""
        self.begun = True
        self._commands.begin()
        self.retried.clear()
        self._loop.time_calls(self.recording and self.time_each_call)
        self._begin_submission()

    def cancel(self) -> None:
        """Stop submitting; submitted work and a running step still complete. Returns at once."""
        with self._lock:
            if not self._on_host_thread or self._ended:
                super().cancel()
            else:
                self.cancelled = True
                self._loop.stop()
        if not self._on_host_thread and self._starter_thread in (None, threading.get_ident()):
            self._pass_to_host_thread()  # the start was interrupted, or will find the run ended
        else:
            self.host.wake()

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction is submitted, a host step completes, or the run ends; return False on time-out."""
        if self._is_submitted(number):
            return True
        flag = self._watched.setdefault(number, Flag())
        # Checked again: it may have been submitted between the first check and the registration.
        return self._is_submitted(number) or wait_flag(flag, timeout_s)

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted or, on the host, has completed or was cancelled."""
        return (
            self._through or number in self._completed_steps
            if number in self._step_positions
            else super().passed(number)
        )

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed or was cancelled."""
        return (
            self._over or number in self._completed_steps
            if number in self._step_positions
            else super().is_complete(number)
        )

    def is_step(self, number: int) -> bool:
        """Return whether an instruction is a host step."""
        return number in self._step_positions

    def is_running(self, number: int) -> bool:
        """Return whether a host step is being executed."""
        return self._running == number

    # --- for the host thread ----------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Number of completed steps."""
        return self._steps_done

    @property
    def stepped(self) -> bool:
        """Whether all steps have completed and no more submissions follow."""
        return self._ended

    def advance(self, most: int) -> bool:
        """Execute the next step if it is ready and its index is below ``most``; return whether the run advanced."""
        if self._levels_requested == 0:
            self._request_level()
            return True
        at = self._steps_done
        if self._ended or self._levels_submitted < self._levels_requested or at == len(self.levels.steps) or at >= most:
            return False
        step = self.levels.steps[at]
        if not self._ending and any(self._loop.is_pending(number) for number in step.events):
            return False
        if step.node is not None:
            self._execute_or_cancel(step.node)
        self._steps_done += 1
        self._notify_waiters()
        self._request_level()
        return True

    def wait_if_exclusive(self) -> bool:
        """Wait for the next step's predecessors if no other work is in flight; return whether that was so."""
        # A CPU device makes the waiting thread execute kernels; with other work in flight it would return late.
        at = self._steps_done
        if self._levels_submitted < self._levels_requested or not self._is_exclusive[at] or self._ending:
            return False
        self._loop.wait_for_slots(self.levels.steps[at].events)
        return True

    def notify_on(self, alarm: EventFd) -> bool:
        """Have an alarm signalled when predecessors of the next step complete; return whether it will be."""
        if self._levels_submitted < self._levels_requested:
            return True  # the submitting thread signals it
        at = self._steps_done
        if self._alarm_set_for < at:
            pending = [n for n in self.levels.steps[at].events if self._loop.is_pending(n)]
            if alarm.fd is None or not all(self._loop.signal_eventfd(number, alarm.fd) for number in pending):
                return False
            self._alarm_set_for = at
            if not pending:  # all have completed in the meantime
                alarm.ring()
        return True

    def fail(self, error: BaseException) -> None:
        """Cancel the run because an error stops its host steps."""
        self.error = self._ended_by(error)
        with self._lock:
            self.cancelled = True
            self._end()

    def end(self) -> None:
        """End the run once all its steps have completed."""
        if self._concluded:
            return
        self._concluded = True
        if self._submits_on_worker:
            self._worker.post(self._finish)
        else:
            self._finish()

    # --- inside -----------------------------------------------------------------------------------

    @cached_property
    def _step_positions(self) -> Mapping[int, int]:
        return {node.id: position for position, node in enumerate(self.levels.nodes)}

    @cached_property
    def _completed_steps(self) -> set[int]:
        return set()

    @cached_property
    def _watched(self) -> dict[int, Flag]:
        return {}

    @cached_property
    def _positions(self) -> ProgressTracker:
        return _HostStepProgress(self)

    @property
    def _is_exclusive(self) -> Sequence[bool]:
        return self.levels.is_exclusive

    @property
    def _ending(self) -> bool:
        return self.cancelled or self.failures.halted

    @property
    def _submits_on_worker(self) -> bool:
        """Whether the worker submits, because submission blocks and must not delay host steps."""
        return self._loop.blocks and not all(self._is_exclusive)

    @property
    def _waits_on_worker(self) -> bool:
        """Whether the worker waits for submissions, because the host thread cannot always wait."""
        return not self._loop.blocks and not all(self._is_exclusive)

    def _begin_submission(self) -> None:
        self._starter_thread = threading.get_ident()
        try:
            if not self._loop.blocks:
                self._request_level()
        except BaseException:
            with self._lock:
                self.cancelled = True
                self._end()
            raise
        finally:
            self._pass_to_host_thread()

    def _pass_to_host_thread(self) -> None:
        self.host.take(self)
        self._on_host_thread = True

    def _request_level(self) -> None:
        """Submit the next level, or have the worker do it."""
        self._levels_requested += 1
        if self._submits_on_worker:
            self._worker.post(self._submit_level)
        else:
            self._submit_level()

    def _submit_level(self) -> None:
        level, last = self._levels_submitted, len(self.levels.steps)
        try:
            if level == last or self.ends[level] > (self.ends[level - 1] if level else 0):
                Replay.submit_until(self, self.ends[level])
                if level < last and self._waits_on_worker and not self._is_exclusive[level]:
                    self._lend()
        except BaseException as error:
            if not self._on_host_thread:  # still on the caller's thread
                raise
            self.error = self._ended_by(error)
        finally:
            self._levels_submitted += 1
            self._notify_waiters()
            if self._submits_on_worker:
                self.host.wake()

    def _submit_to(self, end: int) -> bool:
        """Submit the next level, up to submission ``end``; return whether it is the last level."""
        self._note_overdue()
        if self._one_by_one or self._ending or not self.failures.none:
            self._one_by_one = True
            left = self._commands.commands_from(self._submissions_done, end)
            self._submit_apart(each for joint in left for each in joint.apart())
        else:
            done = self._commands.submit(end)
            self._all = done == len(self._commands)
            if done < end:
                self._one_by_one = True
                self._submit_rest(done, end)
        self._submissions_done = end
        return self._levels_submitted == len(self.levels.steps)

    def _await_end(self) -> None:
        """Do nothing: the host thread ends the run after the last step."""

    def _is_submitted(self, number: int) -> bool:
        if self.finished.is_set() or self._ended:
            return True
        return (
            number in self._completed_steps
            if number in self._step_positions
            else self._levels_submitted > self.levels.of[number]
        )

    def _notify_waiters(self) -> None:
        for number, flag in list(self._watched.items()):
            if self._is_submitted(number):
                flag.set()

    def _execute_or_cancel(self, node: ProgramNode) -> None:
        """Execute a step, or cancel it after a failure."""
        self._note_overdue()
        record = Record(time.perf_counter_ns())
        if self._ending or self.failures.cancels(node.instruction) or self._has_failed_input(node):
            self._leave_out(node, record)
        else:
            self._perform(node, record)
            self._set_record(node, record)

    def _perform(self, node: ProgramNode, record: Record) -> None:
        instruction = node.instruction
        failed: BaseException | None = None
        self._running = node.id
        record.start_ns = time.perf_counter_ns()
        try:
            self.calls[node.id]()
        except BaseException as error:  # an error of a user function must reach the caller, not end the thread
            failed = error
        record.finish_ns = time.perf_counter_ns()
        self._running = None
        self._note_overdue()
        if node.id in self._overdue:
            record.outcome = "failed"
        elif failed is None:
            self.failures.done(instruction)
        else:
            reason: FailureReason = "raised" if instruction.kind == "host" else "copy"
            record.outcome = self.outcomes[node.id] = "failed"
            self.failures.record(instruction, task_failed_error(instruction, failed, "raised"), reason)
            self.failures.lost(instruction, begun=True)

    def _has_failed_input(self, node: ProgramNode) -> bool:
        """Return whether a step depends on an instruction that failed on its device."""
        if not self._loop.any_failed(node.events):
            return False
        so_far = Failures(self.program.tasks)
        so_far.left_out, so_far.spoilt = set(self.failures.left_out), set(self.failures.spoilt)
        return node.id in propagate_device_failures(so_far, self.program.plan, self._loop.failed())

    def _finish(self) -> None:
        for node in self.levels.nodes:
            if node.id not in self._completed_steps:
                self._leave_out(node, Record(time.perf_counter_ns()))
        self.counts.retried = list(self.retried)
        super()._finish()

    def _record(self, submitted: list[int]) -> None:
        for number, record in self.host_records.items():  # its inputs may have proved invalid
            record.outcome = self.outcomes.get(number, record.outcome)
        super()._record(submitted)

    def _leave_out(self, node: ProgramNode, record: Record) -> None:
        record.outcome = self.outcomes[node.id] = "cancelled"
        self.failures.lost(node.instruction)
        self._set_record(node, record)

    def _set_record(self, node: ProgramNode, record: Record) -> None:
        if self.recording:
            self.host_records[node.id] = record
        self._completed_steps.add(node.id)


class StagedHostStepReplay(HostStepReplay, StagedReplay):
    """Replay of a stream's instance with host steps: level 0 is submitted in stages."""

    def start(self) -> None:
        """Mark the run as begun; `submit_until` submits."""
        self.retried.clear()
        StagedReplay.start(self)

    def submit_until(self, count: int) -> None:
        """Submit up to a number of commands of level 0; after its last command, start the host thread."""
        if count < self.ends[0]:
            Replay.submit_until(self, count)
        elif not self._on_host_thread:
            self._begin_submission()

    def end(self) -> None:
        """Do nothing: the thread that polls the stream ends the run."""

    @property
    def _is_exclusive(self) -> Sequence[bool]:
        return (False,) * len(self.levels.steps)  # other instances have work on the same lanes

    def _await_end(self) -> None:
        StagedReplay._await_end(self)


class _HostStepProgress(ProgressTracker):
    """Lane progress in which a host step counts as running only while it is being executed."""

    def __init__(self, replay: HostStepReplay) -> None:
        super().__init__(replay.program, replay.is_complete, replay.passed)
        self._replay = replay

    def now(self) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes."""
        replay = self._replay
        return [replace(p, begun=replay.is_running(p.number)) if replay.is_step(p.number) else p for p in super().now()]
