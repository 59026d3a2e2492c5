# SPDX-License-Identifier: Apache-2.0
"""Engines of one run in turn: the first one, and another after each recovery."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from syclsched.errors import ExecutionError, SyclschedError, WaitTimeoutError
from syclsched.execution.core.execution_records import Counts, make_trace
from syclsched.execution.core.waiting import Flag, elapsed_text, wait_flag
from syclsched.execution.handle.engine import Engine, RunRecovery
from syclsched.execution.handle.trace_merging import EngineTrace, merge_traces, sum_counts
from syclsched.model.plan import Plan
from syclsched.model.recovery import Recovery


class EngineChain:
    """Executes a run by one engine; by another one each time that the run is recovered after an engine has ended."""

    _decided: Flag
    """Set when it is decided whether an engine follows the active one; only of a run with recovery, as `_over`."""
    _over: Flag

    def __init__(
        self, first: Engine, deadlines_s: Mapping[int, float] | None = None, recovery: RunRecovery | None = None
    ) -> None:
        #: Called when the last engine has ended, on its thread.
        self.when_ended: Callable[[], None] | None = None
        #: Traces of the engines before the active one.
        self.earlier: tuple[EngineTrace, ...] = ()
        #: Deadlines of tasks in seconds, by instruction number in the active engine.
        self.deadlines_s = deadlines_s or {}
        self.recovery = recovery
        self._first = first.program
        self._cancelled = False
        self._broken: SyclschedError | None = None
        self._counts: list[Counts] = []
        if recovery is not None:
            self._decided, self._over = Flag(), Flag()
            first.failures.halts = recovery.halts
        first.when_finished = self._ended
        #: The active engine.
        self.active = first

    # --- for callers, on any thread ---------------------------------------------------------------

    def cancel(self) -> None:
        """Stop submitting and recovering; returns at once."""
        self._cancelled = True  # first: `_ended` reads it after it has replaced the active engine
        self.active.cancel()

    def mark_hung(self) -> None:
        """Mark the active engine as hung: no caller waits for it any longer."""
        self.active.hung = True
        if self.recovery is not None:
            self._decided.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the last engine."""
        if self.recovery is None:
            self.active.join(timeout_s)
        else:
            wait_flag(self._over, timeout_s)

    def ask(self, read: Callable[[Engine, float | None], Any], timeout_s: float | None) -> Any:
        """Return the result of a query to the active engine; repeat it if another engine took over meanwhile."""
        if self.recovery is None:
            return read(self.active, timeout_s)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            engine = self.active
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            error: Exception | None = None
            try:
                found = read(engine, left_s)
            except Exception as raised:
                error = raised
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            superseded = self._superseded(engine, left_s)
            if superseded is None and error is None:
                raise WaitTimeoutError(
                    f"not there {elapsed_text(timeout_s)}: the run is being recovered", where="result()"
                )
            if superseded:
                continue
            if error is not None:
                raise error
            return found

    @property
    def ended(self) -> bool:
        """Whether the last engine has ended."""
        return self.active.finished.is_set() if self.recovery is None else self._over.is_set()

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return self._cancelled or self.active.cancelled

    @property
    def error(self) -> SyclschedError | None:
        """Error of the run, or of the first task that failed permanently in an earlier engine."""
        unrecovered = None if self.recovery is None else self.recovery.error
        return self._broken or unrecovered or self.active.error

    @property
    def plan(self) -> Plan:
        """The original plan; under a dynamic policy the plan executed before the first failure."""
        return self._first.plan

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """The recoveries so far, including those before the first engine was made."""
        return () if self.recovery is None else self.recovery.recoveries

    @property
    def counts(self) -> Counts:
        """Counters of all engines so far."""
        return sum_counts([*self._counts, self.active.counts]) if self._counts else self.active.counts

    def trace(self) -> EngineTrace:
        """Return the trace of all engines, once the run has ended."""
        last = _trace_of(self.active)
        if not self.recoveries:
            return last
        origin_ns = min((each.origin_ns for each in (*self.earlier, last) if each.trace.spans), default=0)
        return EngineTrace(merge_traces([*self.earlier, last], self.recoveries), origin_ns)

    def _superseded(self, engine: Engine, timeout_s: float | None) -> bool | None:
        """Return whether another engine has taken over after a failure; None if that is unknown at the time-out."""
        decided = self._decided  # before `active`, which `_ended` replaces first
        if engine is not self.active:
            return True
        failed = engine.failures.halted or engine.any_failed() or engine.error is not None
        if not (failed or (engine.finished.is_set() and not engine.failures.none)):
            return False
        known = wait_flag(decided, timeout_s)
        return engine is not self.active if known else None

    # --- on the thread of the engine that has ended -----------------------------------------------

    def _ended(self) -> None:
        """Start the next engine, or end the run."""
        ended, successor = self.active, None
        try:
            if self.recovery is not None and not self._cancelled:
                successor = self.recovery.successor(ended)
                if successor is not None:
                    self._follow(ended, successor, self.recovery)
        except BaseException as error:  # an error here must reach the caller, not end the thread
            successor = None
            self._broken = ExecutionError(
                f"the run could not be recovered: {type(error).__name__}: {error}",
                where=f"plan {ended.program.plan.name!r}",
            )
            self._broken.__cause__ = error
        if successor is not None:
            ended.failures.clear_frames()
            ended.buffers.clear()
            successor.start()
            return
        if self.recovery is not None:
            self._decided.set()
            self._over.set()
        if self.when_ended is not None:
            self.when_ended()
            self.when_ended = None

    def _follow(self, ended: Engine, successor: Engine, recovery: RunRecovery) -> None:
        """Make an engine the active one, in place of one that has ended."""
        if ended.recording:
            self.earlier = (*self.earlier, _trace_of(ended))
        self._counts.append(ended.counts)
        successor.failures.halts = recovery.halts
        successor.when_finished = self._ended
        self.deadlines_s = recovery.deadlines_s
        self.active = successor
        decided, self._decided = self._decided, Flag()
        decided.set()
        if self._cancelled:
            successor.cancel()


def _trace_of(engine: Engine) -> EngineTrace:
    """Return the trace of an engine that has ended."""
    program, records = engine.program, engine.records
    origin_ns = min((record.submit_ns for record in records.values()), default=0)
    return EngineTrace(make_trace(program.plan, records, engine.clocks, engine.counts, program.further), origin_ns)
