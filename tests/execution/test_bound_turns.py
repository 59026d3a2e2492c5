# SPDX-License-Identifier: Apache-2.0
"""Concurrent calls of one bound plan: threads and coroutines take turns, and no wait is needless."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from support.running import JUDGE, chain, inputs_of, plan_on, sequential

from syclsched.errors import (
    ArgumentError,
    ExecutionError,
    TaskFailedError,
)
from syclsched.execution import Runner, bind, execute
from syclsched.execution.runner import plan_binding
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform

pytestmark = pytest.mark.sycl


def test_cancelled_coroutine_releases_its_turn(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(3)

    async def one(runner: Runner, seed: int) -> bool:
        run = await runner.run_async(inputs_of(graph, seed))
        return bool(np.array_equal(run.result("y"), sequential(graph, inputs_of(graph, seed))["y"]))

    async def all_of_them(runner: Runner) -> list[Any]:
        tasks = [asyncio.create_task(one(runner, seed)) for seed in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        for _ in range(2):  # each time an event loop of its own
            found = asyncio.run(all_of_them(runner))
            assert isinstance(found[1], asyncio.CancelledError)
            assert [found[0], *found[2:]] == [True] * 3


def test_calls_gathered_over_one_runner_have_results_of_their_own(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(3)

    async def gathered(runner: Runner) -> list[Any]:
        return await asyncio.gather(*(runner.call_async(inputs_of(graph, seed)) for seed in range(5)))

    async def runs(runner: Runner) -> list[Any]:
        return await asyncio.gather(*(runner.run_async(inputs_of(graph, seed)) for seed in range(2)))

    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        for seed, results in enumerate(asyncio.run(gathered(runner))):
            np.testing.assert_array_equal(results["y"], sequential(graph, inputs_of(graph, seed))["y"])
        first, last = asyncio.run(runs(runner))
        np.testing.assert_array_equal(last.result("y"), sequential(graph, inputs_of(graph, 1))["y"])
        with pytest.raises(ExecutionError, match="call_async"):
            first.result("y")


def test_a_dispatched_runner_does_one_run_at_a_time(
    live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, devices = live
    monkeypatch.setattr(plan_binding, "why_dispatcher_needed", lambda *_: "the test says so")
    graph = chain(3)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        first = runner.run(inputs_of(graph, 0))
        second = runner.run(inputs_of(graph, 1))
        assert first.done()
    assert second.done()
    second_trace = second.trace()
    assert all(s.outcome == "done" for s in second_trace.spans)


def test_many_threads_take_turns(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(3)
    wrong: list[str] = []
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:

        def work(seed: int) -> None:
            inputs = inputs_of(graph, seed)
            expected = sequential(graph, inputs)["y"]
            wrong.extend(f"seed {seed}" for _ in range(20) if not np.array_equal(runner(inputs)["y"], expected))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_coroutines_take_turns_without_threads_of_their_own(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(3)

    async def one(runner: Runner, seed: int, seen: set[int]) -> bool:
        inputs = inputs_of(graph, seed)
        for _ in range(5):
            run = await runner.run_async(inputs)
            found = run.result("y")
            seen.add(threading.active_count())
            if not np.array_equal(found, sequential(graph, inputs)["y"]):
                return False
        return True

    async def all_of_them(runner: Runner) -> tuple[list[bool], set[int]]:
        seen: set[int] = set()
        return await asyncio.gather(*[one(runner, seed, seen) for seed in range(8)]), seen

    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        runner(inputs_of(graph, 0))
        before = threading.active_count()
        right, seen = asyncio.run(all_of_them(runner))
    assert all(right)
    assert max(seen) <= before


def test_an_awaited_run_raises_the_task_error(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("judged")
    x, status = graph.array("x", (4,), "int64"), graph.array("status", (1,), "int32")
    graph.kernel(JUDGE, name="bad", x=x, status=status)

    async def twice(runner: Runner) -> None:
        with pytest.raises(TaskFailedError, match="task 'bad'"):
            await runner.run_async({"x": np.full(4, -1)})
        await runner.run_async({"x": np.full(4, 1)})
        with pytest.raises(ArgumentError):
            await runner.run_async({})
        await runner.run_async({"x": np.full(4, 1)})

    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        asyncio.run(twice(runner))


def test_a_dispatched_run_can_be_awaited(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(2)
    inputs = inputs_of(graph, 0)

    async def awaited() -> Any:
        with execute(plan_on(graph, platform, "cpu"), graph, devices, inputs) as run:
            return (await run).result("y")

    np.testing.assert_array_equal(asyncio.run(awaited()), sequential(graph, inputs)["y"])
