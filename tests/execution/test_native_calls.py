# SPDX-License-Identifier: Apache-2.0
"""Library calls from the compiled loop: in order with their lane's other work, and with reported errors."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.library_calls import SHIFT, Called, alternating, expected, with_library
from support.onednn_calls import linear, needs_onednn
from support.opened import live_on
from support.running import DTYPE, plan_by, plan_on
from support.starting import start

from syclsched.api import with_lanes
from syclsched.devices import discover, open_devices
from syclsched.errors import ExecutionError, TaskFailedError
from syclsched.execution import Runner, bind, execute
from syclsched.kernels.elementwise import COPY
from syclsched.model.graph import TaskGraph

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("compiled_policies")]


@needs_onednn
@pytest.mark.parametrize("gives_event", [True, False])
@pytest.mark.parametrize("size", [7, 20_000])
def test_a_librarys_and_our_work_keep_their_order(gives_event: bool, size: int) -> None:
    platform, live = live_on(None)
    steps = 1000
    graph = alternating(steps, size, linear(gives_event=gives_event))
    with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
        assert runner.why_not_replayed is None
        for turn in range(3):
            given = np.arange(size, dtype=np.float32) % 500 + turn
            assert np.array_equal(runner({"y": given})["y"], expected(given, steps))
        spans = [s for s in runner.traces()[-1].spans if s.kind == "launch"]
        assert len(spans) == steps
        spans.sort(key=lambda span: span.start_s)
        assert all(s.finish_s > s.start_s >= 0 for s in spans)
        assert all(a.finish_s <= b.start_s + 1e-6 for a, b in pairwise(spans))


@needs_onednn
@pytest.mark.parametrize("gives_event", [True, False])
def test_other_lanes_wait_for_a_librarys_work(gives_event: bool) -> None:
    platform, live = live_on(None)
    steps, size = 200, 30_000
    graph = alternating(steps, size, linear(gives_event=gives_event))
    plan = plan_by(graph, platform, lambda name: ("cpu", int(name[1:]) // 2 % 2, _first(graph, name)))
    assert plan.counters.waits > 50
    with bind(plan, graph, live) as runner:
        assert runner.why_not_replayed is None
        for turn in range(5):
            given = np.arange(size, dtype=np.float32) % 500 + turn
            assert np.array_equal(runner({"y": given})["y"], expected(given, steps))
        spans = [s for s in runner.traces()[-1].spans if s.kind == "launch"]
        assert all(s.finish_s >= s.start_s for s in spans)


@needs_onednn
def test_dispatched_runs_use_native_calls() -> None:
    platform, live = live_on(None)
    graph = alternating(100, 1000, linear())
    graph.host(lambda y: None, y=graph.arrays["y"].read(), name="look")
    given = np.arange(1000, dtype=np.float32) % 500
    with execute(plan_on(graph, platform, "cpu"), graph, live, {"y": given}) as run:
        assert np.array_equal(run.result("y"), expected(given, 100))


@needs_onednn
@pytest.mark.parametrize("gives_event", [True, False])
def test_first_call_waits_for_earlier_kernels(gives_event: bool) -> None:
    platform, live = live_on(None)
    size, steps = 1 << 20, 17
    graph = TaskGraph("late")
    y, *copies = (graph.array(name, (size,), "float32", temporary=name in "ab") for name in "yabc")
    for n, (read, written) in enumerate(pairwise([y, *copies])):  # c reuses a's memory: it is not prepared early
        graph.kernel(COPY, name=f"copy{n}", x=read, y=written)
    for n in range(steps):
        graph.kernel(SHIFT, name=f"t{n}", y=copies[-1], n=2 * n + 1)
    graph.kernel(linear(gives_event=gives_event), name="call", y=copies[-1], alpha=-1.0, beta=1000.0)
    # With this predicted time, a lane is only 16 tasks ahead: the call is prepared when half of these have ended.
    plan = plan_on(graph, platform, "cpu", task_s=0.1)
    given = np.arange(size, dtype=np.float32) % 500
    want, i = given, np.arange(size)
    for n in range(steps):
        want = np.fmod(2 * want + ((i + 2 * n + 1) % 7).astype(np.float32), np.float32(1021))
    for _ in range(5):
        with execute(plan, graph, live, {"y": given}) as run:
            assert np.array_equal(run.result("c"), np.float32(1000) - want)


def _first(graph: TaskGraph, name: str) -> str:
    operation = graph.find_task(name).operation
    assert operation is not None
    return operation.implementations[0].name


def test_the_words_arrive_and_a_status_is_explained() -> None:
    platform, live = live_on(None)
    called = Called(0)
    graph = TaskGraph()
    x, y = (graph.array(name, (10,), DTYPE) for name in "xy")
    graph.kernel(with_library(called), x=x, y=y, name="moody")
    with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
        runner({"x": np.arange(10)}, results=())
        assert called.seen == [(1, 2, -3, 4, 5, 6)]
        called.status = 7
        said = r"moody.*no mood for 7 \(status 7\)"
        with runner.run({"x": np.arange(10)}) as run, pytest.raises(TaskFailedError, match=said):
            run.wait()
        called.status = 0
        runner({"x": np.arange(10)}, results=())


def test_several_calls_of_one_task_are_made_in_order() -> None:
    platform, live = live_on(None)

    class Several(Called):
        def native(self, queue: Any, arguments: Any) -> Any:
            return tuple(replace(super(Several, self).native(queue, arguments), arguments=(n,) * 6) for n in range(3))

    called = Several(0)
    graph = TaskGraph()
    x, y = graph.array("x", (10,), DTYPE), graph.array("y", (10,), DTYPE)
    graph.kernel(with_library(called), x=x, y=y, name="several")
    with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
        for _ in range(2):
            runner({"x": np.arange(10)}, results=())
        assert called.seen == [(n,) * 6 for n in (0, 1, 2, 0, 1, 2)]
        called.status = 7
        with runner.run({"x": np.arange(10)}) as run, pytest.raises(TaskFailedError, match=r"several.*no mood for 7"):
            run.wait()


def test_an_error_of_native_is_reported() -> None:
    platform, live = live_on(None)

    class Broken(Called):
        def native(self, queue: Any, arguments: Any) -> Any:
            raise ZeroDivisionError("no way")

    graph = TaskGraph()
    x, y = graph.array("x", (10,), DTYPE), graph.array("y", (10,), DTYPE)
    graph.kernel(with_library(Broken(0)), x=x, y=y)
    with (
        bind(plan_on(graph, platform, "cpu"), graph, live) as runner,
        pytest.raises(ExecutionError, match=r"native\(\) failed: ZeroDivisionError: no way"),
    ):
        runner({"x": np.arange(10)})


@needs_onednn
@pytest.mark.parametrize("trace", [True, False, "exact"])
def test_copies_on_the_same_lane_keep_their_order_and_have_times(trace: Any) -> None:
    platform, live = live_on(None)
    graph = TaskGraph("copied")
    size = 50_000
    x, y = graph.array("x", (size,), "float32"), graph.array("y", (size,), "float32", temporary=True)
    z = graph.array("z", (size,), "float32")
    operation = linear()
    graph.kernel(operation, y=x, alpha=-1.0, beta=1000.0, name="first")
    for n in range(6):
        graph.kernel(COPY, x=x, y=y, name=f"k{n}")
        graph.kernel(operation, y=y, alpha=2.0, beta=1.0, name=f"l{n}")
        graph.kernel(COPY, x=y, y=x, name=f"b{n}")
    graph.kernel(COPY, x=x, y=z, name="out")
    plan = plan_by(graph, platform, lambda name: ("cpu", 0, _device_way(graph, name)))
    given = np.arange(size, dtype=np.float32) % 7
    expected = np.float32(1000) - given
    for _ in range(6):
        expected = 2 * expected + 1
    with bind(plan, graph, live, trace=trace) as runner:
        for _ in range(5):
            with runner.run({"x": given}) as run:
                assert np.array_equal(run.result("z"), expected)
                if trace:
                    assert all(s.finish_s >= s.start_s >= 0 for s in run.trace().spans)


def _device_way(graph: TaskGraph, name: str) -> str:
    operation = graph.find_task(name).operation
    assert operation is not None
    return next(i.name for i in operation.implementations if i.kind in ("opencl-c", "library"))


@needs_onednn
def test_streams_and_coroutines_use_native_calls() -> None:
    platform, live = live_on(None)
    steps, size = 40, 5000
    graph = alternating(steps, size, linear())
    given = [np.arange(size, dtype=np.float32) % 500 + turn for turn in range(12)]

    async def coroutines(runner: Runner) -> list[Any]:
        found = []
        for each in given[:4]:
            run = await runner.run_async({"y": each})
            found.append(run.result("y"))
        return found

    with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
        assert runner.why_not_replayed is None
        for each, found in zip(given, runner.stream({"y": each} for each in given), strict=True):
            assert np.array_equal(found["y"], expected(each, steps))
        for each, value in zip(given, asyncio.run(coroutines(runner)), strict=False):
            assert np.array_equal(value, expected(each, steps))
        run = runner.run({"y": given[0]})
        run.cancel()
        run.join()
        assert np.array_equal(runner({"y": given[1]})["y"], expected(given[1], steps))


@needs_onednn
def test_several_runners_at_once() -> None:
    platform, live = live_on(None)
    steps, size = 60, 3000
    wrong: list[str] = []

    def work(number: int) -> None:
        graph = alternating(steps, size, linear())
        with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
            for turn in range(15):
                given = np.arange(size, dtype=np.float32) % 300 + turn + number
                if not np.array_equal(runner({"y": given})["y"], expected(given, steps)):
                    wrong.append(f"{number}, {turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_onednn
@pytest.mark.parametrize("lanes", [1, 2])
def test_dynamic_runs_record_durations_of_library_calls(lanes: int) -> None:
    """With several computing lanes, durations follow from when polling saw calls end: they have no timestamps."""
    platform = with_lanes(discover(), lanes).select(lambda device: device.kind == "cpu")
    given = np.arange(20_000, dtype=np.float32) % 500
    learnt: list[float] = []
    with open_devices(platform) as live:
        options = {"learn": lambda found: learnt.extend(seconds for _, seconds in found)}
        policy = "eager" if lanes == 1 else "anywhere"  # which uses both lanes
        run = start(alternating(20, 20_000, linear()), live, policy, {"y": given}, **options)
        with run:
            assert np.array_equal(run.result("y"), expected(given, 20))
        spans = [s for s in run.trace().spans if s.kind == "launch"]
    assert spans and all(s.finish_s > s.start_s for s in spans)
    assert learnt and all(0.0 < seconds < 1.0 for seconds in learnt)
