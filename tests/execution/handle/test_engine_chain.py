# SPDX-License-Identifier: Apache-2.0
"""A run's chain of engines: queries are repeated when another engine takes over, and no wait outlasts a hung engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from syclsched.errors import ExecutionError, WaitTimeoutError
from syclsched.execution.core.execution_records import Counts
from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS
from syclsched.execution.handle.engine_chain import EngineChain
from syclsched.execution.handle.resources import Resources, unfinished
from syclsched.execution.handle.watchdog import RunWatch


class Engine:
    """An engine that ends when the test sets it."""

    def __init__(self, *, fails: bool) -> None:
        self.failures = SimpleNamespace(halts=None, halted=fails, none=not fails, first=None, clear_frames=lambda: None)
        self.finished = threading.Event()
        self.when_finished: Callable[[], None] | None = None
        self.counts = Counts(submissions=1)
        self.program = SimpleNamespace(plan=SimpleNamespace(name="made up"))
        self.buffers: dict[str, object] = {"x": 1}
        self.error = None
        self.recording = self.cancelled = self.hung = self.begun = False
        self.overdue_at: list[int] = []

    def any_failed(self) -> bool:
        return False

    def start(self) -> None:
        self.begun = True

    def cancel(self) -> None:
        self.cancelled = True

    def overdue(self, number: int, error: Exception) -> None:
        self.overdue_at.append(number)

    def positions(self) -> list[LaneProgress]:
        return [LaneProgress("cpu:0", "cpu", 7, "task 't'", "t", 1, 9, None, True, 0.001)]

    def end(self) -> None:
        self.finished.set()
        assert self.when_finished is not None
        self.when_finished()


class Recovery:
    """Recovery that makes the given engines in turn."""

    def __init__(self, *engines: Any) -> None:
        self.engines = list(engines)
        self.recoveries = ()
        self.deadlines_s = {7: 0.5}
        self.error = None

    def halts(self, instruction: Any, reason: Any) -> bool:
        return True

    def successor(self, engine: Any) -> Any:
        if not self.engines:
            return None
        found = self.engines.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def check_not_lost(self, array: str, rows: Any) -> None:
        """Assert that no memory is reported as lost."""


def chain(first: Engine, *others: Any, **deadlines_s: float) -> EngineChain:
    return EngineChain(first, {int(n[1:]): s for n, s in deadlines_s.items()}, Recovery(*others))  # type: ignore[arg-type]


def test_a_query_is_repeated_on_the_engine_that_takes_over() -> None:
    first, second = Engine(fails=True), Engine(fails=False)
    engines = chain(first, second)
    asked: list[Any] = []

    def read(engine: Any, left_s: float | None) -> str:
        asked.append(engine)
        if engine is first:
            first.end()
            raise ExecutionError("of the first engine")
        return "found"

    assert engines.ask(read, None) == "found"
    assert asked == [first, second]
    assert engines.active is second and second.begun and not first.buffers
    assert not engines.ended and engines.counts.submissions == 2
    second.end()
    assert engines.ended


def test_a_query_times_out_during_recovery() -> None:
    engines = chain(Engine(fails=True))
    with pytest.raises(WaitTimeoutError, match="being recovered"):
        engines.ask(lambda engine, left_s: None, 0.01)


def test_no_query_waits_for_the_recovery_of_an_engine_that_hangs() -> None:
    first = Engine(fails=True)
    engines = chain(first)
    engines.mark_hung()
    with pytest.raises(ExecutionError, match="hangs"):
        engines.ask(lambda engine, left_s: (_ for _ in ()).throw(ExecutionError("hangs")), None)
    assert first.hung and not engines.ended


def test_cancelled_run_is_not_recovered() -> None:
    first, second = Engine(fails=True), Engine(fails=False)
    engines = chain(first, second)
    engines.cancel()
    first.end()
    assert engines.ended and engines.cancelled and engines.active is first
    broken = Engine(fails=True)
    engines = chain(broken, ValueError("no plan"))
    broken.end()
    assert engines.ended
    assert "could not be recovered: ValueError: no plan" in str(engines.error)


def test_the_watchdog_begins_anew_with_the_engine_that_takes_over() -> None:
    first, second = Engine(fails=True), Engine(fails=False)
    engines = chain(first, second, n7=3.0)
    resources = Resources(engines, None, owns_devices=False)  # type: ignore[arg-type]
    try:
        watching = RunWatch(resources, DEFAULT_SAFEGUARDS)
        for now_s in (0.0, 2.0):
            watching.check(now_s)
        first.end()
        for now_s in (2.5, 2.9, 3.1):
            watching.check(now_s)
            assert bool(second.overdue_at) == (now_s > 3.0)
        assert not first.overdue_at
    finally:
        second.end()
    assert resources.finished.is_set() and resources not in unfinished
