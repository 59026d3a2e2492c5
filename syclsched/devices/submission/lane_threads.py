# SPDX-License-Identifier: Apache-2.0
"""Lane threads: one thread for each one-core lane, which executes commands as they are submitted.

`syclsched.devices.submission.lane_thread_batch` is the counterpart for commands that are all known beforehand.
Submitted to the OpenCL CPU runtime, the kernels of two one-core lanes mostly run one after the other: it has one thread
less than there are cores, and a waiting thread helps only with the command it waits for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.native.wakeup import Wakeup
from syclsched.devices.submission.command_maker import NO_LIMIT, LaneStructure
from syclsched.devices.submission.lane_thread_batch import lane_thread_queues
from syclsched.devices.submission.local_queues import LocalQueues
from syclsched.devices.submission.submission_loop import SubmissionLoop


class LaneThreads:
    """The threads of a run's lanes; started at once, to be closed after all their commands have completed."""

    def __init__(
        self, library: SubmissionLibrary, loop: SubmissionLoop, queues: LocalQueues, wakeup: Wakeup | None = None
    ) -> None:
        self._library, self._queues = library, queues
        self.lanes: Any = loop.copy_lanes(queues.handles)
        self._threads: list[int] = []
        for number, index in enumerate(queues.handles):
            lane = self.lanes[index]
            wakeup_address = None if wakeup is None else wakeup.address
            thread = library.thread_begin(ctypes.addressof(lane), number, len(queues.handles), wakeup_address)
            if thread is None:
                self.close()
                raise OSError("a thread cannot be begun")
            self._threads.append(thread)
            self.lanes[index] = LaneStructure(
                library.threads_backend, thread, lane.queue, lane.scratch_to, lane.scratch_from, NO_LIMIT
            )

    def close(self) -> None:
        """End the threads, after all submitted commands."""
        for thread in self._threads:
            self._library.thread_end(thread)
        self._threads = []
        self._queues.close()


class SharedLaneThreads:
    """The lane threads of a plan, shared by all its instances; started when first needed."""

    def __init__(self, library: SubmissionLibrary, queues: Mapping[int, SyclQueue]) -> None:
        self._library, self._queues = library, dict(queues)
        self._threads: LaneThreads | None = None
        #: The reason if threads cannot be used.
        self.why_not: str | None = None

    def lanes(self, loop: SubmissionLoop) -> Any | None:
        """Return the lanes to submit to instead of a loop's own, the same for all loops; None if unavailable."""
        if self._threads is None and self.why_not is None:
            local = lane_thread_queues(self._queues) if loop.native else None
            if local is None:
                self.why_not = "the runtime has no queues that execute commands on the submitting thread"
                return None
            try:
                self._threads = LaneThreads(self._library, loop, local)
            except OSError as error:
                local.close()
                self.why_not = str(error)
        return None if self._threads is None else self._threads.lanes

    def close(self) -> None:
        """End the threads; no command may be in flight. They are started again when needed."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None
