# SPDX-License-Identifier: Apache-2.0
"""Thread that executes the steps of one host lane of a bound plan, for one run or several instances in flight."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Protocol

from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.lanes.eventfd_wakeup import EventFd
from syclsched.library_threads import LIBRARY_THREADS

#: More steps than any run has.
_ALL = 1 << 62


class _RunWithHostSteps(Protocol):
    """The steps of a host lane in one run."""

    @property
    def position(self) -> int:
        """Number of completed steps."""

    def advance(self, most: int) -> bool:
        """Execute the next step if it is ready and its index is below ``most``; return whether the run advanced."""

    @property
    def stepped(self) -> bool:
        """Whether no step is left, or no more may be executed."""

    def wait_if_exclusive(self) -> bool:
        """Wait for the next step's predecessors if no other work is in flight; return whether that was so."""

    def notify_on(self, alarm: EventFd) -> bool:
        """Have an alarm signalled when predecessors of the next step complete; return whether it will be."""

    def end(self) -> None:
        """Leave the run; the thread calls it once no step is left."""

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
        self._runs: tuple[_RunWithHostSteps, ...] = ()
        self._serving = False

    def take(self, run: _RunWithHostSteps) -> None:
        """Add a run, and execute its steps. Callable on any thread, and again after an interrupted call."""
        with self._lock:
            if run not in self._runs:
                self._runs = (*self._runs, run)
            serving = self._serving
        if serving:
            self.wake()
        else:
            self.worker.post(self._start)  # possibly twice, if the first call was interrupted here

    def wake(self) -> None:
        """Wake the thread to check its runs again."""
        self._alarm.signal()

    def stop(self) -> None:
        """Stop the thread; it must have no runs."""
        self.worker.stop()
        self._alarm.close()

    def _start(self) -> None:
        with LIBRARY_THREADS.at_most(self._library_threads):
            self._serve()

    def _serve(self) -> None:
        begun_s: float | None = None  # since when nothing was to be done
        while self._has_runs():
            if self._advance(self._runs):
                begun_s = None
            else:
                begun_s = time.perf_counter() if begun_s is None else begun_s
                self._sleep(self._runs, begun_s)

    def _has_runs(self) -> bool:
        """Return whether the thread has runs; later ones start it again if it has none."""
        if self._serving and self._runs:
            return True
        with self._lock:
            self._serving = bool(self._runs)
            return self._serving

    def _sleep(self, runs: Sequence[_RunWithHostSteps], begun_s: float) -> None:
        """Sleep until a step may be ready; wake-ups can be spurious."""
        has_signals = True
        for run in runs:
            try:
                if len(runs) == 1 and run.wait_if_exclusive():
                    return
                has_signals &= run.notify_on(self._alarm)
            except BaseException as error:
                run.fail(error)
                return
        self._alarm.sleep(begun_s, has_signals)

    def _advance(self, runs: Sequence[_RunWithHostSteps]) -> bool:
        """Advance each run by one step, or the only run as far as it can; return whether any advanced."""
        moved, most = False, _ALL
        for run in runs:
            try:
                if len(runs) > 1:
                    moved |= run.advance(most)
                else:
                    while run.advance(_ALL):
                        moved = True
                        if self._runs is not runs:  # another one came
                            break
            except BaseException as error:  # an error in one run must not end the thread
                run.fail(error)
            most = run.position
            if run.stepped:
                with self._lock:
                    self._runs = tuple(other for other in self._runs if other is not run)
                run.end()
                moved, most = True, _ALL
        return moved
