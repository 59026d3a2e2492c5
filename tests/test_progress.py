# SPDX-License-Identifier: Apache-2.0
"""Long calls tell their steps, and the logger hears of those that take long."""

from __future__ import annotations

import logging
import threading

import pytest

import syclsched
from syclsched import progress
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.progress import StepCounter, reported

Told = list[tuple[int, int, str]]


def small_graph() -> syclsched.TaskGraph:
    graph = syclsched.TaskGraph("small")
    x = graph.array("x", (8,))
    for number in range(3):
        add_cost_only(graph, f"t{number}", StatedCost(1.0), [(x, AccessMode.UPDATE)])
    return graph


@pytest.mark.parametrize("policy", ["heft", "auto"])
def test_planning_tells_each_step_and_the_end(policy: str) -> None:
    told: Told = []
    platform = syclsched.describe(["max1550", "a770"])
    syclsched.plan(small_graph(), platform, policy=policy, progress=lambda *step: told.append(step))
    assert [done for done, _, _ in told] == list(range(len(told)))
    assert all(done < total for done, total, _ in told[:-1])
    assert told[-1] == (len(told) - 1, len(told) - 1, "")
    steps = [step for _, _, step in told]
    assert "policy heft" in steps and "plan of heft" in steps and "verification" in steps


def test_an_exception_of_the_callable_ends_the_call() -> None:
    def stop(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        syclsched.plan(small_graph(), syclsched.describe(["max1550"]), policy="heft", progress=stop)


def test_steps_beyond_those_announced_raise_the_total() -> None:
    told: Told = []
    steps = StepCounter(lambda *step: told.append(step))
    steps.expect(1)
    for name in "ab":
        steps.begin(name)
    steps.end()
    assert told == [(0, 1, "a"), (1, 2, "b"), (2, 2, "")]


class Heard(logging.Handler):
    """Keeps messages, and tells when the first has come."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.messages: list[str] = []
        self.come = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.come.set()


def test_the_logger_hears_of_what_takes_long(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(progress, "_FIRST_S", 0.0)
    caplog.set_level(logging.INFO, logger="syclsched")
    logger, heard, told = logging.getLogger("syclsched"), Heard(), Told()
    logger.addHandler(heard)
    try:
        with reported("planning of 'small'", lambda *step: told.append(step)) as tell:
            assert tell is not None
            tell(1, 3, "search")
            assert heard.come.wait(60)
    finally:
        logger.removeHandler(heard)
    assert told == [(1, 3, "search")]
    assert any(m.startswith("planning of 'small' takes 0 s so far") for m in heard.messages)


def test_nothing_is_started_for_a_logger_that_is_not_heard() -> None:
    before = threading.active_count()

    def tell(done: int, total: int, step: str, /) -> None:
        raise AssertionError("it is not called")

    with reported("planning", tell) as given:
        assert given is tell
        assert threading.active_count() == before
