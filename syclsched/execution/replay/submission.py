# SPDX-License-Identifier: Apache-2.0
"""Submission strategies: the part of a replay that brings its commands to the lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.devices.submission.command_list import CommandList
from syclsched.devices.submission.commands import CommandSequence
from syclsched.devices.submission.lane_thread_batch import LaneThreadBatch
from syclsched.devices.submission.native_run import NativeRun
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import ExecutionError
from syclsched.execution.core.clock import ClockMap

if TYPE_CHECKING:
    from syclsched.execution.replay.replay import Replay

#: Why a command was refused after some of its submissions.
IN_THE_MIDDLE = "the runtime refuses it in the middle of its steps"

Nanoseconds = np.ndarray[Any, np.dtype[np.int64]]


class Submission:
    """Everything at once, to the lanes' queues; with host steps, level by level."""

    #: Whether work is in flight before the start, so that a cancelled run must be started, too.
    is_under_way = False
    #: Whether lane threads execute it, with times on the host's clock.
    on_lane_threads = False

    def __init__(self, commands: CommandList, loop: SubmissionLoop, *, time_each_call: bool = False) -> None:
        self._commands, self._loop = commands, loop
        #: Whether library calls are timed one by one; otherwise only the end of all of them is known.
        self._time_each_call = time_each_call

    def start(self, run: Replay) -> None:
        """Submit everything; if submission blocks for the length of the run, do so on the worker and return at once."""
        self._commands.begin()
        self._loop.time_calls(self._time_each_call)
        if self._loop.blocks and run.steps is None:
            run.worker.post(run.submit_all)
        else:
            run.submit_all()

    def submit(self, run: Replay, end: int) -> bool:
        """Submit everything before submission number ``end``; return False if some was refused or cancelled."""
        done = self._commands.submit(end)
        if done == end:
            return True
        partial = self._commands.sequence_around(done)
        if partial is not None:
            run.refused(partial.slot, partial.refusal or IN_THE_MIDDLE, begun=True)
        run.submit_singly(self._commands.commands_from(done, end))
        return False

    def has_begun(self, number: int) -> bool:
        """Return whether an instruction is being executed before it counts as submitted."""
        return False

    def has_submitted(self, number: int) -> bool:
        """Return whether an instruction has been submitted, and has not been replaced."""
        return self._loop.has_event(number)

    def is_complete(self, number: int, *, ended: bool) -> bool:
        """Return whether an instruction has completed or, if submission has ended, was never submitted."""
        return self._loop.is_complete(number) if self._loop.has_event(number) else ended

    def all_times(self) -> tuple[Nanoseconds, Nanoseconds, Nanoseconds]:
        """Return times of submission, start and end of all commands, in the order of their slots."""
        return self._commands.submit_ns(), *self._commands.times()

    def times_of(self, run: Replay, submitted: Sequence[int]) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        """Return times of submission, and times of start and end, of some instructions, by number."""
        known_ns = dict(zip(self._commands.slots, self._commands.submit_ns().tolist(), strict=True))
        device_ns = dict(zip(submitted, self._loop.times(submitted), strict=True))
        return {number: known_ns[number] for number in submitted}, device_ns


class StagedSubmission(Submission):
    """Stage by stage, by the thread that needs the results."""

    def start(self, run: Replay) -> None:
        """Mark the run as begun; `Replay.submit_until` submits."""
        self._commands.begin()
        run.submitted_all.set()


class BegunSubmission(Submission):
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
            self._commands.adopt(native_run.done, portions)
        except BaseException as error:
            run.fail(ExecutionError(f"the run could not be taken over: {type(error).__name__}: {error}"))
        run.submit_all()  # refused commands are submitted again, and reported as by any run


class LaneThreadSubmission(Submission):
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
        self._commands.begin()
        run.worker.post(run.submit_all)

    def has_begun(self, number: int) -> bool:
        """Return whether an instruction is being executed: its deadline applies."""
        return self._batch.is_begun(number)

    def has_submitted(self, number: int) -> bool:
        """Return whether an instruction has been executed or submitted."""
        return self._batch.is_done(number) or super().has_submitted(number)

    def is_complete(self, number: int, *, ended: bool) -> bool:
        """Return whether an instruction has completed or, if submission has ended, was never submitted."""
        return self._batch.is_done(number) or super().is_complete(number, ended=ended)

    def submit(self, run: Replay, end: int) -> bool:
        """Execute everything; return False if some was refused or cancelled."""
        if self._batch.perform():
            return True
        for command in self._commands.commands:
            if not self._batch.is_done(command.slot):
                parts = self._batch.unfinished_parts(command)
                begun = len(parts) < len(command.parts)  # before another lane failed: finish it
                run.submit_singly([CommandSequence(command.slot, tuple(parts)) if begun else command], begun=begun)
        return False

    def all_times(self) -> tuple[Nanoseconds, Nanoseconds, Nanoseconds]:
        """Return times of start, start and end of all commands, in the order of their slots."""
        start_ns, end_ns = self._batch.times()
        return start_ns, start_ns, end_ns

    def times_of(self, run: Replay, submitted: Sequence[int]) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        """Return times of submission, and times of start and end, of some instructions, by number."""
        times = zip(self._commands.slots, *(each.tolist() for each in self._batch.times()), strict=True)
        host_ns = {number: (start, end) for number, start, end in times if self._batch.is_done(number)}
        begun_ns = {number: start for number, (start, _) in host_ns.items()}
        # Commands that were submitted have times on the device's clock: convert them to the host's.
        late = [number for number in submitted if number not in host_ns]
        clocks = self._device_clocks() if late else {}
        for number, (start, end) in zip(late, self._loop.times(late), strict=True):
            clock = clocks.get(run.program.plan.lanes[run.program.nodes[number].lane].name)
            if clock is not None:
                host_ns[number] = (clock.to_host_ns(start), clock.to_host_ns(end))
        return begun_ns, host_ns
