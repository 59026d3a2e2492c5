# SPDX-License-Identifier: Apache-2.0
"""One thread for all runs of the process that looks, now and then, where their lanes are.

It warns of what runs for too long, lets tasks fail that are past their deadline, and gives up runs that hang on them. A
look takes some microseconds for each lane, however many tasks have been done since: lanes complete in order. It is no
part of any engine's thread, because that may be stuck in the driver itself.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping

from syclsched.errors import DeadlineError
from syclsched.execution.resources import GRACE_S, Resources, unfinished
from syclsched.execution.safeguards import Safeguards
from syclsched.execution.stuck import Position

_LOGGER = logging.getLogger("syclsched")
#: Between two looks; shorter where a deadline is.
TICK_S = 0.25
#: A warning comes after so many times the prediction, and not before so many seconds.
PATIENCE, LEAST_PATIENCE_S = 30.0, 10.0
#: A task past its deadline is waited for as long again, within these bounds, before its run is given up.
LEAST_GRACE_S = 1.0
#: Looks without any run before the thread sleeps until there is one.
_IDLE_LOOKS = 8


class Watch:
    """What is known of one run from earlier looks. Told the time; reads no clock."""

    def __init__(self, resources: Resources, safeguards: Safeguards, deadlines_s: Mapping[int, float]) -> None:
        self._resources = resources
        self._safeguards = safeguards
        self._deadlines_s = deadlines_s
        self._began_s: float | None = None
        #: By lane: what it was at, whether that ran, and since when.
        self._since_s: dict[str, tuple[int, bool, float]] = {}
        self._warn_at_s: dict[int, float] = {}
        #: Tasks past their deadline, by number, and when they were.
        self._overdue_s: dict[int, float] = {}
        self._errors: dict[int, DeadlineError] = {}
        limits = [*deadlines_s.values(), *(s for s in (safeguards.deadline_s, safeguards.watchdog_s) if s is not None)]
        #: How often to look.
        self.tick_s = min([TICK_S, *(limit / 4 for limit in limits)])

    def look(self, now_s: float) -> None:
        """Look where the lanes are, and do what is to be done about it."""
        if self._began_s is None:
            self._began_s = now_s
        if self._resources.finished.is_set():
            return
        positions = self._resources.engine.positions()
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
        if late:
            self._resources.engine.cancel()
        self._give_up_if_hung(positions, now_s, whole if late else None)

    def _held(self, positions: Iterable[Position], now_s: float) -> dict[str, float]:
        """Return for how long each lane has been where it is."""
        since = {}
        for position in positions:
            number, ran, begun_s = self._since_s.get(position.lane, (-1, False, now_s))
            same = number == position.number and ran == position.runs
            since[position.lane] = (position.number, position.runs, begun_s if same else now_s)
        self._since_s = since
        return {lane: now_s - begun_s for lane, (_, _, begun_s) in since.items()}

    def _patience(self, position: Position) -> float:
        if not position.runs:
            return math.inf  # what it waits for is warned of
        usual = self._safeguards.watchdog_s
        limit = max(LEAST_PATIENCE_S, PATIENCE * position.predicted_s) if usual is None else usual
        return self._warn_at_s.get(position.number, limit)

    def _warn(self, position: Position, held_s: float) -> None:
        self._warn_at_s[position.number] = 2 * held_s
        waiting = [p for p in self._resources.engine.positions() if p.waits_for is not None]
        behind = f"; {'; '.join(map(str, waiting[:3]))}" if waiting else ""
        _LOGGER.warning("%s: %s has %s%s", self._where, position.name, _running(position, held_s), behind)

    def _overdue(self, position: Position, now_s: float, held_s: float, deadline_s: float) -> None:
        self._fail(position, now_s, f"has {_running(position, held_s)}, its deadline is {deadline_s:g} s")

    def _fail(self, position: Position, now_s: float, what: str) -> None:
        self._overdue_s[position.number] = now_s
        name = position.task or position.name
        hint = "A kernel that was submitted cannot be stopped: give it less to do, or more time"
        error = DeadlineError(what, task=name, where=position.name, hint=hint)
        self._errors[position.number] = error
        self._resources.engine.overdue(position.number, error)

    def _give_up_if_hung(self, positions: Iterable[Position], now_s: float, whole_s: float | None) -> None:
        """Give the run up if nothing goes on in it but tasks that are long past their deadline, or are only waiting."""
        going_on = [p for p in positions if p.waits_for is None]
        if not self._overdue_s or not going_on or any(p.number not in self._overdue_s for p in going_on if p.runs):
            return
        for position in going_on:
            if position.number not in self._overdue_s:
                continue
            deadline_s = min(self._deadlines_s.get(position.number, math.inf), math.inf if whole_s is None else whole_s)
            grace_s = min(GRACE_S, max(LEAST_GRACE_S, deadline_s))
            if now_s - self._overdue_s[position.number] < grace_s:
                return
        self._resources.give_up(next(iter(self._errors.values())))

    @property
    def _where(self) -> str:
        return f"plan {self._resources.engine.program.plan.name!r}"


class Watchdog:
    """The thread; started by the first run that is watched."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._asleep = False

    def watch(self, watch: Watch, resources: Resources) -> None:
        """Look after a run until it has ended."""
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
            tick_s = _look_at_all()
            idle = 0 if tick_s is not None else idle + 1
            with self._changed:
                self._asleep = idle > _IDLE_LOOKS and not any(_is_watched(resources) for resources in list(unfinished))
                self._changed.wait(None if self._asleep else tick_s or TICK_S)
                self._asleep = False


def _look_at_all() -> float | None:
    """Look at all runs; return after how many seconds to look again, None if there is no run.

    A function of its own, as what it holds must not live until the next look.
    """
    watches = [(r, r.watch) for r in list(unfinished) if r.watch is not None and r.hung is None]
    for resources, watch in watches:
        try:
            watch.look(time.monotonic())
        except Exception:  # one run's trouble must not end the watch over the others
            _LOGGER.exception("the watchdog could not look at %r", resources.engine)
            resources.watch = None
    return min([TICK_S, *(watch.tick_s for _, watch in watches)]) if watches else None


def _is_watched(resources: Resources) -> bool:
    return resources.watch is not None and resources.hung is None


def _running(position: Position, held_s: float) -> str:
    place = f"on lane {position.lane} of device {position.device!r}, {position.place} of {position.of} there"
    predicted = f" (predicted: {position.predicted_s:.3g} s)" if position.predicted_s else ""
    return f"been running for {held_s:.3g} s{predicted} {place}"


#: The one of this process.
WATCHDOG = Watchdog()
