# SPDX-License-Identifier: Apache-2.0
"""Ownership of a run's buffers and devices: released once, when the run has ended or is given up as hung.

A submitted kernel cannot be withdrawn. When a run hangs it is given up: all waits for it end, its engine's threads are
left running, and memory the device may still write to is kept until the engine has ended, or for ever.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from syclsched.errors import DeadlineError, ExecutionError, SyclschedError, UnseenFailureWarning
from syclsched.execution.core import stall_timeout
from syclsched.execution.core.waiting import SLICE_S, Flag, wait_flag
from syclsched.execution.handle.engine import Engine
from syclsched.execution.handle.engine_chain import EngineChain
from syclsched.oneapi.fork_check import exit_without_destructors

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices

_LOGGER = logging.getLogger("syclsched")
#: Seconds for which interpreter exit, an interrupted wait, or `Run.close` waits for submitted kernels.
GRACE_S = 60.0


class _RunMonitor(Protocol):
    """Periodic monitor of a run."""

    tick_s: float

    def check(self, now_s: float) -> None:
        """Check the run, and act on the findings."""


class Resources:
    """The buffers of a run and, if the run opened them, its devices."""

    def __init__(self, engines: EngineChain, devices: OpenDevices, *, owns_devices: bool) -> None:
        self.engines = engines
        #: Set when the run has ended, with or without an error, or was given up.
        self.finished = Flag()
        #: Why the run was given up, if it was.
        self.hung: ExecutionError | None = None
        #: The error of a run that was cancelled because of its deadline, unless one of its tasks failed for that.
        self.late: DeadlineError | None = None
        #: The watchdog's monitor of this run.
        self.watch: _RunMonitor | None = None
        self._devices = devices
        self._owns_devices = owns_devices
        self._abandoned = self._released = self._reported = False
        # Reentrant: a garbage collection under the lock may drop a run, whose finaliser calls `abandon`.
        self._lock = threading.RLock()
        self._when_ended: list[Callable[[], None]] = []
        self._before_end: list[Callable[[], None]] = []
        unfinished.add(self)
        engines.when_ended = self._ended

    @property
    def engine(self) -> Engine:
        """The engine that executes the run now."""
        return self.engines.active

    @property
    def failure(self) -> SyclschedError | None:
        """The error of the run or of its first failed task, or why it was given up; None if there is none so far."""
        return self.engines.error or self.engines.active.failures.first or self.hung

    @property
    def reported(self) -> bool:
        """Whether the failure or cancellation of the run was reported to a caller."""
        return self._reported

    def mark_reported(self) -> None:
        """Record that the end of the run was reported to a caller."""
        self._reported = True
        _unseen_failures.discard(self)

    def warn_if_unseen(self) -> None:
        """Warn of a failure that has not been reported to a caller; once."""
        error = self.failure
        if error is None or self._reported:
            return
        self.mark_reported()
        text = f"{self._where}: the run failed, and nothing has waited for it: {error}"
        if _LOGGER.hasHandlers():
            _LOGGER.error("%s", text)
        warnings.warn(text, UnseenFailureWarning, stacklevel=2)

    def abandon(self) -> None:
        """Cancel the run, and release everything as soon as its last kernel has ended; returns at once.

        It warns of an unreported failure: the run is dropped, or the interpreter exits.
        """
        self._abandoned = True
        self.engines.cancel()
        if self.engines.ended:
            self.release()
        self.warn_if_unseen()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Register a callback for the end of the run, on any thread; call it at once if the run has ended."""
        with self._lock:
            if not self.finished.is_set():
                self._when_ended.append(call)
                return
        call()

    def before_end(self, call: Callable[[], None]) -> None:
        """Register a callback for the end of the run, called before any wait for it returns; it must not wait itself.

        It is called at once if the run has ended, and after these waits if the run is given up.
        """
        with self._lock:
            if not self.finished.is_set():
                self._before_end.append(call)
                return
        call()

    def wait_or_fail(self) -> None:
        """Wait for the end of the run; give it up after `GRACE_S`, or on an interrupt."""
        try:
            if wait_flag(self.finished, GRACE_S):
                return
        except BaseException:
            self.fail_hung(ExecutionError("the wait for its end was interrupted", where=self._where))
            raise
        what = f"its end was awaited for {GRACE_S:g} s: {self.engine.what_is_left()}"
        self.fail_hung(ExecutionError(what, where=self._where))

    def wait_unless_stalled(self, limit_s: float | None = None) -> None:
        """Wait for the end of the run; give it up if it stalls, or at the time limit."""
        if self.finished.is_set():
            return
        stall_detector = StallDetector(self, limit_s)
        while not self.finished.wait(stall_detector.tick_s):
            stall_detector.check()

    def fail_hung(self, error: ExecutionError) -> None:
        """End all waits for the run although some of its instructions still run."""
        with self._lock:
            if self.finished.is_set():
                return
            self.hung = error
            self.engines.mark_hung()
            _never_free(self)
            if self._devices is not None:
                self._devices.abandon()
            waiting = self._end()
        _LOGGER.warning("given up, its memory is kept until it ends: %s", error)
        self.engines.cancel()
        for call in waiting:
            call()

    def release(self) -> None:
        """Release buffers and owned devices once the engine has ended; idempotent."""
        with self._lock:
            if self.hung is not None and not self.engines.ended:
                self._abandoned = True
                return
            released, self._released = self._released, True
        if released:
            return
        _unseen_failures.discard(self)
        self.engine.failures.clear_frames()
        self.engine.buffers.clear()
        if self._owns_devices:
            self._devices.close()

    @property
    def _where(self) -> str:
        return f"plan {self.engine.program.plan.name!r}"

    def _ended(self) -> None:
        """Handle the end of the last engine; on its thread."""
        unfinished.discard(self)
        if not (self._reported or self._abandoned) and self.failure is not None:
            _unseen_failures.add(self)
        waiting: list[Callable[[], None]] | None = None
        try:
            while waiting is None:
                with self._lock:
                    recording, self._before_end = self._before_end, []
                    if not recording:
                        waiting = self._end()
                for call in recording:
                    call()
        finally:
            if waiting is None:  # a callback raised
                with self._lock:
                    waiting = self._end()
            for call in waiting:
                call()
            if self._abandoned:
                self.release()

    def _end(self) -> list[Callable[[], None]]:
        self.finished.set()
        waiting, self._when_ended = self._when_ended, []
        return waiting


class StallDetector:
    """Stall detector of one waiting caller: `check` gives the run up when it stalls, or at the time limit."""

    def __init__(self, resources: Resources, limit_s: float | None = None) -> None:
        self._resources = resources
        self._limit_s = limit_s
        self._patience, self._engine = stall_timeout.StallTimeout(stall_timeout.HANG_S), resources.engine
        self._begun_s = time.monotonic()
        self._look_s = min(stall_timeout.CHECK_INTERVAL_S, stall_timeout.HANG_S / 4)
        self._next_s = self._begun_s + self._look_s
        #: Most seconds between two checks.
        self.tick_s = max(0.0, min(SLICE_S, self._look_s, math.inf if limit_s is None else limit_s))

    def check(self) -> None:
        """Give the run up if it has stalled or the time is up; cheap otherwise."""
        now_s, resources = time.monotonic(), self._resources
        if self._limit_s is not None and now_s - self._begun_s >= self._limit_s:
            what = f"its end was awaited for {self._limit_s:g} s: {resources.engine.what_is_left()}"
            resources.fail_hung(ExecutionError(what, where=resources._where))
        elif now_s >= self._next_s:
            self._next_s = now_s + self._look_s
            if self._engine is not resources.engine:  # after a recovery; its instructions have other numbers
                self._patience, self._engine = stall_timeout.StallTimeout(stall_timeout.HANG_S), resources.engine
            held_s = self._patience.stalled_s(self._engine.positions(), now_s)
            if held_s is not None:
                what = f"no progress for {held_s:.3g} s: {resources.engine.what_is_left()}"
                resources.fail_hung(ExecutionError(what, where=resources._where))


#: Runs whose engines have not ended: they must be stopped before the interpreter exits.
unfinished: set[Resources] = set()
#: Failed runs that were not reported to a caller and not closed.
_unseen_failures: set[Resources] = set()


def _never_free(resources: Resources) -> None:
    """Leak the resources, even at exit: freeing an event waits for it, and the device may still write to the memory."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(resources))


def _forget_after_fork() -> None:
    """Forget all runs in a forked child: their threads do not exist there, so no run may be waited for."""
    for resources in list(unfinished):
        _never_free(resources)
    unfinished.clear()
    _unseen_failures.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


@atexit.register
def _stop_all() -> None:
    for resources in list(unfinished):
        resources.abandon()
    deadline = time.monotonic() + GRACE_S
    for resources in list(unfinished):
        if resources.hung is None:
            resources.engines.join(max(0.0, deadline - time.monotonic()))
    hung = [resources for resources in list(unfinished) if not resources.engines.ended]
    for resources in list(_unseen_failures):
        resources.warn_if_unseen()
    if hung:
        _exit_at_once(hung)


def _exit_at_once(hung: list[Resources]) -> None:
    """End the process without C and C++ destructors, which would wait for the hung runs."""
    for resources in hung:
        _never_free(resources)
    sys.stderr.write(f"syclsched: {len(hung)} run(s) hang, and are left behind: {hung[0].engine.what_is_left()}\n")
    exit_without_destructors()
