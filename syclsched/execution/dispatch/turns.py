# SPDX-License-Identifier: Apache-2.0
"""Turns of runs that share devices: priorities, and shares by start-time fair queueing.

A run with a priority below zero or a share takes turns: it keeps little work queued, and asks before each instruction.
It waits while a run of higher priority has work on one of its devices. Among runs of one priority, an instruction may
start if its run has had no more seconds for its share than the others that have work (P. Goyal, H. M. Vin and H. Cheng,
Start-time Fair Queueing, SIGCOMM 1996), within a quantum. A run that waits for long may start a quantum of work all the
same, so that no run starves.

All other runs submit without asking, and only hold back those of lower priority.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from syclsched.execution.core.thread_pool import THREADS
from syclsched.execution.handle import run_observer
from syclsched.execution.handle.resources import unfinished
from syclsched.execution.lanes.lanes import lane_number
from syclsched.execution.lanes.pacing import Ahead

if TYPE_CHECKING:
    from syclsched.execution.handle.engine import Engine
    from syclsched.execution.handle.resources import Resources
    from syclsched.model.plan import Lane, Plan
    from syclsched.model.platform import Platform

#: Seconds of work that a run may be ahead of the others, and that it may start now and then although it must wait.
QUANTUM_S: Final = 2e-3
#: Seconds that a run waits for each such quantum. So long a run may also have no work and make up for it later.
HELD_S: Final = 40e-3
#: Seconds for which a run still counts as having work after it asked or ended: the next instruction may follow.
LINGER_S: Final = 1e-3
#: Least seconds of an instruction: predictions may be zero.
LEAST_S: Final = 1e-5
#: Work that a run keeps queued on a lane; and less of it for some seconds after it was held back, as others may come
#: again: what is queued delays them.
AHEAD: Final = Ahead(QUANTUM_S, 2)
SPARING: Final = Ahead(2e-4, 1)
SPARING_S: Final = 0.5


def devices_of(plan: Plan) -> frozenset[str]:
    """Return the devices of a plan's lanes, as processors where they are known: runs with a common one share it."""
    used = {lane.device for lane in plan.lanes}
    if not used:  # a dynamic policy chooses them later
        used = {each.name for each in plan.platform.devices}
    return frozenset(each.processor or each.key for each in plan.platform.devices if each.name in used)


def turn_of(engine: Engine) -> Turn | None:
    """Return the turns of the run that an engine executes; None if it takes none."""
    turn: Turn | None = getattr(engine, "turn", None)
    return turn


def message_lanes(platform: Platform, lanes: Iterable[Lane]) -> frozenset[int]:
    """Return the lanes that only exchange data with other machines: messages use no device, and need no turn."""
    hosts = {each.name: each.lanes - each.message_lanes for each in platform.devices if each.message_lanes}
    return frozenset(
        number for number, lane in enumerate(lanes) if lane.device in hosts and lane_number(lane) >= hosts[lane.device]
    )


@dataclass(eq=False, slots=True)
class _Account:
    """Work of the runs of one bound plan, which have their share together."""

    used_s: float = 0.0  # seconds of started work, for a share of 1
    last_used_at_s: float = -math.inf


@dataclass(eq=False, slots=True)
class Turn:
    """The turns of one run; made by `Turns.join`."""

    turns: Turns
    priority: int
    share: float
    devices: frozenset[str]
    account: _Account
    has_work: Callable[[], bool]  # whether started instructions are at work on devices
    busy_until_s: float = -math.inf  # when its last instruction has ended, as predicted, and the next may have come
    #: When it may start a quantum of work although it must wait; and how much of such a quantum is left.
    credit_at_s: float = -math.inf
    credit_s: float = 0.0
    is_held: bool = False
    last_held_at_s: float = -math.inf
    wakes: list[Callable[[], None]] = field(default_factory=list)

    def may_start(self, seconds: float, wake: Callable[[], None]) -> bool:
        """Return whether an instruction of predicted length may start now; else call back, once, when to ask again."""
        return self.turns.may_start(self, max(seconds, LEAST_S), wake)

    def took_longer(self, seconds: float) -> None:
        """Note by how much an instruction took longer than predicted."""
        self.turns.add_work(self, seconds)

    @property
    def waits(self) -> bool:
        """Whether an instruction waits for its turn."""
        return bool(self.wakes)

    @property
    def ahead(self) -> Ahead:
        """Limits of the work queued on a lane."""
        return SPARING if self.turns.now_s() - self.last_held_at_s < SPARING_S else AHEAD

    def end(self) -> None:
        """Take no more turns."""
        self.turns.leave(self)


@dataclass(eq=False, slots=True)
class _OtherRun:
    """A run that takes no turns."""

    turns: Turns
    devices: frozenset[str]

    def note_end(self) -> None:
        """Note the end of the run."""
        self.turns.ended(self)

    def end(self, *, completed: bool) -> None:
        """Note the end of a run that is one call; if the call has not completed it, it is observed anew."""
        self.note_end()


class Turns:
    """The runs of this process that take turns, and those that others wait for; usable from any thread.

    If not ``threaded``, the caller wakes waiting runs, by `wake_due`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, threaded: bool = True) -> None:
        self._clock, self._threaded = clock, threaded
        self._changed = threading.Condition()
        self._sharing: list[Turn] = []
        self._others: list[_OtherRun] = []
        self._left_s: dict[str, float] = {}  # when the last of the others left, by device
        self._accounts: dict[object, _Account] = {}
        self._waking = False  # whether the thread is at work
        self._changes = 0

    def now_s(self) -> float:
        """Return the time on the clock of the turns."""
        return self._clock()

    def join(
        self,
        priority: int,
        share: float,
        devices: frozenset[str],
        has_work: Callable[[], bool] = bool,
        owner: object = None,
    ) -> Turn:
        """Return the turns of a run that begins.

        Runs of one owner, a hashable object, that follow each other at once or run together have their share together.
        """
        with self._changed:
            now_s = self._clock()
            old = [key for key, each in self._accounts.items() if now_s - each.last_used_at_s > HELD_S]
            used = {id(turn.account) for turn in self._sharing}
            for key in old:
                if id(self._accounts[key]) not in used:
                    del self._accounts[key]
            account = _Account() if owner is None else self._accounts.setdefault(owner, _Account())
            turn = Turn(self, priority, share, devices, account, has_work)
            self._sharing.append(turn)
            is_first = len(self._sharing) == 1
            if is_first:
                run_observer.add(self)
        for run in list(unfinished) if is_first else ():
            self.began(run)
        return turn

    def leave(self, turn: Turn) -> None:
        """Forget a run that has ended."""
        with self._changed:
            if turn not in self._sharing:
                return
            self._sharing.remove(turn)
            if not self._sharing:
                run_observer.remove(self)
                self._others.clear()
            self._notify()

    def may_start(self, turn: Turn, seconds: float, wake: Callable[[], None]) -> bool:
        """See `Turn.may_start`."""
        with self._changed:
            now_s, account = self._clock(), turn.account
            if now_s - account.last_used_at_s > HELD_S and not self._is_busy(turn, now_s):  # it is not saved up
                peers = [each.account.used_s for each in self._peers(turn, now_s)]
                account.used_s = max(account.used_s, min(peers, default=0.0))
            if not self._is_free(turn, now_s):
                turn.wakes.append(wake)
                self._notify()
                return False
            self._use(turn, seconds, now_s)
            turn.busy_until_s = now_s + min(seconds, HELD_S) + LINGER_S
            if any(each.wakes for each in self._sharing):
                self._notify()
            return True

    def add_work(self, turn: Turn, seconds: float) -> None:
        """See `Turn.took_longer`."""
        with self._changed:
            self._use(turn, seconds, self._clock())

    def wake_due(self) -> float | None:
        """Call back the runs that may continue; return the time of the next check, None if no run waits."""
        with self._changed:
            now_s = self._clock()
            free = [turn for turn in self._sharing if turn.wakes and self._is_free(turn, now_s)]
            wakes = [wake for turn in free for wake in turn.wakes]
            for turn in free:
                turn.wakes.clear()
                turn.busy_until_s = max(turn.busy_until_s, now_s + LINGER_S)
            next_s = self._next_s(now_s)
        for wake in wakes:
            wake()
        return next_s

    # --- for all runs: implements `run_observer.RunObserver` --------------------------------------------

    def began(self, resources: Resources) -> None:
        """Note a run that is about to start."""
        if not getattr(resources.engine, "takes_turns", False):
            resources.before_end(self._began(resources.engines.plan).note_end)

    def call_began(self, plan: Plan) -> _OtherRun:
        """Note a run that is one call of compiled code."""
        return self._began(plan)

    def ended(self, run: _OtherRun) -> None:
        """Note the end of a run that takes no turns."""
        with self._changed:
            if run in self._others:
                self._others.remove(run)
                now_s = self._clock()
                self._left_s.update(dict.fromkeys(run.devices, now_s))
                self._notify()

    # --- inside, under the lock ---------------------------------------------------------------------------

    def _began(self, plan: Plan) -> _OtherRun:
        run = _OtherRun(self, devices_of(plan))
        with self._changed:
            if self._sharing:
                self._others.append(run)
        return run

    def _use(self, turn: Turn, seconds: float, now_s: float) -> None:
        """Charge a run for work; what it starts while it must wait, it pays for by waiting."""
        turn.account.used_s += seconds / turn.share
        turn.account.last_used_at_s = now_s
        if turn.is_held:
            had_s, turn.credit_s = turn.credit_s, max(0.0, turn.credit_s - seconds)
            if turn.credit_s == 0.0:
                owed_s = seconds - had_s + (QUANTUM_S if had_s > 0.0 else 0.0)  # of a quantum that is now used up
                turn.credit_at_s = max(now_s, turn.credit_at_s) + HELD_S * owed_s / QUANTUM_S

    def _is_busy(self, turn: Turn, now_s: float) -> bool:
        return bool(turn.wakes) or now_s < turn.busy_until_s or turn.has_work()

    def _contenders(self, turn: Turn, now_s: float) -> Iterable[Turn]:
        for each in self._sharing:
            if each is not turn and self._is_busy(each, now_s) and not each.devices.isdisjoint(turn.devices):
                yield each

    def _peers(self, turn: Turn, now_s: float) -> list[Turn]:
        """Return the runs of the same priority that have work, and may do it."""
        return [
            each
            for each in self._contenders(turn, now_s)
            if each.priority == turn.priority and not self._has_superior(each, now_s)
        ]

    def _has_superior(self, turn: Turn, now_s: float) -> bool:
        """Return whether a run of higher priority has work on a device of this one."""
        if turn.priority < 0 and (
            any(not each.devices.isdisjoint(turn.devices) for each in self._others)
            or any(now_s - self._left_s.get(each, -math.inf) < LINGER_S for each in turn.devices)
        ):
            return True
        return any(each.priority > turn.priority for each in self._contenders(turn, now_s))

    def _is_free(self, turn: Turn, now_s: float) -> bool:
        """Return whether a run may start an instruction; notes since when it must wait."""
        held = self._has_superior(turn, now_s)
        if held:
            turn.last_held_at_s = now_s
        else:
            peers = [each.account.used_s for each in self._peers(turn, now_s) if each.account is not turn.account]
            held = turn.account.used_s > min(peers, default=math.inf) + QUANTUM_S / turn.share
        if held and not turn.is_held:
            turn.credit_at_s, turn.credit_s = max(turn.credit_at_s, now_s + HELD_S), 0.0
        turn.is_held = held
        if held and turn.credit_s <= 0.0 and now_s >= turn.credit_at_s:
            turn.credit_s = QUANTUM_S
        return not held or turn.credit_s > 0.0

    def _next_s(self, now_s: float) -> float | None:
        """Return the earliest time at which a waiting run may be free because of the time alone."""
        waiting = [turn for turn in self._sharing if turn.wakes]
        if not waiting:
            return None
        held = [turn.credit_at_s for turn in waiting]
        lingering = [left_s + LINGER_S for left_s in self._left_s.values()]
        # There is no notification when the work of the others completes.
        looks = [now_s + LINGER_S] if any(any(self._contenders(turn, now_s)) for turn in waiting) else []
        return min((each for each in (*held, *lingering, *looks) if each > now_s), default=now_s + LINGER_S)

    def _notify(self) -> None:
        """Let the thread check which runs may continue; it is started if necessary."""
        self._changes += 1
        if not self._threaded:
            return
        if self._waking:
            self._changed.notify_all()
        elif any(turn.wakes for turn in self._sharing):
            THREADS.start(self._wake, "syclsched turns")
            self._waking = True

    def _wake(self) -> None:
        try:
            while True:
                changes = self._changes
                next_s = self.wake_due()
                with self._changed:
                    if not any(turn.wakes for turn in self._sharing):
                        return
                    if next_s is not None and changes == self._changes:
                        self._changed.wait(max(0.0, next_s - self._clock()))
        finally:
            with self._changed:
                self._waking = False
                if any(turn.wakes for turn in self._sharing):
                    self._notify()


#: Of this process.
TURNS: Final = Turns()
