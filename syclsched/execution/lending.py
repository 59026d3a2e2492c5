# SPDX-License-Identifier: Apache-2.0
"""A thread lent to each device that computes on the host's own cores.

The OpenCL CPU runtime (and the FPGA emulator) starts one worker thread less than there are cores: the last core is
used by whichever host thread is blocked in a wait for the device's work, and by nothing else if there is none. An
asynchronous run blocks nowhere, so without this thread it would leave a core idle: kernels over all cores then
take up to twice as long, and two one-core queues of a two-core machine take turns. One thread is right: with two,
three spin for two cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syclsched.devices.commands import Batch
from syclsched.devices.host_tasks import wait_for
from syclsched.devices.submission_loop import SubmissionLoop
from syclsched.execution.worker import Worker


def computes_on_host_cores(device: Any) -> bool:
    """Return whether a SYCL device's kernels run on the cores of the host: OpenCL CPU device, FPGA emulator."""
    kind = device.device_type.name
    return device.backend.name == "opencl" and (kind == "cpu" or (kind == "accelerator" and "Emulation" in device.name))


class Lender:
    """One thread that stays in a wait for a device's work for as long as there is any.

    It waits for one instruction after the other, not for the newest: the runtime lets a thread help only with what is
    about to run, and one that waits for work behind a fence sleeps through all that could run before.
    """

    def __init__(self, name: str) -> None:
        self._worker = Worker(f"syclsched {name} lent")

    def lend(self, event: Any) -> None:
        """Wait, on the thread, until an event has completed, after those lent to before."""
        self._worker.post(lambda: wait_for(event))

    def lend_batch(self, loop: SubmissionLoop, batch: Batch) -> None:
        """Do so for everything the compiled loop submitted at once."""
        self._worker.post(lambda: loop.wait(batch))

    def lend_until(self, wait: Callable[[], None]) -> None:
        """Do so for whatever a call waits for."""
        self._worker.post(wait)

    def stop(self) -> None:
        """Let the thread end after what it waits for."""
        self._worker.stop()
