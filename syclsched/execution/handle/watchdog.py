# SPDX-License-Identifier: Apache-2.0
"""Watchdog: one thread that periodically checks the lanes of all runs of the process.

It warns of tasks that run too long, fails tasks past their deadline, and gives up runs that hang on such tasks. A check
takes a few microseconds per lane, independent of the number of completed tasks, because lanes complete in order. It has
its own thread because an engine's thread may be blocked in the driver.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable

from syclsched.errors import DeadlineError
from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.core.safeguards import Safeguards
from syclsched.execution.handle.engine import Engine
from syclsched.execution.handle.resources import GRACE_S, Resources, unfinished

_LOGGER = logging.getLogger("syclsched")
#: Seconds between two checks; shorter for runs with short deadlines.
TICK_S = 0.25
#: A warning comes after this multiple of the predicted duration, and at least this many seconds.
WARN_FACTOR, MIN_WARN_S = 30.0, 10.0
#: A task past its deadline gets as much time again, between this and `GRACE_S` seconds, before its run is given up.
LEAST_GRACE_S = 1.0
#: Checks without any run before the thread sleeps until a run starts.
_IDLE_CHECKS = 8


class RunWatch:
    """Watchdog state of one run. The caller passes the time; this class reads no clock."""

    def __init__(self, resources: Resources, safeguards: Safeguards) -> None:
        self._resources = resources
        self._safeguards = safeguards
        self._follow(resources.engine)
        self._began_s: float | None = None
        #: Errors of tasks past their deadline.
        self._errors: list[DeadlineError] = []
        #: When the run was cancelled because of its own deadline.
        self._late_s: float | None = None
        limits = [s for s in (safeguards.deadline_s, safeguards.watchdog_s) if s is not None]
        #: Seconds between two checks.
        self.tick_s = min([TICK_S, *(limit / 4 for limit in (*limits, *self._deadlines_s.values()))])

    def _follow(self, engine: Engine) -> None:
        """Watch an engine, the first one or one that took over: instruction numbers are those of the engine."""
        self._engine, self._deadlines_s = engine, self._resources.engines.deadlines_s
        #: By lane: instruction number, whether it was running, and since when.
        self._since_s: dict[str, tuple[int, bool, float]] = {}
        self._warn_at_s: dict[int, float] = {}
        #: Times at which tasks passed their deadline, by instruction number.
        self._overdue_s: dict[int, float] = {}

    def check(self, now_s: float) -> None:
        """Check the progress of the lanes, and warn, fail tasks, or give the run up."""
        if self._began_s is None:
            self._began_s = now_s
        if self._resources.finished.is_set():
            return
        if self._engine is not self._resources.engine:
            self._follow(self._resources.engine)
        positions = self._engine.positions()
        held_s = self._held(positions, now_s)
        whole = self._safeguards.deadline_s
        late = whole is not None and now_s - self._began_s > whole
        for position in positions:
            deadline_s = self._deadlines_s.get(position.number, math.inf)
            if position.runs and position.number not in self._overdue_s:
                if held_s[position.lane] > deadline_s:
                    self._overdue(position, now_s, held_s[position.lane], deadline_s)
                elif late:
                    assert whole is not None
                    what = f"the run has taken {now_s - self._began_s:.3g} s, its deadline is {whole:g} s; the task has"
                    self._fail(position, now_s, f"{what} {_running(position, held_s[position.lane])}")
            if held_s[position.lane] > self._patience(position):
                self._warn(position, held_s[position.lane])
        if whole is not None and late:
            self._cancel(now_s, now_s - self._began_s, whole)
        self._fail_if_hung(positions, now_s, whole if late else None)

    def _cancel(self, now_s: float, taken_s: float, whole_s: float) -> None:
        """Cancel a run past its deadline, and note its error in case no task is late, as during compilation."""
        resources = self._resources
        if self._late_s is None and not resources.engines.cancelled:
            self._late_s = now_s
            what = (
                f"the run has taken {taken_s:.3g} s, its deadline is {whole_s:g} s; {resources.engine.what_is_left()}"
            )
            resources.late = DeadlineError(what, task=None, where=self._where, hint="Give it less to do, or more time")
        resources.engines.cancel()

    def _held(self, positions: Iterable[LaneProgress], now_s: float) -> dict[str, float]:
        """Return the seconds without progress of each lane."""
        since = {}
        for position in positions:
            number, ran, begun_s = self._since_s.get(position.lane, (-1, False, now_s))
            same = number == position.number and ran == position.runs
            since[position.lane] = (position.number, position.runs, begun_s if same else now_s)
        self._since_s = since
        return {lane: now_s - begun_s for lane, (_, _, begun_s) in since.items()}

    def _patience(self, position: LaneProgress) -> float:
        if not position.runs:
            return math.inf  # the warning is about the instruction it waits for
        usual = self._safeguards.watchdog_s
        limit = max(MIN_WARN_S, WARN_FACTOR * position.predicted_s) if usual is None else usual
        return self._warn_at_s.get(position.number, limit)

    def _warn(self, position: LaneProgress, held_s: float) -> None:
        self._warn_at_s[position.number] = 2 * held_s
        waiting = [p for p in self._engine.positions() if p.waits_for is not None]
        blocked = f"; {'; '.join(map(str, waiting[:3]))}" if waiting else ""
        _LOGGER.warning("%s: %s has %s%s", self._where, position.name, _running(position, held_s), blocked)

    def _overdue(self, position: LaneProgress, now_s: float, held_s: float, deadline_s: float) -> None:
        self._fail(position, now_s, f"has {_running(position, held_s)}, its deadline is {deadline_s:g} s")

    def _fail(self, position: LaneProgress, now_s: float, what: str) -> None:
        self._overdue_s[position.number] = now_s
        name = position.task or position.name
        hint = "A kernel that was submitted cannot be stopped: give it less to do, or more time"
        error = DeadlineError(what, task=name, where=position.name, hint=hint)
        self._errors.append(error)
        self._engine.overdue(position.number, error)

    def _fail_if_hung(self, positions: Iterable[LaneProgress], now_s: float, whole_s: float | None) -> None:
        """Give the run up if every running task, or the run itself, is past its deadline and its grace period."""
        resources = self._resources
        if resources.late is not None and self._late_s is not None and not any(p.runs for p in positions):
            if now_s - self._late_s >= _grace_s(math.inf if whole_s is None else whole_s):
                resources.fail_hung(next(iter(self._errors), resources.late))
            return
        active = [p for p in positions if p.waits_for is None]
        if not self._overdue_s or not active or any(p.number not in self._overdue_s for p in active if p.runs):
            return
        for position in active:
            if position.number not in self._overdue_s:
                continue
            deadline_s = min(self._deadlines_s.get(position.number, math.inf), math.inf if whole_s is None else whole_s)
            if now_s - self._overdue_s[position.number] < _grace_s(deadline_s):
                return
        resources.fail_hung(self._errors[0])

    @property
    def _where(self) -> str:
        return f"plan {self._resources.engine.program.plan.name!r}"


class _Watchdog:
    """The watchdog thread; started by the first run."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._asleep = False

    def watch(self, watch: RunWatch, resources: Resources) -> None:
        """Watch a run until it has ended."""
        resources.watch = watch
        if self._thread is None or self._asleep or watch.tick_s < TICK_S:
            with self._changed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="syclsched watchdog", daemon=True)
                    self._thread.start()
                self._changed.notify()

    def _run(self) -> None:
        idle = 0
        while True:
            tick_s = _check_all()
            idle = 0 if tick_s is not None else idle + 1
            with self._changed:
                self._asleep = idle > _IDLE_CHECKS and not any(_is_watched(resources) for resources in list(unfinished))
                self._changed.wait(None if self._asleep else tick_s or TICK_S)
                self._asleep = False


def _check_all() -> float | None:
    """Check all runs; return the seconds until the next check, None if there is no run.

    A separate function, so that its locals do not keep runs alive until the next check.
    """
    watches = [(r, r.watch) for r in list(unfinished) if r.watch is not None and r.hung is None]
    for resources, watch in watches:
        try:
            watch.check(time.monotonic())
        except Exception:  # an error in one run must not stop the watchdog for the others
            _LOGGER.exception("the watchdog could not look at %r", resources.engine)
            resources.watch = None
    return min([TICK_S, *(watch.tick_s for _, watch in watches)]) if watches else None


def _is_watched(resources: Resources) -> bool:
    return resources.watch is not None and resources.hung is None


def _grace_s(deadline_s: float) -> float:
    return min(GRACE_S, max(LEAST_GRACE_S, deadline_s))


def _running(position: LaneProgress, held_s: float) -> str:
    place = f"on lane {position.lane} of device {position.device!r}, {position.place} of {position.of} there"
    predicted = f" (predicted: {position.predicted_s:.3g} s)" if position.predicted_s else ""
    return f"been running for {held_s:.3g} s{predicted} {place}"


#: The watchdog of this process.
WATCHDOG = _Watchdog()
