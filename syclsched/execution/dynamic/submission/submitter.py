# SPDX-License-Identifier: Apache-2.0
"""Submission to the device lanes of a dynamic run, shared with compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from syclsched.devices.native.submission_library import load_library
from syclsched.devices.native.sycl_types import SyclContext, SyclQueue, Waitable
from syclsched.devices.native.wakeup import Wakeup
from syclsched.devices.submission.lane_thread_batch import lane_thread_queues
from syclsched.devices.submission.lane_threads import LaneThreads
from syclsched.execution.dynamic.submission.run_resources import RunResources
from syclsched.execution.lanes.instruction_commands import CommandFactory
from syclsched.execution.lanes.instruction_submitter import InstructionSubmitter, SubmissionHandler, SubmissionRequest


class Submitter(InstructionSubmitter):
    """The device lanes of one run, which compiled code also submits to."""

    def __init__(self, run: RunResources, handler: SubmissionHandler) -> None:
        commands = CommandFactory(run.events.loop, run.queues, run.buffers)
        super().__init__(run.lanes, run.events, run.counts, handler, commands, limited=False)
        #: The library of the compiled loop.
        self.library = load_library()
        #: Threads that execute lanes on host cores; None if the SYCL queues do.
        self.threads: LaneThreads | None = None
        #: Wake-up counter of the deciding thread, if lanes signal it.
        self.wakeup: Wakeup | None = None
        #: Wake-up counter that is never signalled, on which helper threads sleep.
        self.idle_wakeup: Wakeup | None = None
        self._queues = run.queues
        #: Owners of commands that compiled code has submitted.
        self._owners: list[Any] = []

    def begin_threads(self) -> None:
        """Start lane threads, which take commands in place of SYCL queues, if every lane is on host cores.

        Work on the SYCL queues must be submitted before, or after all work of the lane threads has completed.
        """
        self.wakeup, self.idle_wakeup = Wakeup(self.library), Wakeup(self.library)
        queues = lane_thread_queues(self._queues) if self.loop.native else None
        if queues is not None:
            try:
                self.threads = LaneThreads(self.library, self.loop, queues, self.wakeup)
            except OSError:
                queues.close()

    @property
    def needs_helpers(self) -> bool:
        """Whether some device needs a helper thread; see `run_on_helpers`."""
        return self.threads is None and bool(self.lanes.helpers)

    def run_on_helpers(self, work: Callable[[Sequence[int]], None]) -> None:
        """Lend a helper thread to each device; it calls ``work`` with the device's lanes."""
        for device, helper_thread in self.lanes.helpers.items():
            lanes = [index for index, lane in self.lanes.devices.items() if lane.device == device]
            helper_thread.run_wait(partial(work, lanes))

    def context(self, lane: int) -> SyclContext | None:
        """Return the SYCL context of a lane; None for a host lane."""
        return None if lane not in self._queues else self._queues[lane].sycl_context

    def queue(self, lane: int) -> SyclQueue:
        """Return the queue of a device lane."""
        return self._queues[lane]

    def keep(self, owner: Any) -> None:
        """Keep the owner of commands alive until all work has completed: lane threads read the commands later."""
        self._owners.append(owner)

    # --- completion -------------------------------------------------------------------------------

    def status(self, slot: int) -> int:
        """Return 1 if the event of a slot has completed, 0 if not yet, a negative code if it failed."""
        return self.loop.status(slot) if self.loop.has_event(slot) else 1

    def event(self, slot: int) -> Waitable | None:
        """Return the event of a slot; None if it has none."""
        return self.loop.event(slot) if self.loop.has_event(slot) else None

    def times(self, requests: Sequence[SubmissionRequest]) -> list[tuple[int, int] | None]:
        """Return start and end of completed instructions on their device's clock, ns; None without timestamps."""
        found: list[tuple[int, int] | None] = [None] * len(requests)
        events = [None if request.record is None else request.record.event for request in requests]
        firsts = [None if request.record is None else request.record.first_event for request in requests]
        numbers = {
            n: request.node.id
            for n, request in enumerate(requests)
            if firsts[n] is None and self.loop.has_event(request.node.id)
        }
        for n, times in zip(numbers, self.loop.times(list(numbers.values())), strict=True):
            found[n] = times
        for n, (event, first) in enumerate(zip(events, firsts, strict=True)):
            if found[n] is None and event is not None:
                found[n] = ((first or event).profiling_info_start, event.profiling_info_end)
        return found

    def adopt(self, request: SubmissionRequest) -> None:
        """Take over an instruction that compiled code has submitted."""
        self._events.put_submitted(request.node.id)

    # --- the end ----------------------------------------------------------------------------------

    def wait_for_all(self) -> None:
        """Wait for all work that the compiled loop has submitted, even if the engine has no record of it."""
        self.loop.wait_for_all()

    def close(self) -> None:
        """Release events and threads; all work has completed."""
        if self.threads is not None:
            self.threads.close()
        self._owners.clear()
        for wakeup in (self.wakeup, self.idle_wakeup):
            if wakeup is not None:
                wakeup.close()
        self.wakeup = self.idle_wakeup = None
        self._events.close()
        self.lanes.release()
