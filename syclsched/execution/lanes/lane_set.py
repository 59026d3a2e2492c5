# SPDX-License-Identifier: Apache-2.0
"""The lanes of one run: device lanes with the helper threads of CPU devices, and host lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from syclsched.devices.backends.registry import backend_of
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.execution.core.clock import ClockMap, with_new_last_anchor
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.execution_records import Counts
from syclsched.execution.lanes.cpu_helper_thread import HelperThread
from syclsched.execution.lanes.lanes import Completion, DeviceLane, HostLane
from syclsched.execution.memory.buffers import BufferTable
from syclsched.library_threads import LIBRARY_THREADS
from syclsched.model.plan import Lane


class LaneSet:
    """All lanes of a run, by lane index."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        queues: Mapping[int, SyclQueue],
        buffers: BufferTable,
        events: EventTable,
        counts: Counts,
        report: Callable[[Completion], None],
        cancelled: Callable[[], bool],
        library_threads: int,
    ) -> None:
        self.devices: dict[int, DeviceLane] = {}
        self.hosts: dict[int, HostLane] = {}
        #: Helper threads by device.
        self.helpers: dict[str, HelperThread] = {}
        for index, lane in enumerate(lanes):
            if index not in queues:
                self.hosts[index] = HostLane(lane.name, buffers, report, cancelled, counts)
                continue
            queue = queues[index]
            if lane.device not in self.helpers and backend_of(queue).computes_on_host_cores(queue):
                self.helpers[lane.device] = HelperThread(lane.device)
            helper_thread = self.helpers.get(lane.device)
            self.devices[index] = DeviceLane(
                lane, queue, buffers, events, counts, report, partial(events.loop.finish_lane, index), helper_thread
            )
        #: Threads that libraries called by host functions may use; None without host lanes, and after the end.
        self._library_threads = library_threads if self.hosts else None
        if self._library_threads is not None:
            LIBRARY_THREADS.begin(self._library_threads)

    def with_new_last_anchor(
        self, clocks: Mapping[str, ClockMap], stamp: Callable[[int], tuple[int, int]]
    ) -> dict[str, ClockMap]:
        """Read the device clocks; return the clock maps with the last anchor replaced by the reading."""
        lanes = [(index, lane.name, lane.device, lane.queue) for index, lane in self.devices.items()]
        return with_new_last_anchor(clocks, lanes, stamp)

    def finish(self) -> None:
        """Stop the threads, and wait for all submitted instructions."""
        for host in self.hosts.values():
            host.worker.stop()
        if self._library_threads is not None:
            LIBRARY_THREADS.end(self._library_threads)
            self._library_threads = None
        for helper_thread in self.helpers.values():
            helper_thread.stop()  # after its waits; a further waiting thread would oversubscribe the cores
        broken: BaseException | None = None
        for lane in self.devices.values():
            try:
                lane.wait()
            except BaseException as error:  # the other lanes still use the run's memory: wait for them, too
                broken = broken or error
            lane.stop()
        if broken is not None:
            raise broken

    def release(self) -> None:
        """Release objects that had to live until the last event."""
        for lane in self.devices.values():
            lane.release()
