# SPDX-License-Identifier: Apache-2.0
"""Thread that executes the host steps of a bound plan, for one run or several instances in flight."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.lanes.eventfd_wakeup import EventFd
from syclsched.library_threads import LIBRARY_THREADS


class _RunWithHostSteps(Protocol):
    """A run with host steps."""

    @property
    def position(self) -> int:
        """Number of completed steps."""

    def advance(self, most: int) -> bool:
        """Execute the next step if it is ready and its index is below ``most``; return whether the run advanced."""

    @property
    def stepped(self) -> bool:
        """Whether all steps have completed and no more submissions follow."""

    def wait_if_exclusive(self) -> bool:
        """Wait for the next step's predecessors if no other work is in flight; return whether that was so."""

    def notify_on(self, alarm: EventFd) -> bool:
        """Have an alarm signalled when predecessors of the next step complete; return whether it will be."""

    def end(self) -> None:
        """End the run; the thread calls it once all steps have completed."""

    def fail(self, error: BaseException) -> None:
        """Cancel the run, because an error stops its steps."""


class HostThread:
    """Executes the next ready step of any run, and sleeps while none is ready.

    The instances of a plan execute each step in submission order, as consecutive runs would.
    """

    def __init__(self, name: str, library_threads: int) -> None:
        self._library_threads = library_threads  # of libraries that the steps call
        self.worker = WorkerThread(name)
        self._alarm = EventFd()
        self._lock = threading.RLock()  # reentrant: a garbage collection under the lock may cancel another run
        self._runs: list[_RunWithHostSteps] = []
        self._serving = False

    def take(self, run: _RunWithHostSteps) -> None:
        """Add a run, and execute its steps. Callable on any thread, and again after an interrupted call."""
        with self._lock:
            if run not in self._runs:
                self._runs.append(run)
            serving = self._serving
        if serving:
            self.wake()
        else:
            self.worker.post(self._start)  # possibly twice, if the first call was interrupted here

    def wake(self) -> None:
        """Wake the thread to check its runs again."""
        self._alarm.ring()

    def stop(self) -> None:
        """Stop the thread; it must have no runs."""
        self.worker.stop()
        self._alarm.close()

    def _start(self) -> None:
        with LIBRARY_THREADS.at_most(self._library_threads):
            self._serve()

    def _serve(self) -> None:
        begun_s = time.perf_counter()
        while True:
            with self._lock:
                runs = list(self._runs)
                self._serving = bool(runs)
            if not runs:
                return
            if self._advance(runs):
                begun_s = time.perf_counter()
            else:
                self._sleep(runs, begun_s)

    def _sleep(self, runs: list[_RunWithHostSteps], begun_s: float) -> None:
        """Sleep until a step may be ready; wake-ups can be spurious."""
        rung = True
        for run in runs:
            try:
                if len(runs) == 1 and run.wait_if_exclusive():
                    return
                rung &= run.notify_on(self._alarm)
            except BaseException as error:
                run.fail(error)
                return
        self._alarm.sleep(begun_s, rung)

    def _advance(self, runs: list[_RunWithHostSteps]) -> bool:
        """Advance each run by at most one step; return whether any advanced."""
        moved, most = False, 1 << 62
        for run in runs:
            try:
                moved |= run.advance(most)
            except BaseException as error:  # an error in one run must not end the thread
                run.fail(error)
            most = run.position
            if run.stepped:
                with self._lock:
                    self._runs.remove(run)
                run.end()
                moved, most = True, 1 << 62
        return moved
