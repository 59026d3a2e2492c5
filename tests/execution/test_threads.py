# SPDX-License-Identifier: Apache-2.0
"""Concurrent runs: from threads, and from coroutines, which have no thread of their own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from support.opened import live_on
from support.running import DTYPE, MIX, plan_by, sequential

from syclsched.errors import WaitTimeoutError
from syclsched.execution import bind, execute
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan

pytestmark = pytest.mark.sycl
SIZE, TASKS, AT_ONCE = 64, 60, 10


def work(seed: int, *, on_host: bool) -> tuple[TaskGraph, Plan, dict[str, Any]]:
    """Return a random graph on both devices, its plan, and its results by NumPy."""
    random = np.random.default_rng(seed)
    graph = TaskGraph(f"of {seed}")
    arrays = [graph.array(f"a{i}", data=random.integers(-9, 9, SIZE, dtype=DTYPE)) for i in range(4)]
    for index in range(TASKS):
        x, y = random.permutation(4)[:2]
        graph.kernel(MIX, name=f"t{index}", x=arrays[x], y=arrays[y], a=int(random.integers(-3, 3)))
    platform, _ = live_on(None)
    devices = [d.name for d in platform.compute_devices]

    def place(name: str) -> tuple[str, int, str]:
        number = int(name[1:])
        if on_host and number % 7 == 0:
            return "host", 0, "host"
        return devices[number % len(devices) if on_host else 0], number // 2 % 2, "opencl-c"

    return graph, plan_by(graph, platform, place), sequential(graph, dict(graph.data))


def check(results: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in results.items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize("bound", [False, True])
def test_ten_threads_run_ten_graphs_at_once(bound: bool) -> None:
    _, live = live_on(None)
    all_there, failed = threading.Barrier(AT_ONCE), []

    def one(seed: int) -> None:
        try:
            graph, plan, expected = work(seed, on_host=not bound)
            names = sorted({a.array for t in graph.tasks for a in t.accesses if a.mode.writes})
            all_there.wait(60)
            for _ in range(3):
                if bound:
                    with bind(plan, graph, live) as runner:
                        check(runner({}), expected)
                else:
                    with execute(plan, graph, live) as run:
                        check({name: run.result(name) for name in names}, expected)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)


def test_many_coroutines_run_replays_without_threads_of_their_own() -> None:
    _, live = live_on(None)
    graph, plan, expected = work(1, on_host=False)
    seen: set[int] = set()

    async def one(runner: Any) -> None:
        run = await runner.run_async({})
        seen.add(threading.active_count())
        check({"a0": run.result("a0")}, expected)

    async def all_of_them() -> None:
        runners = [bind(plan, graph, live) for _ in range(4)]
        try:
            await asyncio.gather(*(one(runners[n % 4]) for n in range(100)))
        finally:
            for runner in runners:
                runner.close()

    before = threading.active_count()
    asyncio.run(all_of_them())
    assert max(seen) <= before + 4 + 1  # one thread for each runner, not for each run; and the watchdog


def test_awaiting_with_a_timeout_leaves_the_run_running() -> None:
    entered, opened = threading.Event(), threading.Event()

    def gate(y: Any) -> None:
        entered.set()
        assert opened.wait(60)
        y += 1

    graph = TaskGraph("held")
    y = graph.array("y", data=np.zeros(SIZE, DTYPE))
    graph.host(gate, name="gate", y=y.update())
    plan = plan_by(graph, live_on(None)[0], lambda _: ("host", 0, "host"))

    async def one() -> Any:
        with execute(plan, graph, live_on(None)[1]) as run:
            assert entered.wait(60)
            with pytest.raises(WaitTimeoutError, match=r"not done after 0\.01 s.*gate"):
                await run.wait_async(0.01)
            for wait in (run.wait_async(-1), run.wait_async(0)):  # a deadline that has passed
                with pytest.raises(WaitTimeoutError, match=r"not done after 0 s.*gate"):
                    await wait
            with pytest.raises(WaitTimeoutError, match=r"not there after 0 s.*gate"):
                run.result("y", timeout=-1)
            opened.set()
            await run.wait_async(60)
            assert await run is run
            return run.result("y")

    np.testing.assert_array_equal(asyncio.run(one()), np.ones(SIZE, DTYPE))


def test_dispatched_runs_reuse_threads_of_earlier_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    _, live = live_on(None)
    graph, plan, expected = work(1, on_host=True)
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def counting(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counting)
    for _ in range(20):
        with execute(plan, graph, live) as run:
            check({"a0": run.result("a0")}, expected)
        run._resources.engine.join(60)
    # At most the dispatcher, two threads a lane, one helper a device, one for the host, and one for memory.
    assert len(started) <= 1 + 2 * len(plan.lanes) + 2 + 1 + 1
