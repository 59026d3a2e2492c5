# SPDX-License-Identifier: Apache-2.0
"""Dynamic runs on one-core lanes, executed by lane threads: order, errors and the end.

`test_live.py` compares their results with those of other lanes.
"""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.opened import refused_beside, until
from support.running import DTYPE, MIX, SPIN, sequential, with_host
from support.starting import POLICIES, live_called, start

from syclsched.devices.submission.lane_threads import LaneThreads
from syclsched.errors import RunCancelledError, TaskFailedError
from syclsched.execution.dynamic.compiled.compiled_loop import SUBMITTED, EventLoop
from syclsched.model.graph import TaskGraph

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("compiled_policies", "one_core_lanes")]
COMPILED = [policy for policy in POLICIES if policy != "anywhere"]


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[LaneThreads]:
    """The threads of ended runs."""
    seen: list[LaneThreads] = []
    close = LaneThreads.close

    def noted(threads: LaneThreads) -> None:
        seen.append(threads)
        close(threads)

    monkeypatch.setattr(LaneThreads, "close", noted)
    return seen


@pytest.mark.parametrize("policy", COMPILED)
def test_lanes_execute_in_order_and_wait_for_each_other(policy: str, closed: list[LaneThreads]) -> None:
    graph = TaskGraph("spinning")
    y = [graph.array(f"y{i}", data=np.ones(1, DTYPE)) for i in range(4)]
    for step in range(6):
        for i in range(4):
            graph.kernel(SPIN, name=f"t{step}_{i}", y=y[i], turns=20_000 * (1 + i))
        graph.barrier(name=f"step{step}")
    with start(graph, live_called("cpu"), policy) as run:
        run.wait(60)
        spans = run.trace().spans
    assert closed
    by_lane: dict[str, list[Any]] = {}
    for span in spans:
        by_lane.setdefault(span.lane, []).append(span)
    for lane in by_lane.values():
        assert all(a.finish_s <= b.start_s for a, b in pairwise(sorted(lane, key=lambda s: (s.start_s, s.finish_s))))
    at = {span.task: span for span in spans}
    for step in range(5):
        barrier = at[f"step{step}"]
        assert max(at[f"t{step}_{i}"].finish_s for i in range(4)) <= barrier.finish_s
        assert barrier.finish_s <= min(at[f"t{step + 1}_{i}"].start_s for i in range(4))


def test_a_kernel_refused_at_submission_fails_by_name(
    closed: list[LaneThreads],
) -> None:
    graph = refused_beside(40)
    part = TaskGraph("part")
    u, v = (part.array(n, data=np.arange(100, dtype=DTYPE)) for n in "xz")
    for i in range(3):
        part.kernel(MIX, name=f"before{i}", x=u, y=v, a=i)
    for i in range(40):
        part.kernel(MIX, name=f"apart{i}", x=part.array(f"w{i}", data=np.arange(100, dtype=DTYPE)), y=v, a=i)
    with start(graph, live_called("cpu"), "eager") as run:
        with pytest.raises(TaskFailedError, match="refused") as caught:
            run.wait(60)
        assert caught.value.task == "refused"
        with pytest.raises(TaskFailedError):
            run.result("x")
        np.testing.assert_array_equal(run.result("z"), sequential(part, part.data)["z"])
    assert closed


def test_host_functions_wait_for_threads_and_threads_for_them(closed: list[LaneThreads]) -> None:
    def double(y: Any) -> None:
        y *= 2

    graph = TaskGraph("by turns")
    x, y = (graph.array(n, data=np.arange(50, dtype=DTYPE)) for n in "xy")
    expected = np.arange(50, dtype=DTYPE)
    for i in range(8):
        graph.kernel(MIX, name=f"mix{i}", x=x, y=y, a=i)
        graph.kernel(with_host(double), name=f"double{i}", y=y)
        expected = 2 * (i * np.arange(50) + 3 * expected + np.arange(50))
    with start(graph, live_called("cpu"), "dmdas") as run:
        run.wait(60)
        np.testing.assert_array_equal(run.result("y"), expected)
    assert closed


def test_a_cancelled_run_ends_and_its_threads_with_it(
    closed: list[LaneThreads], monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = threading.Event()
    drive = EventLoop.drive

    def noted(driver: EventLoop) -> int:
        driven.set()
        return drive(driver)

    monkeypatch.setattr(EventLoop, "drive", noted)
    graph = TaskGraph("cancelled")
    y = graph.array("y", data=np.ones(1, DTYPE))
    for i in range(200):
        graph.kernel(SPIN, name=f"t{i}", y=y, turns=3_000_000)
    run = start(graph, live_called("cpu"), "eager")
    assert driven.wait(60)
    run.cancel()
    with pytest.raises(RunCancelledError):
        run.wait(60)
    run.close()
    assert closed


def test_commands_of_cancelled_run_live_until_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    owners: list[weakref.ref[EventLoop]] = []
    alive: list[bool] = []
    drive, close = EventLoop.drive, LaneThreads.close
    driven = threading.Event()

    def handed_over(driver: EventLoop | None) -> bool:
        assert driver is not None
        return bool(driver.machine.state[SUBMITTED])

    def noted(driver: EventLoop) -> int:
        owners.append(weakref.ref(driver))
        driven.set()
        return drive(driver)

    def looked_at(threads: LaneThreads) -> None:
        gc.collect()
        alive.append(owners[-1]() is not None)
        close(threads)

    monkeypatch.setattr(EventLoop, "drive", noted)
    monkeypatch.setattr(LaneThreads, "close", looked_at)
    graph = TaskGraph("cancelled")
    y = graph.array("y", data=np.ones(1, DTYPE))
    for i in range(200):
        graph.kernel(SPIN, name=f"t{i}", y=y, turns=3_000_000)
    run = start(graph, live_called("cpu"), "eager")
    assert driven.wait(60)
    until(lambda: handed_over(owners[-1]()))
    run.cancel()
    with pytest.raises(RunCancelledError):
        run.wait(60)
    run.close()
    assert alive == [True]
    gc.collect()
    assert owners[-1]() is None
