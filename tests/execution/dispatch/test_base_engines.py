# SPDX-License-Identifier: Apache-2.0
"""The common base of engines with a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from syclsched.errors import ExecutionError, SyclschedError
from syclsched.execution.dispatch.base_engines import ThreadedEngine

LONG_S = 60.0


class Engine(ThreadedEngine):
    """A mock engine that runs and ends as the test sets."""

    failing = "the engine failed"

    def __init__(self, go: Callable[[Engine], None], finish: Callable[[], None] = lambda: None) -> None:
        super().__init__("syclsched test", "plan 'test'", record=False)
        self.there: set[int] = set()
        self.woken = threading.Event()
        self._does, self._ends = go, finish

    def passed(self, number: int) -> bool:
        return number in self.there

    def pass_by(self, number: int) -> None:
        self.there.add(number)
        self._notify_waiters(number)

    def _go(self) -> None:
        self._does(self)

    def _finish(self) -> None:
        self._ends()

    def _be_cancelled(self) -> None:
        self.woken.set()


def raising(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("go", "finish", "says"),
    [
        (ValueError("odd"), None, "the engine failed: ValueError: odd"),
        (None, ValueError("late"), "the run could not be ended: ValueError: late"),
        (ValueError("odd"), ValueError("late"), "the engine failed: ValueError: odd"),
        (SystemExit(3), None, "the engine failed: SystemExit: 3"),
    ],
)
def test_the_first_error_is_kept_and_the_end_is_announced(
    go: BaseException | None, finish: BaseException | None, says: str
) -> None:
    told = threading.Event()
    engine = Engine(lambda _: raising(go)() if go else None, raising(finish) if finish else lambda: None)
    engine.when_finished = told.set
    engine.start()
    engine.join(LONG_S)
    assert engine.finished.is_set() and told.is_set() and engine.when_finished is None
    assert isinstance(engine.error, ExecutionError)
    assert (engine.error.what, engine.error.where) == (says, "plan 'test'")
    assert engine.error.__cause__ is (go or finish)


def test_errors_of_the_package_are_kept_unchanged() -> None:
    error = SyclschedError("no memory")
    engine = Engine(lambda _: raising(error)())
    engine.start()
    engine.join(LONG_S)
    assert engine.error is error


def test_waits_end_at_the_position_or_the_end_of_the_run() -> None:
    first, second = threading.Event(), threading.Event()

    def go(engine: Engine) -> None:
        first.wait(LONG_S)
        engine.pass_by(1)
        second.wait(LONG_S)

    engine = Engine(go)
    engine.start()
    assert not engine.wait_submitted(1, 0.0)
    first.set()
    assert engine.wait_submitted(1, LONG_S)
    assert not engine.finished.is_set()
    waiting = threading.Thread(target=engine.wait_submitted, args=(2, None))
    waiting.start()
    second.set()
    waiting.join(LONG_S)  # an instruction that never passes blocks no wait once the run is over
    assert not waiting.is_alive()
    assert engine.finished.is_set() and not engine.passed(2)


def test_cancel_wakes_an_engine_unless_it_has_ended() -> None:
    engine = Engine(lambda engine: None if engine.woken.wait(LONG_S) else raising(TimeoutError())())
    engine.start()
    engine.cancel()
    engine.join(LONG_S)
    assert engine.cancelled and engine.error is None
    ended = Engine(lambda _: None)
    ended.start()
    ended.join(LONG_S)
    ended.cancel()
    assert not ended.cancelled and not ended.woken.is_set()
