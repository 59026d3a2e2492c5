# SPDX-License-Identifier: Apache-2.0
"""Device clock readings of a bound plan, made while no instance is in flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import ExecutionError
from syclsched.execution.core import stall_timeout
from syclsched.execution.core.clock import Anchor, ClockMap, read_anchors
from syclsched.execution.core.waiting import Flag, wait_flag
from syclsched.execution.core.worker import WorkerThread
from syclsched.model.plan import Plan


class _ClockUser(Protocol):
    """An instance that uses the devices."""

    loop: SubmissionLoop

    @property
    def idle(self) -> bool:
        """Whether no run of the instance is in flight."""


class DeviceClocks:
    """Clocks of a plan's devices: the first and the last anchor of each."""

    def __init__(self, plan: Plan, queues: Mapping[str, SyclQueue]) -> None:
        self._plan = plan
        self._queues = queues
        self.generations: Sequence[_ClockUser] = ()
        self.first: dict[str, Anchor] = {}
        self.last: dict[str, Anchor] = {}
        #: Set when the latest reading has ended.
        self._reading_done: Flag | None = None
        #: A reading that hangs, for which callers no longer wait.
        self._hanging_reading: Flag | None = None

    def bind_instances(
        self, generations: Sequence[_ClockUser], worker: WorkerThread, leave_behind: Callable[[], None]
    ) -> None:
        """Set the instances whose devices' clocks are read, the worker, and the callback for a hanging reading."""
        self.generations = generations
        self._worker, self._leave_behind = worker, leave_behind

    @property
    def idle(self) -> bool:
        """Whether no reading is in progress."""
        return self._reading_done is None or self._reading_done.is_set()

    def read(self) -> None:
        """Read the clocks if no instance is in flight: a busy queue would delay the reading."""
        if not self.generations or not self.idle or not all(generation.idle for generation in self.generations):
            return
        done = Flag()
        try:
            self._reading_done = done
            if self._worker.is_current:  # at the end of a traced run; a posted reading would deadlock
                self._read(done)
                return
            self._worker.post(partial(self._read, done))
        except BaseException:  # Ctrl-C: there is no reading to wait for
            done.set()
            raise
        self.settle()

    def settle(self) -> None:
        """Wait for the reading in progress; raise if a device hangs."""
        done = self._reading_done
        if done is None or done.is_set():
            return
        if self._hanging_reading is not done:
            if wait_flag(done, stall_timeout.HANG_S):
                return
            self._hanging_reading = done
            self._leave_behind()
        if not done.is_set():
            raise ExecutionError(
                f"a device hangs: its clock could not be read within {stall_timeout.HANG_S:g} s",
                where=f"plan {self._plan.name!r}",
                hint="Bind the plan again, without the device that hangs",
            )

    def _read(self, done: Flag) -> None:
        try:
            found = read_anchors(
                [
                    (index, lane.device, self._queues[lane.name])
                    for index, lane in enumerate(self._plan.lanes)
                    if lane.name in self._queues
                ],
                self.generations[0].loop.stamp,
            )
            self.first, self.last = found | self.first, self.last | found
        finally:
            done.set()

    def maps(self) -> dict[str, ClockMap]:
        """Return the clock map of each lane, with a new reading if possible."""
        with suppress(ExecutionError):
            self.read()
        return {
            lane.name: ClockMap(self.first[lane.device], self.last[lane.device])
            for lane in self._plan.lanes
            if lane.name in self._queues and lane.device in self.first
        }
