# SPDX-License-Identifier: Apache-2.0
"""Streams with host tasks: in order, over devices that continue meanwhile, and closed at any time."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.hosted import LONG_S, SIZE, Live, bound, chain
from support.running import ASSIGN_KERNEL, DTYPE, MIX, Gate, inputs_of, plan_on, sequential

from syclsched.errors import (
    SyclschedError,
)
from syclsched.execution import Runner
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST

pytestmark = pytest.mark.sycl


def test_functions_of_generations_run_in_order(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("stream")
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    called: list[tuple[str, int]] = []
    graph.host(lambda x, y: called.append(("in", int(x[0]))) or np.copyto(y, x), name="in", x=x.read(), y=y.write())
    graph.kernel(MIX, name="mix", x=x, y=y, a=1)
    graph.host(lambda y: called.append(("out", int(y[0]))), name="out", y=y.update())
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        inputs = [{"x": np.full(SIZE, n)} for n in range(20)]
        found = [results["y"][0] for results in runner.stream(inputs, in_flight=4, results=["y"])]  # type: ignore[call-overload]
        assert found == [4 * n for n in range(20)]
        assert [n for name, n in called if name == "in"] == list(range(20))
        assert [n for name, n in called if name == "out"] == [4 * n for n in range(20)]
        assert runner._bound.instances is not None and runner._bound.instances.idle


def test_a_generation_that_fails_does_so_at_its_place(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("stream")
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)

    def judge(x: Any, y: Any) -> None:
        if x[0] % 3 == 1:
            raise ValueError(f"{x[0]} is bad")
        y[...] = x

    graph.host(judge, name="judge", x=x.read(), y=y.write())
    graph.kernel(MIX, name="mix", x=x, y=y, a=1)
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        stream = runner.stream([{"x": np.full(SIZE, n)} for n in range(9)], in_flight=3, return_exceptions=True)
        for n, found in enumerate(stream):
            if n % 3 == 1:
                assert (
                    isinstance(found, SyclschedError) and f"{n} is bad" in str(found) and "task 'judge'" in str(found)
                )
            else:
                assert isinstance(found, dict) and found["y"][0] == 4 * n


def test_a_stream_that_is_left_while_a_function_runs(live: Live) -> None:
    platform, devices = live
    gate = Gate()
    graph = TaskGraph("left")
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    graph.kernel(MIX, name="mix", x=x, y=y, a=1)
    graph.host(gate, name="gate", y=y.update())
    graph.kernel(MIX, name="behind", x=x, y=y, a=1)
    inputs = inputs_of(graph, 0)
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        stream = runner.stream([inputs] * 5, in_flight=2)
        opener = threading.Thread(target=lambda: gate.entered.wait(LONG_S) and (stream.close(), None))
        stream._begin(lambda: inputs)
        stream._begin(lambda: inputs)
        assert gate.entered.wait(LONG_S)
        opener.start()
        gate.opened.set()
        opener.join(LONG_S)
        assert not opener.is_alive()
        expected = 3 * (inputs["x"] + 3 * inputs["y"] + np.arange(SIZE) + 1) + inputs["x"] + np.arange(SIZE)
        np.testing.assert_array_equal(runner(inputs)["y"], expected)


@pytest.mark.other_device  # with other generations, the CPU device has a copy lane
def test_copies_for_host_functions_follow_the_next_input(live: Live) -> None:
    platform, devices = live
    apart = replace(
        platform.select(["cpu"]),
        devices=tuple(replace(d, reaches=(d.space,)) for d in platform.select(["cpu"]).devices),
        spaces=tuple(replace(s, host_accessible=s.name == HOST) for s in platform.select(["cpu"]).spaces),
    )
    graph = TaskGraph("chunk")
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE, temporary=True)
    last = graph.array("last", (1,), DTYPE)
    graph.kernel(ASSIGN_KERNEL, name="work", x=x, y=y)
    graph.host(lambda y, last: np.copyto(last, y[-1:]), name="take", y=y.read(), last=last.write())
    with bound(plan_on(graph, apart, "cpu"), graph, devices) as runner:
        stream = runner.stream([{"x": np.full(SIZE, n)} for n in range(6)], in_flight=2)
        assert [int(each["last"][0]) for each in stream if isinstance(each, dict)] == list(range(6))
        predicted_s = stream.statistics.predicted_interval_s
        assert predicted_s is not None and predicted_s < 0.9 * runner.plan.makespan_s
        copies = sorted((s for s in stream.trace().spans if s.kind == "copy"), key=lambda s: s.submit_s)
    assert [(s.task, s.generation) for s in copies][:4] == [("work", 0), ("work", 1), ("take", 0), ("work", 2)]


def test_an_asynchronous_stream(live: Live) -> None:
    platform, devices = live
    graph = chain(6, {1, 4})
    inputs = [inputs_of(graph, seed) for seed in range(6)]

    async def read(runner: Runner) -> None:
        seed = 0
        async for found in runner.stream(inputs, in_flight=3):
            assert isinstance(found, dict)
            np.testing.assert_array_equal(found["y"], sequential(graph, inputs[seed])["y"])
            seed += 1
        assert seed == 6

    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        asyncio.run(read(runner))
