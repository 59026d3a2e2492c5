# SPDX-License-Identifier: Apache-2.0
"""Helper thread for each device that computes on the host's cores.

The OpenCL CPU runtime (and the FPGA emulator) starts one worker thread fewer than there are cores. The last core is
used only by a host thread that is blocked in a wait for the device's work. An asynchronous run does not block, so
without a helper thread one core would be idle: kernels over all cores then take up to twice as long, and two one-core
queues of a two-core machine run alternately. One helper thread is best: with two, three threads spin for two cores.
"""

from __future__ import annotations

from collections.abc import Callable

from syclsched.devices.native.host_tasks import wait_for
from syclsched.devices.native.sycl_types import SyclEvent
from syclsched.devices.submission.commands import Batch
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution.core.worker import WorkerThread


class HelperThread:
    """Thread that waits for a device's work as long as there is any in flight.

    It waits for one instruction after another, not for the latest: the runtime lets a waiting thread execute only work
    that is about to run. A thread that waits for work behind a fence would sleep while earlier work runs.
    """

    def __init__(self, name: str) -> None:
        self._worker = WorkerThread(f"syclsched {name} helper")

    def wait_for_event(self, event: SyclEvent) -> None:
        """Queue a wait for an event on the thread."""
        self._worker.post(lambda: wait_for(event))

    def wait_for_batch(self, loop: SubmissionLoop, batch: Batch) -> None:
        """Queue a wait for a batch that the compiled loop submitted."""
        self._worker.post(lambda: loop.wait(batch))

    def run_wait(self, wait: Callable[[], None]) -> None:
        """Queue a call that waits."""
        self._worker.post(wait)

    def stop(self) -> None:
        """Stop the thread after the queued waits."""
        self._worker.stop()
