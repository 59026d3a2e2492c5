# SPDX-License-Identifier: Apache-2.0
"""Threads of our own, one for each lane that is a core of the host, which are handed commands while they work.

What `syclsched.devices.performance` is for commands that are all known beforehand. Handed to the OpenCL CPU runtime,
the kernels of two one-core lanes take turns most of the time: it has one thread less than there are cores, and lets a
thread that waits help only with what it waits for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from syclsched.devices.bell import Bell
from syclsched.devices.command_maker import NO_LIMIT, Lane
from syclsched.devices.performance import LocalQueues, local_queues
from syclsched.devices.submission_library import Library
from syclsched.devices.submission_loop import SubmissionLoop


class LaneThreads:
    """The threads of a run's lanes; begun at once, to be closed once all that they were handed has completed."""

    def __init__(self, library: Library, loop: SubmissionLoop, queues: LocalQueues, bell: Bell | None = None) -> None:
        self._library, self._queues = library, queues
        self.lanes: Any = loop.lanes_with(queues.handles)
        self._threads: list[int] = []
        for number, index in enumerate(queues.handles):
            lane = self.lanes[index]
            rung = None if bell is None else bell.address
            thread = library.thread_begin(ctypes.addressof(lane), number, len(queues.handles), rung)
            if thread is None:
                self.close()
                raise OSError("a thread cannot be begun")
            self._threads.append(thread)
            self.lanes[index] = Lane(
                library.threads_way, thread, lane.queue, lane.scratch_to, lane.scratch_from, NO_LIMIT
            )

    def close(self) -> None:
        """Let the threads end; they have done all they were handed, or this waits for it."""
        for thread in self._threads:
            self._library.thread_end(thread)
        self._threads = []
        self._queues.close()


class SharedThreads:
    """Threads of the lanes of a plan, for all its generations; they begin when they are first needed."""

    def __init__(self, library: Library, queues: Mapping[int, Any]) -> None:
        self._library, self._queues = library, dict(queues)
        self._threads: LaneThreads | None = None
        #: Why there are none.
        self.why_not: str | None = None

    def lanes(self, loop: SubmissionLoop) -> Any | None:
        """Return the lanes to be submitted to in place of a loop's own, which are the same for all; None if not."""
        if self._threads is None and self.why_not is None:
            local = local_queues(self._queues) if loop.native else None
            if local is None:
                self.why_not = "the runtime offers no queues whose commands the submitting thread does"
                return None
            try:
                self._threads = LaneThreads(self._library, loop, local)
            except OSError as error:
                local.close()
                self.why_not = str(error)
        return None if self._threads is None else self._threads.lanes

    def close(self) -> None:
        """Let them end; nothing must be on its way. They begin again when they are needed."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None
