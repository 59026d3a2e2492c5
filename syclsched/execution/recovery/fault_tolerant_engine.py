# SPDX-License-Identifier: Apache-2.0
"""Fault-tolerant engine: after a failure, a new engine executes the remaining tasks."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from syclsched.errors import DeadlineError, ExecutionError, SyclschedError, WaitTimeoutError
from syclsched.execution.core.clock import ClockMap
from syclsched.execution.core.execution_records import Counts, Record, make_trace
from syclsched.execution.core.failures import Failures
from syclsched.execution.core.program import Program
from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.core.waiting import Flag, elapsed_text, wait_flag
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.dispatch.start import make_engine
from syclsched.execution.handle.engine import Engine
from syclsched.execution.memory.buffers import BufferLookup, NumpyArray
from syclsched.execution.recovery.health import DeviceHealth
from syclsched.execution.recovery.recovery_planner import EndedEngine, RecoveryPlan, RecoveryPlanner
from syclsched.execution.recovery.trace_merging import EngineTrace, merge_traces, sum_counts
from syclsched.model.access import RowRange
from syclsched.model.plan import Plan
from syclsched.model.recovery import Recovery
from syclsched.model.trace import Trace

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices

#: Offset between the instruction numbers of successive engines, which makes them unique within a run.
_ENGINE_STRIDE: Final = 1 << 40


class FaultTolerantEngine:
    """Engine that runs a plan, and after each failure a plan of the remaining tasks.

    Its methods on instructions refer to the active engine, `acting`.
    """

    def __init__(
        self,
        first: Engine,
        prepared: PreparedPlan,
        devices: OpenDevices,
        values: dict[str, NumpyArray],
        health: DeviceHealth | None = None,
        conclude: Callable[[], tuple[EndedEngine, PreparedPlan]] | None = None,
        recoveries: tuple[Recovery, ...] = (),
    ) -> None:
        self.acting: Engine = first
        self._first = first.program
        self._conclude = conclude
        #: Deadlines of tasks, by the instruction numbers that `positions` uses.
        self.deadlines_s = dict(prepared.deadlines_s)
        self.finished = Flag()
        self.when_finished: Callable[[], None] | None = None
        #: The recoveries so far, including those before the first engine was made.
        self.recoveries = recoveries
        self._cancelled = False
        self._prepared = prepared
        self._devices = devices
        self._values = values
        self._recoverer = RecoveryPlanner(prepared, devices, DeviceHealth(devices) if health is None else health)
        self._courses: list[EngineTrace] = []
        self._counts: list[Counts] = []
        self._lock = threading.RLock()  # reentrant: dropping a run cancels it, maybe on the thread that holds the lock
        self._changed = threading.Condition(self._lock)
        self._settled: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._broken: SyclschedError | None = None
        self._adopt(first)

    # --- life cycle -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the first engine."""
        self.acting.start()

    def cancel(self) -> None:
        """Stop submitting and recovering; returns at once."""
        with self._lock:
            self._cancelled = True
            acting = self.acting
        acting.cancel()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the run."""
        wait_flag(self.finished, timeout_s)

    def ask(self, read: Callable[[Engine, float | None], Any], timeout_s: float | None) -> Any:
        """Return the result of a query to the active engine; repeat it if another engine took over meanwhile."""
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
                raise WaitTimeoutError(
                    f"not there {elapsed_text(timeout_s)}: the run is being recovered", where="result()"
                )
            if superseded:
                continue
            if error is not None:
                raise error
            return found

    def check_not_lost(self, array: str, rows: RowRange | None) -> None:
        """Raise the first cause if an array, or one of the given rows, will never have a value."""
        for lost in self._recoverer.lost.get(array, ()):
            if rows is None or lost.rows is None or (lost.rows[0] < rows[1] and rows[0] < lost.rows[1]):
                raise lost.error

    def _superseded(self, engine: Engine, timeout_s: float | None) -> bool | None:
        """Return whether another engine has taken over after a failure; None if that is unknown at the time-out."""
        if engine is not self.acting:
            return True
        if not (engine.failures.halted or engine.any_failed() or engine.error is not None or self._unsettled(engine)):
            return False
        with self._changed:
            known = self._changed.wait_for(lambda: engine in self._settled, timeout_s)
        return engine is not self.acting if known else None

    @property
    def earlier_traces(self) -> tuple[EngineTrace, ...]:
        """Traces of the engines before the active one."""
        return tuple(self._courses)

    def trace(self) -> Trace | None:
        """Return the merged trace of all engines, once the run has ended; None without recoveries."""
        return merge_traces([*self._courses, self._course(self.acting)], self.recoveries) if self.recoveries else None

    def _unsettled(self, engine: Engine) -> bool:
        """Return whether an engine has ended with failures whose recovery is not decided yet."""
        return engine.finished.is_set() and not engine.failures.none and engine not in self._settled

    def _adopt(self, engine: Engine) -> None:
        engine.failures.halts = self._recoverer.halts
        engine.when_finished = lambda: self._ended(engine)

    def _ended(self, engine: Engine) -> None:
        """Start the next engine after one has ended, or end the run; on the ended engine's thread."""
        successor: Engine | None = None
        try:
            rest = None if self._cancelled else self._rest(engine)
            if rest is not None:
                successor = self._make_successor(engine, rest)
        except BaseException as error:  # an error here must reach the caller, not end the thread
            self._broken = ExecutionError(
                f"the run could not be recovered: {type(error).__name__}: {error}",
                where=f"plan {self.program.plan.name!r}",
            )
            self._broken.__cause__ = error
        finally:
            with self._changed:
                self._settled.add(engine)
                if successor is not None:
                    self._counts.append(engine.counts)
                    self.acting = successor
                self._changed.notify_all()
                if self._cancelled and successor is not None:
                    successor.cancel()
        if successor is not None:
            engine.buffers.clear()
            successor.start()
        else:
            self._finish()

    def _rest(self, engine: Engine) -> RecoveryPlan | None:
        conclude, self._conclude = self._conclude, None
        if conclude is None:
            return self._recoverer.rest(engine, self._prepared, self._values)
        if engine.failures.first is None and engine.error is None:
            return None
        ended, self._prepared = conclude()
        self._recoverer.set_plan(self._prepared)
        return self._recoverer.rest(ended, self._prepared, self._values)

    def _make_successor(self, engine: Engine, rest: RecoveryPlan) -> Engine:
        if engine.recording:
            self._courses.append(self._course(engine))
        self._values.update(rest.values)
        self._prepared = rest.prepared
        base = (len(self._counts) + 1) * _ENGINE_STRIDE
        self.deadlines_s |= {base + number: s for number, s in rest.prepared.deadlines_s.items()}
        self.recoveries = (*self.recoveries, rest.recovery)
        successor = make_engine(rest.prepared, self._devices, self._values, record=engine.recording)
        self._adopt(successor)
        return successor

    def _course(self, engine: Engine) -> EngineTrace:
        records = engine.records
        origin_ns = min((r.submit_ns for r in records.values()), default=0)
        program = engine.program
        return EngineTrace(make_trace(program.plan, records, engine.clocks, engine.counts, program.further), origin_ns)

    def _finish(self) -> None:
        self.finished.set()
        if self.when_finished is not None:
            self.when_finished()
            self.when_finished = None

    # --- engine interface, forwarded to the active engine -----------------------------------------

    @property
    def program(self) -> Program:
        """Program of the active engine."""
        return self.acting.program

    @property
    def plan(self) -> Plan:
        """The original plan; under a dynamic policy, the plan executed before the first failure."""
        return self._first.plan

    @property
    def buffers(self) -> BufferLookup:
        """Buffers of the active engine."""
        return self.acting.buffers

    @property
    def counts(self) -> Counts:
        """Counters of all engines so far."""
        return sum_counts([*self._counts, self.acting.counts]) if self._counts else self.acting.counts

    @property
    def failures(self) -> Failures:
        """Failures of the active engine."""
        return self.acting.failures

    @property
    def error(self) -> SyclschedError | None:
        """The first error that could not be recovered from."""
        failed = next(iter(self._recoverer.failed.values()), None)
        return self._broken or failed or self.acting.error

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return self._cancelled or self.acting.cancelled

    @property
    def completed(self) -> bool:
        """Whether every instruction was executed and none was cancelled."""
        return self.acting.completed

    @property
    def lasting(self) -> bool:
        """Whether the run owns its buffers, so that results may share their memory."""
        return self.acting.lasting

    @property
    def given_up(self) -> bool:
        """Whether the run was given up because it hangs; see `Engine`."""
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
        """Execution records by instruction number."""
        return self.acting.records

    @property
    def clocks(self) -> Mapping[str, ClockMap]:
        """Device clock maps, by lane name."""
        return self.acting.clocks

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction has been submitted; see `Engine`."""
        return self.acting.wait_submitted(number, timeout_s)

    def event(self, number: int) -> object:
        """Return the event of a submitted device instruction; see `Engine`."""
        return self.acting.event(number)

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted; see `Engine`."""
        return self.acting.passed(number)

    def statuses_behind(self, array: str) -> list[InstructionWork]:
        """Return the tasks with a status value that an array's final value depends on; see `Engine`."""
        return self.acting.statuses_behind(array)

    def any_failed(self) -> bool:
        """Return whether a submitted instruction has failed and is not recorded yet; see `Engine`."""
        return self.acting.any_failed()

    def positions(self) -> list[LaneProgress]:
        """Return the lanes' progress, with instruction numbers unique over all engines; see `Engine`."""
        with self._lock:
            acting, base = self.acting, len(self._counts) * _ENGINE_STRIDE
        return [replace(position, number=base + position.number) for position in acting.positions()]

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Mark a running task as failed because it is past its deadline; see `Engine`."""
        with self._lock:
            acting, base = self.acting, len(self._counts) * _ENGINE_STRIDE
        if base <= number < base + _ENGINE_STRIDE:
            acting.overdue(number - base, error)

    def what_is_left(self) -> str:
        """Describe the unfinished lanes in words; see `Engine`."""
        return self.acting.what_is_left()

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed; see `Engine`."""
        return self.acting.is_complete(number)
