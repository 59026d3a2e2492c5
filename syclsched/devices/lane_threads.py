# SPDX-License-Identifier: Apache-2.0
"""Threads of our own, one for each lane that is a core of the host, which are handed commands while they work.

What `syclsched.devices.performance` is for commands that are all known beforehand. Handed to the OpenCL CPU runtime,
the kernels of two one-core lanes take turns most of the time: it has one thread less than there are cores, and lets a
thread that waits help only with what it waits for.
"""

from __future__ import annotations

import ctypes
from typing import Any

from syclsched.devices.bell import Bell
from syclsched.devices.command_maker import NO_LIMIT, Lane
from syclsched.devices.performance import LocalQueues
from syclsched.devices.submission_library import Library
from syclsched.devices.submission_loop import SubmissionLoop


class LaneThreads:
    """The threads of a run's lanes; begun at once, to be closed once all that they were handed has completed.

    Parameters
    ----------
    library : Library
        The C part.
    loop : SubmissionLoop
        With native queues, whose commands these are. Each lane's kernels must be its own.
    queues : LocalQueues
        One for each lane; closed with the threads.
    bell : Bell
        Rung whenever something has ended.

    Attributes
    ----------
    lanes : ctypes array of Lane
        To be submitted to in place of the loop's own. Events refer to it.

    Raises
    ------
    OSError
        If there can be no more threads.
    """

    def __init__(self, library: Library, loop: SubmissionLoop, queues: LocalQueues, bell: Bell) -> None:
        self._library, self._queues = library, queues
        self.lanes: Any = loop.lanes_with(queues.handles)
        self._threads: list[int] = []
        for number, index in enumerate(queues.handles):
            lane = self.lanes[index]
            thread = library.thread_begin(ctypes.addressof(lane), number, len(queues.handles), bell.address)
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
