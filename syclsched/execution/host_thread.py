# SPDX-License-Identifier: Apache-2.0
"""The thread that does the host's steps of a bound plan, of one run or of several generations at once."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from syclsched.execution.stream_wake import Alarm
from syclsched.execution.worker import Worker


class Stepped(Protocol):
    """A run with steps of the host's."""

    @property
    def position(self) -> int:
        """How many of its steps have been done."""

    def advance(self, most: int) -> bool:
        """Do the next step, if its time has come and it is not one past so many; return whether anything was done."""

    @property
    def stepped(self) -> bool:
        """Whether all its steps have been done, and nothing more is to be submitted behind them."""

    def wait_directly(self) -> bool:
        """Wait for what the next step waits for, if nothing else is on its way; return whether that was so."""

    def rings_at(self, alarm: Alarm) -> bool:
        """Have an alarm rung when something that the next step waits for is done; return whether it will be."""

    def conclude(self) -> None:
        """Be told that the thread has done with it."""

    def broken(self, error: BaseException) -> None:
        """Be told that the thread cannot go on with it."""


class HostThread:
    """Does the next step of whichever run may have it done, and sleeps when there is none.

    A step is done for one generation after another, as runs one after another would.
    """

    def __init__(self, name: str) -> None:
        self.worker = Worker(name)
        self._alarm = Alarm()
        self._lock = threading.RLock()  # garbage that is collected under it may cancel another run
        self._runs: list[Stepped] = []
        self._serving = False

    def take(self, run: Stepped) -> None:
        """Look after a run until all its steps are done; any thread may ask, again if it was interrupted."""
        with self._lock:
            if run not in self._runs:
                self._runs.append(run)
            serving = self._serving
        if serving:
            self.wake()
        else:
            self.worker.post(self._serve)  # twice, if need be: it may have been interrupted here

    def wake(self) -> None:
        """Have it looked again what can be done."""
        self._alarm.ring()

    def stop(self) -> None:
        """Let the thread end; it must have nothing to do."""
        self.worker.stop()
        self._alarm.close()

    def _serve(self) -> None:
        begun_s = time.perf_counter()
        while True:
            with self._lock:
                runs = list(self._runs)
                self._serving = bool(runs)
            if not runs:
                return
            if self._look_at(runs):
                begun_s = time.perf_counter()
            else:
                self._sleep(runs, begun_s)

    def _sleep(self, runs: list[Stepped], begun_s: float) -> None:
        """Wait until something may be done, if only for a moment."""
        rung = True
        for run in runs:
            try:
                if len(runs) == 1 and run.wait_directly():
                    return
                rung &= run.rings_at(self._alarm)
            except BaseException as error:
                run.broken(error)
                return
        self._alarm.sleep(begun_s, rung)

    def _look_at(self, runs: list[Stepped]) -> bool:
        """Do what can be done now; return whether that was anything."""
        moved, most = False, 1 << 62
        for run in runs:
            try:
                moved |= run.advance(most)
            except BaseException as error:  # one run's trouble must not end the thread
                run.broken(error)
            most = run.position
            if run.stepped:
                with self._lock:
                    self._runs.remove(run)
                run.conclude()
                moved, most = True, 1 << 62
        return moved
