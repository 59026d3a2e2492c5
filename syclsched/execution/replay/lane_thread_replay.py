# SPDX-License-Identifier: Apache-2.0
"""Replay of a bound plan on per-lane CPU threads instead of SYCL queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from syclsched.devices.submission.commands import CommandSequence
from syclsched.devices.submission.lane_thread_batch import LaneThreadBatch
from syclsched.execution.core.clock import ClockMap, host_clocks
from syclsched.execution.core.execution_records import Times
from syclsched.execution.core.progress import ProgressTracker
from syclsched.execution.replay.replay import Replay


class LaneThreadReplay(Replay):
    """A replay executed by lane threads; if they refuse a command, the remaining commands are submitted to queues."""

    thread_batch: LaneThreadBatch
    _device_clocks: Callable[[], Mapping[str, ClockMap]]

    def start(self) -> None:
        """Start the run and return at once."""
        self.begun = True
        self._device_clocks, self.clock_maps = self.clock_maps, self._host_clocks  # times are on the host's clock
        self._commands.begin()
        self.thread_batch.begin()
        with self._lock:
            self._end()

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been executed or submitted."""
        with self._lock:
            return (
                self._through
                or self._all
                or number in self._done
                or (not self._over and self.thread_batch.is_done(number))
            )

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed or was cancelled."""
        with self._lock:
            return self._over or self.thread_batch.is_done(number)

    def any_failed(self) -> bool:
        """Return whether a task is past its deadline: nothing else can fail after it was executed."""
        with self._lock:
            return not self._over and bool(self._overdue)

    @cached_property
    def _positions(self) -> ProgressTracker:
        # A running instruction does not count as submitted yet, but its deadline already applies.
        return ProgressTracker(
            self.program, self.is_complete, lambda n: self.thread_batch.is_begun(n) or self.passed(n)
        )

    def _host_clocks(self) -> Mapping[str, ClockMap]:
        return host_clocks(self.program.plan)

    def _await_end(self) -> None:
        self._worker.post(self._perform)

    def _perform(self) -> None:
        if self._over:
            return
        begun_ns = time.thread_time_ns()
        try:
            self._all = self.thread_batch.perform()
            if not self._all:
                self.cancelled = self.cancelled or self._loop.stopped
                remaining = [c for c in self._commands.commands if not self.thread_batch.is_done(c.slot)]
                for command in remaining:
                    parts = self.thread_batch.unfinished_parts(command)
                    if len(parts) < len(command.parts):  # started before another lane failed: finish it
                        self._submit_apart([CommandSequence(command.slot, tuple(parts))], begun=True)
                    else:
                        self._submit_apart([command])
            self._through = self._all or not self.cancelled
        except BaseException as error:
            self.error = self._ended_by(error)
        finally:
            self.counts.dispatch_ns = time.thread_time_ns() - begun_ns
            self._finish()

    def _submitted(self) -> list[int]:
        numbers = self._commands.slots
        if self._all:
            return numbers
        return [n for n in numbers if self._loop.has_event(n) or self.thread_batch.is_done(n)]

    def _record(self, submitted: list[int]) -> None:
        start_ns, end_ns = self.thread_batch.times()
        numbers = np.array(self._commands.slots)
        if self._all:
            self.times = Times(numbers, start_ns, start_ns, end_ns)
            return
        # Commands that were submitted have times on the device's clock: convert them to the host's.
        late = [n for n in submitted if self._loop.has_event(n) and not self.thread_batch.is_done(n)]
        clocks = self._device_clocks() if late else {}
        for number, times in zip(late, self._loop.times(late), strict=True):
            clock = clocks.get(self.program.plan.lanes[self.program.nodes[number].lane].name)
            if clock is not None:
                self._device_ns[number] = (clock.to_host_ns(times[0]), clock.to_host_ns(times[1]))
        for number, start, end in zip(numbers.tolist(), start_ns.tolist(), end_ns.tolist(), strict=True):
            if self.thread_batch.is_done(number):
                self._submit_ns[number], self._device_ns[number] = start, (start, end)
            elif number not in self._submit_ns:
                self._submit_ns[number] = time.perf_counter_ns()
                self.outcomes.setdefault(number, "cancelled")
