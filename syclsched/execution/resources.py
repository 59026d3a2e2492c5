# SPDX-License-Identifier: Apache-2.0
"""What a run holds and gives back once, and how it ends: by itself, or given up because something hangs.

A kernel that was submitted cannot be taken back. A run that hangs is given up: its waits end, its engine's threads stay
behind, and what the device may still write to is kept until the engine has really ended, or for ever.
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
from collections.abc import Callable
from typing import Any, Protocol

from syclsched.errors import ExecutionError
from syclsched.execution import patience
from syclsched.execution.engine import Engine
from syclsched.execution.waiting import SLICE_S, Flag, wait_flag
from syclsched.oneapi.forked import exit_without_destructors

_LOGGER = logging.getLogger("syclsched")
#: How long the end of the interpreter, an interrupted wait, or `Run.close` is held up for kernels that were submitted.
GRACE_S = 60.0


class Looker(Protocol):
    """Looks where the lanes of a run are, now and then."""

    tick_s: float

    def look(self, now_s: float) -> None:
        """Look, and do what is to be done about it."""


class Resources:
    """The buffers of a run and, where it opened them, its devices."""

    def __init__(self, engine: Engine, live: Any, *, owns_devices: bool) -> None:
        self.engine = engine
        #: Set when the run has ended, well or not, or was given up.
        self.finished = Flag()
        #: Why the run was given up, if it was.
        self.hung: ExecutionError | None = None
        #: What looks after it.
        self.watch: Looker | None = None
        self._live = live
        self._owns_devices = owns_devices
        self._abandoned = self._released = False
        # Whatever is done under it may collect garbage, and so drop another run, or this one: `abandon` takes it, too.
        self._lock = threading.RLock()
        self._when_ended: list[Callable[[], None]] = []
        unfinished.add(self)
        engine.when_finished = self._ended

    def abandon(self) -> None:
        """Cancel, and give everything back as soon as the last kernel has ended; returns at once."""
        self._abandoned = True
        self.engine.cancel()
        if self.engine.finished.is_set():
            self.release()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Have something called once the run has ended, on any thread; at once if it has."""
        with self._lock:
            if not self.finished.is_set():
                self._when_ended.append(call)
                return
        call()

    def wait_or_give_up(self) -> None:
        """Wait for the end for as long as `GRACE_S`, then give the run up; so does an interrupt."""
        try:
            if wait_flag(self.finished, GRACE_S):
                return
        except BaseException:
            self.give_up(ExecutionError("the wait for its end was interrupted", where=self._where))
            raise
        what = f"its end was awaited for {GRACE_S:g} s: {self.engine.what_is_left()}"
        self.give_up(ExecutionError(what, where=self._where))

    def wait_while_it_goes_on(self, limit_s: float | None = None) -> None:
        """Wait for the end; give the run up if nothing goes on in it any more, or the time is up."""
        if self.finished.is_set():
            return
        waits = Waits(self, limit_s)
        while not self.finished.wait(waits.tick_s):
            waits.look()

    def give_up(self, error: ExecutionError) -> None:
        """End all waits for the run, although something of it still goes on."""
        with self._lock:
            if self.finished.is_set():
                return
            self.hung = error
            self.engine.given_up = True
            _never_free(self)
            if self._live is not None:
                self._live.leave_behind()
            waiting = self._end()
        _LOGGER.warning("given up, its memory is kept until it ends: %s", error)
        self.engine.cancel()
        for call in waiting:
            call()

    def release(self) -> None:
        """Give everything back, once nothing goes on; doing so twice does nothing."""
        with self._lock:
            if self.hung is not None and not self.engine.finished.is_set():
                self._abandoned = True
                return
            released, self._released = self._released, True
        if released:
            return
        self.engine.buffers.clear()
        if self._owns_devices:
            self._live.close()

    @property
    def _where(self) -> str:
        return f"plan {self.engine.program.plan.name!r}"

    def _ended(self) -> None:
        """Be told by the engine that it is done."""
        unfinished.discard(self)
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


class Waits:
    """Somebody who waits for a run, and looks now and then whether it still goes on."""

    def __init__(self, resources: Resources, limit_s: float | None = None) -> None:
        self._resources = resources
        self._limit_s = limit_s
        self._patience = patience.Patience(patience.HANG_S)
        self._begun_s = time.monotonic()
        self._look_s = min(patience.LOOK_S, patience.HANG_S / 4)
        self._next_s = self._begun_s + self._look_s
        #: Between two looks at most.
        self.tick_s = max(0.0, min(SLICE_S, self._look_s, math.inf if limit_s is None else limit_s))

    def look(self) -> None:
        """Give the run up if it is time to; cheap if not."""
        now_s, resources = time.monotonic(), self._resources
        if self._limit_s is not None and now_s - self._begun_s >= self._limit_s:
            what = f"its end was awaited for {self._limit_s:g} s: {resources.engine.what_is_left()}"
            resources.give_up(ExecutionError(what, where=resources._where))
        elif now_s >= self._next_s:
            self._next_s = now_s + self._look_s
            held_s = self._patience.held_s(resources.engine.positions(), now_s)
            if held_s is not None:
                what = f"nothing has gone on in it for {held_s:.3g} s: {resources.engine.what_is_left()}"
                resources.give_up(ExecutionError(what, where=resources._where))


#: Runs whose engines have not ended: they must be stopped before the interpreter goes.
unfinished: set[Resources] = set()


def _never_free(resources: Resources) -> None:
    """Keep it even when the interpreter ends: freeing an event waits for it, and freed memory may be written to."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(resources))


def _forget_all() -> None:
    """In a forked process: the threads that do the work of these runs are not there, so nothing may be waited for."""
    for resources in list(unfinished):
        _never_free(resources)
    unfinished.clear()


os.register_at_fork(after_in_child=_forget_all)


@atexit.register
def _stop_all() -> None:
    for resources in list(unfinished):
        resources.abandon()
    deadline = time.monotonic() + GRACE_S
    for resources in list(unfinished):
        if resources.hung is None:
            resources.engine.join(max(0.0, deadline - time.monotonic()))
    left = [resources for resources in list(unfinished) if not resources.engine.finished.is_set()]
    if left:
        _exit_at_once(left)


def _exit_at_once(left: list[Resources]) -> None:
    """Let the process end without the destructors of C and C++, which would wait for what hangs."""
    for resources in left:
        _never_free(resources)
    sys.stderr.write(f"syclsched: {len(left)} run(s) hang, and are left behind: {left[0].engine.what_is_left()}\n")
    exit_without_destructors()
