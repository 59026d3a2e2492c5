# SPDX-License-Identifier: Apache-2.0
"""The clocks of a bound plan's devices, read while nothing is on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from syclsched.devices.submission_loop import SubmissionLoop
from syclsched.errors import ExecutionError
from syclsched.execution import patience
from syclsched.execution.clock import Anchor, ClockMap, read_anchors
from syclsched.execution.waiting import Flag, wait_flag
from syclsched.execution.worker import Worker
from syclsched.model.plan import Plan


class Using(Protocol):
    """What uses the devices: a generation."""

    loop: SubmissionLoop

    @property
    def idle(self) -> bool:
        """Whether it is not on its way."""


class Clocks:
    """The clocks of a plan's devices, as they were when nothing was on its way."""

    def __init__(self, plan: Plan, queues: Mapping[str, Any]) -> None:
        self._plan = plan
        self._queues = queues
        self.generations: Sequence[Using] = ()
        self.first: dict[str, Anchor] = {}
        self.last: dict[str, Anchor] = {}
        #: Set when the reading that was begun last has ended.
        self._there: Flag | None = None
        #: The one that nobody waits for any more.
        self._hanging: Flag | None = None

    def attend(self, generations: Sequence[Using], worker: Worker, leave_behind: Callable[[], None]) -> None:
        """Be told whose clocks they are."""
        self.generations = generations
        self._worker, self._leave_behind = worker, leave_behind

    @property
    def idle(self) -> bool:
        """Whether none is being read."""
        return self._there is None or self._there.is_set()

    def read(self) -> None:
        """Read them, if nothing is on its way: a busy queue would answer late."""
        if not self.generations or not self.idle or not all(generation.idle for generation in self.generations):
            return
        there = Flag()
        try:
            self._there = there
            if self._worker.is_current:  # at the end of a run that is recorded: it would wait for itself
                self._read(there)
                return
            self._worker.post(partial(self._read, there))
        except BaseException:  # Ctrl-C: nobody reads them, so nobody must wait for it
            there.set()
            raise
        self.settle()

    def settle(self) -> None:
        """Wait until they are not being read."""
        there = self._there
        if there is None or there.is_set():
            return
        if self._hanging is not there:
            if wait_flag(there, patience.HANG_S):
                return
            self._hanging = there
            self._leave_behind()
        if not there.is_set():
            raise ExecutionError(
                f"a device hangs: its clock could not be read within {patience.HANG_S:g} s",
                where=f"plan {self._plan.name!r}",
                hint="Bind the plan again, without the device that hangs",
            )

    def _read(self, there: Flag) -> None:
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
            there.set()

    def maps(self) -> dict[str, ClockMap]:
        """Return the map of each lane's clock, read anew if that can be."""
        with suppress(ExecutionError):
            self.read()
        return {
            lane.name: ClockMap(self.first[lane.device], self.last[lane.device])
            for lane in self._plan.lanes
            if lane.name in self._queues and lane.device in self.first
        }
