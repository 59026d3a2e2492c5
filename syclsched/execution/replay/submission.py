# SPDX-License-Identifier: Apache-2.0
"""Submission strategies: the part of a replay that brings its commands to the lanes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.devices.native.host_tasks import wait_for
from syclsched.devices.submission.command_list import CommandList
from syclsched.devices.submission.commands import Batch, Command, CommandSequence
from syclsched.devices.submission.lane_thread_batch import LaneThreadBatch
from syclsched.devices.submission.native_run import NativeRun
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import ExecutionError
from syclsched.execution.core.clock import ClockMap
from syclsched.execution.core.failures import FailureReason, task_failed_error

if TYPE_CHECKING:
    from syclsched.execution.replay.replay import Replay

Nanoseconds = np.ndarray[Any, np.dtype[np.int64]]


class SubmissionStrategy:
    """Everything at once, to the lanes' queues; with host steps, level by level."""

    #: Whether work is in flight before the start, so that a cancelled run must be started, too.
    is_under_way = False
    #: Whether lane threads execute it, with times on the host's clock.
    on_lane_threads = False

    def __init__(self, commands: CommandList, loop: SubmissionLoop, *, time_each_call: bool = False) -> None:
        self.commands, self.loop = commands, loop
        #: Whether library calls are timed one by one; otherwise only the end of all of them is known.
        self._time_each_call = time_each_call
        #: Number of submissions made or skipped; and whether they are made one by one, after a failure.
        self._submissions_done = 0
        self._one_by_one = False
        #: Instructions submitted one by one or skipped, with their times.
        self._batches: list[Batch] = []
        self._submit_ns: dict[int, int] = {}

    @property
    def times_each_call(self) -> bool:
        """Whether the times of each library call are known, and not only shares of the time of several."""
        return self._time_each_call

    def start(self, run: Replay) -> None:
        """Submit everything; if submission blocks for the length of the run, do so on the worker and return at once."""
        self.commands.begin()
        self.loop.time_calls(self._time_each_call)
        if self.loop.blocks and run.steps is None:
            run.worker.post(run.execute)
        else:
            run.submit_until(len(self.commands.commands))

    def submit(self, run: Replay, end: int) -> bool:
        """Submit everything before submission number ``end``; return whether all commands were submitted at once.

        After a failure commands are submitted one by one, without those that depend on it.
        """
        run.note_overdue()
        if self._one_by_one or run.ending or not run.failures.none:
            self._one_by_one = True
            self._submit_singly(run, self.commands.commands_from(self._submissions_done, end))
        else:
            self._one_by_one = not self._submit_at_once(run, end)
        self._submissions_done = end
        return not self._one_by_one and end == len(self.commands)

    def wait(self) -> None:
        """Wait for all submissions."""
        self.commands.wait()
        for batch in self._batches:
            self.loop.wait(batch)

    def has_begun(self, number: int) -> bool:
        """Return whether an instruction is being executed before it counts as submitted."""
        return False

    def has_submitted(self, number: int) -> bool:
        """Return whether an instruction has been submitted, and has not been replaced."""
        return self.loop.has_event(number)

    def is_complete(self, number: int, *, ended: bool) -> bool:
        """Return whether an instruction has completed or, if submission has ended, was never submitted."""
        return self.loop.is_complete(number) if self.loop.has_event(number) else ended

    def all_times(self) -> tuple[Nanoseconds, Nanoseconds, Nanoseconds]:
        """Return times of submission, start and end of all commands, in the order of their slots."""
        return self.commands.submit_ns(), *self.commands.times()

    def times_of(self, run: Replay, submitted: Sequence[int]) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        """Return times of submission, and times of start and end, of some instructions, by number."""
        known_ns = dict(zip(self.commands.slots, self.commands.submit_ns().tolist(), strict=True))
        device_ns = dict(zip(submitted, self.loop.times(submitted), strict=True))
        return {number: known_ns[number] for number in submitted} | self._submit_ns, device_ns

    # --- inside -----------------------------------------------------------------------------------

    def _submit_at_once(self, run: Replay, end: int) -> bool:
        """Submit everything before submission number ``end``; return False if some was refused or cancelled."""
        done = self.commands.submit(end)
        if done == end:
            return True
        partial = self.commands.sequence_around(done)
        if partial is not None:
            self._refused(run, partial, begun=True)
        self._submit_singly(run, self.commands.commands_from(done, end))
        return False

    def _submit_singly(self, run: Replay, commands: Iterable[Command], *, begun: bool = False) -> None:
        """Submit commands one by one, except cancelled ones; they may be the rest of a partly submitted command."""
        for command in (each for joint in commands for each in joint.split_by_slot()):
            instruction = run.program.nodes[command.slot].instruction
            if run.ending or run.failures.cancels(instruction):
                run.outcomes[command.slot] = "cancelled"
                self._skip(run, command.slot, begun=begun)
                continue
            batch = self.loop.submit([command])
            self._batches.append(batch)
            if batch.done:
                self._submit_ns[command.slot] = batch.submit_ns[0]
                run.failures.done(instruction)
            else:
                self._refused(run, command, begun=begun)

    def _refused(self, run: Replay, command: Command, *, begun: bool) -> None:
        """Record a command that the runtime refuses; if the run was cancelled, as cancelled."""
        instruction = run.program.nodes[command.slot].instruction
        if run.cancelled:
            run.outcomes[command.slot] = "cancelled"
        else:
            run.outcomes[command.slot] = "failed"
            why = "the runtime refuses it" + (" in the middle of its steps" if begun else "")
            reason: FailureReason = "copy" if instruction.kind == "copy" else "submission"
            error = ExecutionError(command.refusal or why)
            run.failures.record(instruction, task_failed_error(instruction, error, "could not be submitted:"), reason)
        self._skip(run, command.slot, begun=begun)

    def _skip(self, run: Replay, number: int, *, begun: bool) -> None:
        """Record a skipped instruction, and submit a fence in its place: others may depend on its predecessors."""
        node = run.program.nodes[number]
        run.failures.lost(node.instruction, begun=begun)
        self._submit_ns[number] = time.perf_counter_ns()
        if not run.ending:
            batch = self.loop.submit([self.loop.fence(number, node.lane, node.events)])
            self._batches.append(batch)
            if not batch.done:  # even the fence is refused: the host waits
                for before in node.events:
                    if self.loop.has_event(before):
                        wait_for(self.loop.event(before))


class StagedSubmission(SubmissionStrategy):
    """Stage by stage, by the thread that needs the results."""

    def start(self, run: Replay) -> None:
        """Mark the run as begun; `Replay.submit_until` submits."""
        self.commands.begin()
        run.submitted_all.set()


class BegunSubmission(SubmissionStrategy):
    """Begun by a one-call run that takes long or has failed, which is taken over."""

    is_under_way = True

    def __init__(self, commands: CommandList, loop: SubmissionLoop, native_run: NativeRun) -> None:
        super().__init__(commands, loop)
        self._native_run: NativeRun | None = native_run

    def start(self, run: Replay) -> None:
        """Have the worker take the run over and wait for its end; return at once."""
        run.worker.post(partial(self._take_over, run))

    def _take_over(self, run: Replay) -> None:
        native_run, self._native_run = self._native_run, None
        if native_run is None:  # `start` was interrupted, and called again
            return
        try:
            portions = native_run.take_over()
            self.commands.adopt(native_run.done, portions)
        except BaseException as error:
            run.fail(ExecutionError(f"the run could not be taken over: {type(error).__name__}: {error}"))
        run.execute()  # refused commands are submitted again, and reported as by any run


class LaneThreadSubmission(SubmissionStrategy):
    """Execution by lane threads; if they refuse a command, the remaining commands are submitted to queues."""

    on_lane_threads = True

    def __init__(
        self,
        commands: CommandList,
        loop: SubmissionLoop,
        batch: LaneThreadBatch,
        device_clocks: Callable[[], Mapping[str, ClockMap]],
    ) -> None:
        super().__init__(commands, loop)
        self._batch = batch
        self._device_clocks = device_clocks
        batch.begin()

    def start(self, run: Replay) -> None:
        """Have the worker execute the run; return at once."""
        self.commands.begin()
        run.worker.post(run.execute)

    def has_begun(self, number: int) -> bool:
        """Return whether an instruction is being executed: its deadline applies."""
        return self._batch.is_begun(number)

    def has_submitted(self, number: int) -> bool:
        """Return whether an instruction has been executed or submitted."""
        return self._batch.is_done(number) or super().has_submitted(number)

    def is_complete(self, number: int, *, ended: bool) -> bool:
        """Return whether an instruction has completed or, if submission has ended, was never submitted."""
        return self._batch.is_done(number) or super().is_complete(number, ended=ended)

    def _submit_at_once(self, run: Replay, end: int) -> bool:
        """Execute everything; return False if some was refused or cancelled."""
        if self._batch.perform():
            return True
        for command in self.commands.commands:
            if not self._batch.is_done(command.slot):
                parts = self._batch.unfinished_parts(command)
                begun = len(parts) < len(command.parts)  # before another lane failed: finish it
                self._submit_singly(
                    run, [CommandSequence(command.slot, tuple(parts)) if begun else command], begun=begun
                )
        return False

    def all_times(self) -> tuple[Nanoseconds, Nanoseconds, Nanoseconds]:
        """Return times of start, start and end of all commands, in the order of their slots."""
        start_ns, end_ns = self._batch.times()
        return start_ns, start_ns, end_ns

    def times_of(self, run: Replay, submitted: Sequence[int]) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        """Return times of submission, and times of start and end, of some instructions, by number."""
        times = zip(self.commands.slots, *(each.tolist() for each in self._batch.times()), strict=True)
        host_ns = {number: (start, end) for number, start, end in times if self._batch.is_done(number)}
        begun_ns = {number: start for number, (start, _) in host_ns.items()}
        # Commands that were submitted have times on the device's clock: convert them to the host's.
        late = [number for number in submitted if number not in host_ns]
        clocks = self._device_clocks() if late else {}
        for number, (start, end) in zip(late, self.loop.times(late), strict=True):
            clock = clocks.get(run.program.plan.lanes[run.program.nodes[number].lane].name)
            if clock is not None:
                host_ns[number] = (clock.to_host_ns(start), clock.to_host_ns(end))
        return begun_ns | self._submit_ns, host_ns
