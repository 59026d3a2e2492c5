# SPDX-License-Identifier: Apache-2.0
"""An engine that is replaced by another when something breaks: each does what those before it left undone."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from syclsched.errors import DeadlineError, ExecutionError, SyclschedError, WaitTimeoutError
from syclsched.execution.buffers import Buffers, NumpyArray
from syclsched.execution.clock import ClockMap
from syclsched.execution.engine import Engine
from syclsched.execution.failures import Failures
from syclsched.execution.program import Program
from syclsched.execution.records import Counts, Record, make_trace
from syclsched.execution.recovery.health import Health
from syclsched.execution.recovery.recoverer import Ended, Recoverer, Rest
from syclsched.execution.recovery.traces import Course, merge, total
from syclsched.execution.start import Prepared, engine_for
from syclsched.execution.stuck import Position
from syclsched.execution.waiting import Flag, after, wait_flag
from syclsched.execution.work import Work
from syclsched.model.access import RowRange
from syclsched.model.plan import Plan
from syclsched.model.recovery import Recovery
from syclsched.model.trace import Trace

#: Instructions of different engines are so far apart where they must be told from each other.
_APART: Final = 1 << 40


class Recovering:
    """Runs a plan, and what is left of it after each failure; with the face of an engine.

    What it says of instructions is of the engine at work, `acting`.
    """

    def __init__(
        self,
        first: Engine,
        prepared: Prepared,
        live: Any,
        values: dict[str, NumpyArray],
        health: Health | None = None,
        conclude: Callable[[], tuple[Ended, Prepared]] | None = None,
    ) -> None:
        self.acting: Engine = first
        self._first = first.program
        self._conclude = conclude
        #: Of the tasks that have one, by the numbers that `positions` gives.
        self.deadlines_s = dict(prepared.deadlines_s)
        self.finished = Flag()
        self.when_finished: Callable[[], None] | None = None
        self.recoveries: tuple[Recovery, ...] = ()
        self._cancelled = False
        self._prepared = prepared
        self._live = live
        self._values = values
        self._recoverer = Recoverer(prepared, live, Health(live) if health is None else health)
        self._courses: list[Course] = []
        self._counts: list[Counts] = []
        self._lock = threading.RLock()  # a run that is dropped on a thread that holds it is cancelled there
        self._changed = threading.Condition(self._lock)
        self._settled: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._broken: SyclschedError | None = None
        self._adopt(first)

    # --- one after another ------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self.acting.start()

    def cancel(self) -> None:
        """Submit nothing more, and recover from nothing more; returns at once."""
        with self._lock:
            self._cancelled = True
            acting = self.acting
        acting.cancel()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end."""
        wait_flag(self.finished, timeout_s)

    def ask(self, read: Callable[[Engine, float | None], Any], timeout_s: float | None) -> Any:
        """Return what is read from the engine at work; read again if another took over meanwhile."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            engine = self.acting
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            error: Exception | None = None
            try:
                found = read(engine, left_s)
            except Exception as raised:
                error = raised
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            superseded = self._superseded(engine, left_s)
            if superseded is None and error is None:
                raise WaitTimeoutError(f"not there {after(timeout_s)}: the run is being recovered", where="result()")
            if superseded:
                continue
            if error is not None:
                raise error
            return found

    def check_not_lost(self, array: str, rows: RowRange | None) -> None:
        """Raise the first cause if an array, or some of these rows of it, will never have a value."""
        for lost in self._recoverer.lost.get(array, ()):
            if rows is None or lost.rows is None or (lost.rows[0] < rows[1] and rows[0] < lost.rows[1]):
                raise lost.error

    def _superseded(self, engine: Engine, timeout_s: float | None) -> bool | None:
        """Return whether another engine has taken over from one of which something failed."""
        if engine is not self.acting:
            return True
        if not (engine.failures.halted or engine.any_failed() or engine.error is not None or self._unsettled(engine)):
            return False
        with self._changed:
            known = self._changed.wait_for(lambda: engine in self._settled, timeout_s)
        return engine is not self.acting if known else None

    @property
    def courses(self) -> tuple[Course, ...]:
        """What the engines before the one at work did."""
        return tuple(self._courses)

    def trace(self) -> Trace | None:
        """Return the traces of all engines as one, once all is over; None if there was but one."""
        return merge([*self._courses, self._course(self.acting)], self.recoveries) if self._courses else None

    def _unsettled(self, engine: Engine) -> bool:
        """Return whether an engine has ended with failures, and it is not known yet what comes of them."""
        return engine.finished.is_set() and not engine.failures.none and engine not in self._settled

    def _adopt(self, engine: Engine) -> None:
        engine.failures.halts = self._recoverer.halts
        engine.when_finished = lambda: self._ended(engine)

    def _ended(self, engine: Engine) -> None:
        """Go on after an engine, on its thread, or end."""
        follower: Engine | None = None
        try:
            rest = None if self._cancelled else self._rest(engine)
            if rest is not None:
                follower = self._follow(engine, rest)
        except BaseException as error:  # what goes wrong here must reach the caller, not end the thread
            self._broken = ExecutionError(
                f"the run could not be recovered: {type(error).__name__}: {error}",
                where=f"plan {self.program.plan.name!r}",
            )
            self._broken.__cause__ = error
        finally:
            with self._changed:
                self._settled.add(engine)
                if follower is not None:
                    self._counts.append(engine.counts)
                    self.acting = follower
                self._changed.notify_all()
                if self._cancelled and follower is not None:
                    follower.cancel()
        if follower is not None:
            engine.buffers.clear()
            follower.start()
        else:
            self._finish()

    def _rest(self, engine: Engine) -> Rest | None:
        conclude, self._conclude = self._conclude, None
        if conclude is None:
            return self._recoverer.rest(engine, self._prepared, self._values)
        if engine.failures.first is None and engine.error is None:
            return None
        ended, self._prepared = conclude()
        self._recoverer.decided(self._prepared)
        return self._recoverer.rest(ended, self._prepared, self._values)

    def _follow(self, engine: Engine, rest: Rest) -> Engine:
        if engine.recording:
            self._courses.append(self._course(engine))
        self._values.update(rest.values)
        self._prepared = rest.prepared
        base = (len(self._counts) + 1) * _APART
        self.deadlines_s |= {base + number: s for number, s in rest.prepared.deadlines_s.items()}
        self.recoveries = (*self.recoveries, rest.recovery)
        follower = engine_for(rest.prepared, self._live, self._values, record=engine.recording)
        self._adopt(follower)
        return follower

    def _course(self, engine: Engine) -> Course:
        records = engine.records
        origin_ns = min((r.submit_ns for r in records.values()), default=0)
        program = engine.program
        return Course(make_trace(program.plan, records, engine.clocks, engine.counts, program.further), origin_ns)

    def _finish(self) -> None:
        self.finished.set()
        if self.when_finished is not None:
            self.when_finished()
            self.when_finished = None

    # --- as the engine at work --------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """What is done."""
        return self.acting.program

    @property
    def plan(self) -> Plan:
        """What was to be done at first; of a run that decides as it goes, what has happened before anything broke."""
        return self._first.plan

    @property
    def buffers(self) -> Buffers:
        """Where values lie."""
        return self.acting.buffers

    @property
    def counts(self) -> Counts:
        """What was counted so far."""
        return total([*self._counts, self.acting.counts]) if self._counts else self.acting.counts

    @property
    def failures(self) -> Failures:
        """What failed so far."""
        return self.acting.failures

    @property
    def error(self) -> SyclschedError | None:
        """What the run failed of: the first that could not be recovered from."""
        failed = next(iter(self._recoverer.failed.values()), None)
        return self._broken or failed or self.acting.error

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled or self.acting.cancelled

    @property
    def through(self) -> bool:
        """Whether everything was done: nothing was cancelled."""
        return self.acting.through

    @property
    def lasting(self) -> bool:
        """Whether the buffers are the run's own, so that their memory may be given out."""
        return self.acting.lasting

    @property
    def given_up(self) -> bool:
        """Whether nobody waits for its end any more; see `Engine`."""
        return self.acting.given_up

    @given_up.setter
    def given_up(self, given_up: bool) -> None:
        self.acting.given_up = given_up

    @property
    def recording(self) -> bool:
        """Whether there will be a trace."""
        return self.acting.recording

    @property
    def records(self) -> Mapping[int, Record]:
        """What each instruction did, by number."""
        return self.acting.records

    @property
    def clocks(self) -> Mapping[str, ClockMap]:
        """Maps of the device clocks, by lane name."""
        return self.acting.clocks

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction has been submitted; see `Engine`."""
        return self.acting.wait_submitted(number, timeout_s)

    def event(self, number: int) -> Any:
        """Return the event of a submitted device instruction; see `Engine`."""
        return self.acting.event(number)

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted; see `Engine`."""
        return self.acting.passed(number)

    def statuses_behind(self, array: str) -> list[Work]:
        """Return the tasks with a status that an array's last value depends on; see `Engine`."""
        return self.acting.statuses_behind(array)

    def any_failed(self) -> bool:
        """Return whether something has failed on its device; see `Engine`."""
        return self.acting.any_failed()

    def positions(self) -> list[Position]:
        """Return where the lanes are; see `Engine`. Numbers are told apart from those of engines before."""
        with self._lock:
            acting, base = self.acting, len(self._counts) * _APART
        return [replace(position, number=base + position.number) for position in acting.positions()]

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Let a task fail that is past its deadline; see `Engine`."""
        with self._lock:
            acting, base = self.acting, len(self._counts) * _APART
        if base <= number < base + _APART:
            acting.overdue(number - base, error)

    def what_is_left(self) -> str:
        """Return what a wait that takes too long is for; see `Engine`."""
        return self.acting.what_is_left()

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed; see `Engine`."""
        return self.acting.is_complete(number)
