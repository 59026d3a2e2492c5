# SPDX-License-Identifier: Apache-2.0
"""Pool of a bound plan's instances, and the threads they share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import Executable, calls_library
from syclsched.devices.submission.lane_thread_batch import why_not_local
from syclsched.devices.submission.lane_threads import SharedLaneThreads
from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.lanes.device_clocks import DeviceClocks
from syclsched.execution.lanes.host_thread import HostThread
from syclsched.execution.lanes.lanes import by_index
from syclsched.execution.replay.host_sync import plan_host_sync
from syclsched.execution.replay.plan_instance import PlanInstance

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


class InstancePool:
    """Instances of a plan that can be submitted as a whole: the first one for single runs, several for streams."""

    def __init__(
        self,
        prepared: PreparedPlan,
        executables: Mapping[int, Executable],
        library: SubmissionLibrary,
        queues: dict[str, SyclQueue],
        devices: OpenDevices,
        *,
        chains: bool,
    ) -> None:
        # One worker for all instances: on CPU devices every waiting thread occupies a core.
        self.worker = WorkerThread(f"syclsched {prepared.plan.name} replay")
        #: The host's steps, and the order of device work around them.
        self.levels = levels = plan_host_sync(prepared.program)
        library_threads = prepared.plan.platform.host_threads
        #: Execute the host's steps, each those of one lane.
        self.hosts = tuple(
            HostThread(f"syclsched {prepared.plan.name} host:{number}", library_threads)
            for number in range(len(levels.lanes))
        )
        self._clocks = DeviceClocks(prepared.plan, queues)
        lanes = by_index(prepared.plan, queues)
        used = {lane: lanes[lane] for lane in {prepared.program.nodes[number].lane for number in levels.of}}
        submitting = [made for number, made in executables.items() if not prepared.work[number].writes_nothing]
        self._why_not_local = (
            "libraries submit some of the work themselves, to the lanes' queues"
            if any(calls_library(executable) for executable in submitting)
            else why_not_local(used)
        )
        self._lane_threads = None if self._why_not_local is not None else SharedLaneThreads(library, used)
        threads = self.worker, self.hosts, self._lane_threads
        self._make = partial(
            PlanInstance, prepared, executables, library, queues, devices, threads, levels, self._clocks, chains
        )
        self.generations: list[PlanInstance] = []
        try:
            self.grow(1)
        except BaseException:
            self.close()
            raise
        self._clocks.bind_instances(self.generations, self.worker, devices.abandon)

    @property
    def why_not_on_threads(self) -> str | None:
        """Reason why the lanes use their devices' queues; None if lane threads execute the work."""
        return self._why_not_local if self._lane_threads is None else self._lane_threads.why_not

    def grow(self, count: int) -> None:
        """Create instances up to a number."""
        while len(self.generations) < count:
            self.generations.append(self._make())

    def shrink(self, count: int) -> None:
        """Release all instances beyond a number; wait for those in flight."""
        while len(self.generations) > max(1, count):
            self.generations[-1].settle()
            self.generations.pop().close()

    @property
    def idle(self) -> bool:
        """Whether no instance is in flight, not even one that was given up, and no device clock is being read."""
        return self._clocks.idle and all(generation.idle for generation in self.generations)

    def close(self) -> None:
        """Stop the threads, and release all instances."""
        self.worker.stop()
        for host in self.hosts:
            host.stop()
        self._clocks.generations = ()
        if self._lane_threads is not None:
            self._lane_threads.close()
        for generation in self.generations:
            generation.close()

    def settle(self) -> None:
        """Wait until no instance is in flight; see `PlanInstance.settle` and `DeviceClocks.settle`."""
        self._clocks.settle()
        for generation in self.generations:
            generation.settle()

    def abandon(self) -> None:
        """Release everything as soon as no instance is in flight; returns at once, and waits for no device."""
        if self.idle:
            self.close()
            return
        for generation in self.generations:
            generation.cancel()
        # After the host threads have left their runs, and the worker's pending wait for the devices.
        close = partial(self.worker.post, self.close)
        for host in self.hosts:
            close = partial(host.worker.post, close)
        close()
