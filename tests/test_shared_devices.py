# SPDX-License-Identifier: Apache-2.0
"""Runs with a priority or a share, as users start them; conformance tests run every graph in turns, too."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from support.running import plan_on

import syclsched
from syclsched import TaskGraph
from syclsched.errors import ArgumentError, WaitTimeoutError
from syclsched.execution.handle import run_observer
from syclsched.kernels import get

pytestmark = pytest.mark.sycl
SIZE = 1000


def chain(length: int, host: Any = None, size: int = SIZE) -> TaskGraph:
    """Return a graph that doubles an array this many times, with a host function in the middle."""
    graph = TaskGraph("chain")
    x = graph.array("x", data=np.ones(size))
    for number in range(length):
        if host is not None and number == length // 2:
            graph.host(host, x=x.read(), name="host")
        graph.kernel(get("scale"), name=f"t{number}", x=x, alpha=2.0)
    return graph


def test_a_background_run_ends_while_others_never_pause() -> None:
    begun, ended = threading.Event(), threading.Event()

    def call_on() -> None:
        with syclsched.bind(chain(2), calibrate=False, trace=False) as runner:
            while not ended.is_set():
                assert runner()["x"][0] == 4.0
                begun.set()

    others = threading.Thread(target=call_on)
    others.start()
    try:
        assert begun.wait(60)
        with syclsched.run(chain(40), calibrate=False, priority=-1) as run:
            assert run.result("x")[0] == 2.0**40
    finally:
        ended.set()
        others.join()
    assert run_observer.active is None


def test_a_run_of_low_priority_can_be_cancelled_and_progresses() -> None:
    go_on = threading.Event()
    with syclsched.run(chain(4, lambda x: go_on.wait(60) and None), calibrate=False):
        background = syclsched.run(chain(1000), calibrate=False, priority=-1)
        background.cancel()
        background.join(60)
        assert background.done
        background.close()
        with syclsched.run(chain(10), calibrate=False, priority=-2, share=0.5) as slow:
            assert slow.result("x")[0] == 2.0**10
        go_on.set()


def test_a_run_of_higher_priority_delays_a_background_run() -> None:
    go_on, graph = threading.Event(), chain(20)
    platform = syclsched.discover("cpu")
    plan = plan_on(graph, platform, "cpu", task_s=1e-2)  # its predicted duration
    urgent = chain(4, lambda x: go_on.wait(60) and None)
    with syclsched.run(urgent, calibrate=False), syclsched.run(graph, plan=plan, priority=-1) as background:
        with pytest.raises(WaitTimeoutError):  # alone it takes milliseconds
            background.wait(timeout=1.0)
        go_on.set()
        assert background.result("x")[0] == 2.0**20


@pytest.mark.parametrize("policies", [(None, "eager"), (None, "hybrid"), ("dmdas", "stealing")])
def test_dynamic_runs_take_turns(policies: tuple[str | None, str]) -> None:
    first, second = policies
    go_on, graph = threading.Event(), chain(500, size=1 << 20)  # 0.1 to 0.5 s, twenty times as much if held back
    urgent = chain(4, lambda x: go_on.wait(60) and None)
    with syclsched.run(urgent, calibrate=False, dynamic=first):
        cancelled = syclsched.run(graph, calibrate=False, dynamic=second, priority=-1)
        cancelled.cancel()
        cancelled.join(60)
        cancelled.close()
        with syclsched.run(graph, calibrate=False, dynamic=second, priority=-1, share=2.0) as background:
            try:
                with pytest.raises(WaitTimeoutError):
                    background.wait(timeout=0.5)
            finally:
                go_on.set()
            assert background.result("x")[0] == 2.0**500
            assert {each.outcome for each in background.trace().spans} == {"done"}
    assert run_observer.active is None


def test_bound_runs_and_streams_take_turns_and_say_so() -> None:
    with syclsched.bind(chain(3), calibrate=False, share=2) as runner:
        assert not runner.replayed and "share" in str(runner.why_not_replayed)
        assert runner()["x"][0] == 8.0
        inputs = ({"x": np.full(SIZE, value)} for value in (1.0, 2.0, 3.0))
        assert [each["x"][0] for each in runner.stream(inputs)] == [8.0, 16.0, 24.0]
    assert run_observer.active is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priority": 1}, "give the others less"),
        ({"priority": -0.5}, "-0.5 is no priority"),
        ({"share": 0}, "0 is no share"),
        ({"share": float("inf")}, "positive number"),
        ({"share": "much"}, "'much' is no share"),
        ({"share": 1, "debug": True}, "step by step"),
    ],
)
def test_wrong_priorities_and_shares_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        syclsched.run(chain(1), calibrate=False, **options)


def test_times_of_shared_runs_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.execution.core.history_feed import FEED

    added: list[Any] = []
    monkeypatch.setattr(FEED, "add", lambda *given: added.append(given))
    with syclsched.run(chain(3), calibrate=False, share=1.0) as run:
        run.wait()
    with syclsched.bind(chain(3), calibrate=False, priority=-1) as runner:
        runner()
    with syclsched.run(chain(20), calibrate=False, dynamic="eager", share=1.0) as run:
        run.wait()
    assert added == []
