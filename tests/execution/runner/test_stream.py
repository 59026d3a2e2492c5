# SPDX-License-Identifier: Apache-2.0
"""Streams: results of consecutive runs in order, bounded buffering, failures at their input, and no hangs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.opened import REFUSED, live_on
from support.running import ASSIGN, DTYPE, JUDGE, MIX, SPIN, graphs, inputs_of, plan_by, plan_on, plans, sequential

from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import ArgumentError, ExecutionError, MemoryLimitError, SyclschedError, TaskFailedError
from syclsched.execution import bind
from syclsched.execution.replay.replay import Replay
from syclsched.execution.runner.stream import median_interval_s
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform

pytestmark = pytest.mark.sycl
Live = tuple[Platform, Any]


def two_lane_graph(platform: Platform, size: int = 100) -> tuple[TaskGraph, Plan]:
    """Return a graph whose generations are interleaved: one lane, another, and the first again."""
    graph = TaskGraph("two lanes")
    x, y, z = (graph.array(name, (size,), DTYPE) for name in "xyz")
    for name, source, target in (("0 first", x, y), ("1 other", y, z), ("0 last", z, y)):
        graph.kernel(MIX, name=name, x=source, y=target, a=1)
    return graph, plan_by(graph, platform, lambda name: ("cpu", int(name[0]), "opencl-c"))


def judged() -> TaskGraph:
    """Return a graph whose task fails where x is negative."""
    graph = TaskGraph("judged")
    x, status, y = graph.array("x", (4,), DTYPE), graph.array("status", (1,), "int32"), graph.array("y", (4,), DTYPE)
    graph.kernel(JUDGE, name="bad", x=x, status=status)
    graph.kernel(MIX, name="mix", x=x, y=y, a=1)
    return graph


def signed(*signs: int) -> list[dict[str, Any]]:
    return [{"x": np.full(4, sign), "y": np.full(4, i)} for i, sign in enumerate(signs)]


@pytest.mark.gpu_shape
@given(data=st.data(), length=st.integers(0, 7), in_flight=st.sampled_from([None, 1, 2, 3, 5]))
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("sub_devices", [None, 2])
def test_random_graphs_have_the_bits_of_single_runs_in_order(
    sub_devices: int | None, data: st.DataObject, length: int, in_flight: int | None
) -> None:
    platform, devices = live_on(sub_devices)
    graph = data.draw(graphs())
    plan = data.draw(plans(graph, platform))
    given_inputs = [inputs_of(graph, seed) for seed in range(length)]
    with bind(plan, graph, devices) as runner:
        stream = runner.stream(given_inputs, in_flight=in_flight)
        found = list(stream)
        assert len(found) == length and stream.closed
        for inputs, results in zip(given_inputs, found, strict=True):
            assert isinstance(results, dict)
            expected = sequential(graph, inputs)
            for name, value in results.items():
                np.testing.assert_array_equal(value, expected[name], err_msg=name)
        if length:
            alone = runner(given_inputs[0])  # the runner is free again, with the same result
            for name, value in found[0].items():
                np.testing.assert_array_equal(value, alone[name])


@given(data=st.data(), length=st.integers(3, 9), in_flight=st.integers(1, 4))
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("device", ["cpu", OTHER_DEVICE])
def test_kernels_on_two_lanes(device: str, data: st.DataObject, length: int, in_flight: int) -> None:
    platform, devices = live_on(None)
    graph = data.draw(graphs(max_tasks=24))
    tasks = {t.name: t for t in graph.tasks}

    def place(name: str) -> tuple[str, int, str | None]:
        operation = tasks[name].operation
        return device, data.draw(st.integers(0, 1)), None if operation is None else operation.implementations[0].name

    plan = plan_by(graph, platform, place)
    given_inputs = [inputs_of(graph, seed) for seed in range(length)]
    with bind(plan, graph, devices) as runner:
        library = any(t.operation is ASSIGN and 0 not in t.signature.shapes["y"] for t in tasks.values())
        assert runner.replayed != library
        for inputs, results in zip(given_inputs, runner.stream(given_inputs, in_flight=in_flight), strict=True):
            assert isinstance(results, dict)
            expected = sequential(graph, inputs)
            for name, value in results.items():
                np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_generations_of_one_stream_are_submitted_interleaved(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform, 100_000)
    long = {"0 first": 1e-3, "1 other": 1e-3, "0 last": 1e-3}
    lanes = [
        replace(
            lane,
            instructions=tuple(
                replace(i, duration_s=long.get(i.task or "", 0.0) if i.kind == "launch" else 0.0)
                for i in lane.instructions
            ),
        )
        if lane.kind == "compute"
        else lane
        for lane in plan.lanes
    ]
    from syclsched.simulation import predict

    plan = predict(replace(plan, lanes=tuple(lanes)))
    loops: list[int] = []
    submit = SubmissionLoop.submit_listed

    def noted(loop: SubmissionLoop, *arguments: Any) -> Any:
        loops.append(id(loop))
        return submit(loop, *arguments)

    monkeypatch.setattr(SubmissionLoop, "submit_listed", noted)
    with bind(plan, graph, devices) as runner:
        stream = runner.stream([inputs_of(graph, seed) for seed in range(6)])
        assert stream.in_flight == 3  # two stages, and one generation more
        assert sum(isinstance(each, dict) for each in stream) == 6
        assert stream.statistics.predicted_interval_s == pytest.approx(2e-3, rel=0.1)
    assert len(loops) >= 12 and len(set(loops)) == 3  # each of six in two stages at least
    assert loops != sorted(loops, key=loops.index)


def test_inputs_are_produced_only_when_there_is_room(live: Live) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform)
    asked: list[int] = []
    taken = 0

    def produce() -> Iterator[dict[str, Any]]:
        for number in range(9):
            asked.append(number - taken)
            yield inputs_of(graph, number)

    with bind(plan, graph, devices) as runner:
        assert runner.replayed
        for _ in runner.stream(produce(), in_flight=3):
            taken += 1
        assert max(asked) == 2  # of those before, this many were not yet taken
        assert asked[:3] == [0, 1, 2]
        assert len(runner._bound.instances.generations) == 3  # type: ignore[union-attr]
        list(runner.stream([inputs_of(graph, 0)], in_flight=1))
        assert len(runner._bound.instances.generations) == 1  # type: ignore[union-attr]


def test_loop_one_at_a_time_may_read_its_results(live: Live) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform)
    state = inputs_of(graph, 0)
    expected = dict(state)

    def produce() -> Iterator[dict[str, Any]]:
        for _ in range(5):
            yield dict(state)

    with bind(plan, graph, devices) as runner:
        for results in runner.stream(produce(), in_flight=1):
            assert isinstance(results, dict)
            expected |= {name: sequential(graph, expected)[name] for name in ("y", "z")}
            np.testing.assert_array_equal(results["y"], expected["y"])
            state |= results


@pytest.mark.parametrize("replayed", [True, False])
def test_a_failure_is_reported_at_its_place_and_the_others_finish(
    live: Live, monkeypatch: pytest.MonkeyPatch, replayed: bool
) -> None:
    from syclsched.execution.runner import plan_binding

    if not replayed:
        monkeypatch.setattr(plan_binding, "why_dispatcher_needed", lambda *_: "the test says so")
    platform, devices = live
    graph = judged()
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        assert runner.replayed == replayed
        found = list(runner.stream(signed(1, -1, 1, -1, 1), in_flight=2, return_exceptions=True))
        assert [isinstance(each, TaskFailedError) for each in found] == [False, True, False, True, False]
        assert str(found[3]).startswith("generation 3, task 'bad'")
        for number in (0, 2, 4):
            results = found[number]
            assert isinstance(results, dict)
            np.testing.assert_array_equal(results["y"], 3 * number + 1 + np.arange(4))
        stream = runner.stream(signed(1, -1, 1), in_flight=3)
        assert isinstance(next(stream), dict)
        with pytest.raises(TaskFailedError, match=r"generation 1, task 'bad'.*x is negative"):
            next(stream)
        assert isinstance(next(stream), dict)
        with pytest.raises(StopIteration):
            next(stream)
        with pytest.raises(StopIteration):
            next(stream)
        assert (stream.statistics.generations, stream.statistics.failed) == (3, 1)


def test_a_refused_kernel_fails_its_generations(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("refused")
    x = graph.array("x", data=np.arange(100))
    for name, operation in (("before", MIX), ("bad", REFUSED), ("after", MIX)):
        graph.kernel(operation, name=name, x=x, y=graph.array(f"y_{name}", data=np.zeros(100, DTYPE)), a=1)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        found = list(runner.stream([None] * 4, in_flight=2, return_exceptions=True))
        assert all(isinstance(each, TaskFailedError) for each in found) and len(found) == 4


def test_a_bad_input_and_a_producer_that_raises(live: Live) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform)

    def produce() -> Iterator[dict[str, Any]]:
        yield inputs_of(graph, 0)
        yield {**inputs_of(graph, 1), "x": np.zeros(7, DTYPE)}
        yield inputs_of(graph, 2)
        raise OSError("the camera is gone")

    with bind(plan, graph, devices) as runner:
        stream = runner.stream(produce(), in_flight=4)
        np.testing.assert_array_equal(next(stream)["y"], sequential(graph, inputs_of(graph, 0))["y"])  # type: ignore[index,call-overload]
        with pytest.raises(ArgumentError, match="generation 1"):
            next(stream)
        np.testing.assert_array_equal(next(stream)["y"], sequential(graph, inputs_of(graph, 2))["y"])  # type: ignore[index,call-overload]
        with pytest.raises(OSError, match="the camera is gone"):
            next(stream)
        assert stream.closed and list(stream) == []


def test_generations_that_do_not_fit_are_refused_or_fewer(live: Live) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform, 1000)  # three arrays of 8,000 bytes, two of them at a time
    spaces = [
        replace(s, capacity_bytes=40_000) if s.name == platform.device("cpu").space else s for s in plan.platform.spaces
    ]
    small = replace(plan, platform=replace(plan.platform, spaces=tuple(spaces)))
    with bind(small, graph, devices) as runner:
        with pytest.raises(MemoryLimitError, match=r"3 generations need .*each.* has .*in_flight=2 fits"):
            runner.stream([], in_flight=3)
        assert runner.stream([]).in_flight == 2
        with pytest.raises(ArgumentError, match="in_flight is 0"):
            runner.stream([], in_flight=0)


def test_one_stream_at_a_time_and_none_beside_a_run(live: Live) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform)
    with bind(plan, graph, devices) as runner:
        first = runner.run(inputs_of(graph, 0))
        with runner.stream((inputs_of(graph, seed) for seed in range(9)), in_flight=2) as stream:
            with pytest.raises(ExecutionError, match="closed"):
                first.result("y")
            next(stream)
            with pytest.raises(ExecutionError, match="a stream of the runner is open"):
                runner.run(inputs_of(graph, 0))
            with pytest.raises(ExecutionError, match="a stream of the runner is open"):
                runner.stream([])
        with pytest.raises(ExecutionError, match="the stream is closed"):
            next(stream)
        stream.close()
        dropped = runner.stream((inputs_of(graph, seed) for seed in range(9)), in_flight=3)
        next(dropped)
        del dropped
        gc.collect()
        expected = sequential(graph, inputs_of(graph, 5))["y"]
        np.testing.assert_array_equal(runner(inputs_of(graph, 5))["y"], expected)
        left_open = runner.stream((inputs_of(graph, seed) for seed in range(9)), in_flight=3)
        next(left_open)
    assert left_open.closed


@pytest.mark.parametrize("where", ["waiting", "submitting"])
def test_ctrl_c_ends_runs_in_flight_and_keeps_the_runner_usable(
    live: Live, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform)
    calls = 0
    finish, submit = Replay.end_if_complete, SubmissionLoop.submit_listed

    def interrupted(*_: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt

    def waiting(replay: Replay) -> bool:
        interrupted()
        return finish(replay)

    def submitting(loop: SubmissionLoop, *arguments: Any) -> Any:
        interrupted()
        return submit(loop, *arguments)

    with bind(plan, graph, devices) as runner:
        with monkeypatch.context() as patch:
            if where == "waiting":
                patch.setattr(Replay, "end_if_complete", waiting)
            else:
                patch.setattr(SubmissionLoop, "submit_listed", submitting)
            stream = runner.stream((inputs_of(graph, seed) for seed in range(20)), in_flight=3)
            with pytest.raises(KeyboardInterrupt):
                list(stream)
        assert stream.closed
        expected = sequential(graph, inputs_of(graph, 5))["y"]
        np.testing.assert_array_equal(runner(inputs_of(graph, 5))["y"], expected)
        assert len(list(runner.stream((inputs_of(graph, seed) for seed in range(5)), in_flight=3))) == 5


def test_a_long_stream_is_cancelled_soon(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("long")
    y = graph.array("y", data=np.zeros(1, DTYPE))
    for i in range(50):
        graph.kernel(SPIN, name=f"spin{i}", y=y, turns=20_000)

    def endless() -> Iterator[None]:
        while True:
            yield None

    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        with runner.stream(endless(), in_flight=3) as stream:
            next(stream)
        assert stream.closed and stream.statistics.generations == 1


async def slowly(graph: TaskGraph, count: int, gate: asyncio.Event | None = None) -> AsyncIterator[dict[str, Any]]:
    for number in range(count):
        if gate is not None and number:
            await gate.wait()
            gate.clear()
        await asyncio.sleep(0)
        yield inputs_of(graph, number)


@pytest.mark.parametrize("producer", ["list", "coroutine"])
@pytest.mark.parametrize("in_flight", [1, 3])
def test_async_for(live: Live, producer: str, in_flight: int) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform)

    async def consume() -> int:
        inputs: Any = slowly(graph, 6) if producer == "coroutine" else [inputs_of(graph, n) for n in range(6)]
        number = 0
        with bind(plan, graph, devices) as runner:
            async with runner.stream(inputs, in_flight=in_flight) as stream:
                async for results in stream:
                    assert isinstance(results, dict)
                    np.testing.assert_array_equal(results["y"], sequential(graph, inputs_of(graph, number))["y"])
                    number += 1
        return number

    assert asyncio.run(consume()) == 6


def test_a_result_does_not_wait_for_a_later_input(live: Live) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform)

    async def consume(runner: Any) -> int:
        gate = asyncio.Event()  # the next input comes only after the result of the previous one was read
        number = 0
        async with runner.stream(slowly(graph, 4, gate), in_flight=3) as stream:
            async for results in stream:
                np.testing.assert_array_equal(results["y"], sequential(graph, inputs_of(graph, number))["y"])
                number += 1
                gate.set()
        return number

    async def leave(runner: Any) -> None:
        async with runner.stream(slowly(graph, 4, asyncio.Event()), in_flight=3) as stream:
            await anext(stream)
            await asyncio.wait_for(anext(stream), 0.05)  # never comes

    with bind(plan, graph, devices) as runner:
        assert asyncio.run(asyncio.wait_for(consume(runner), 60)) == 4
        with pytest.raises(asyncio.TimeoutError):
            asyncio.run(leave(runner))
        assert len(list(runner.stream([inputs_of(graph, 0)] * 3))) == 3
        with pytest.raises(ExecutionError, match="asynchronously"):
            next(runner.stream(slowly(graph, 1)))


def test_a_failure_in_a_coroutine(live: Live) -> None:
    platform, devices = live
    graph = judged()

    async def consume(runner: Any) -> list[str]:
        found = []
        async with runner.stream(signed(1, -1, 1), in_flight=2) as stream:
            while True:
                try:
                    found.append("ok" if await anext(stream) else "")
                except StopAsyncIteration:
                    return found
                except SyclschedError as error:
                    found.append(str(error)[:12])

    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        assert asyncio.run(consume(runner)) == ["ok", "generation 1", "ok"]


def test_a_stream_is_recorded_in_a_ring_on_one_clock(live: Live) -> None:
    platform, devices = live
    graph, plan = two_lane_graph(platform)
    with bind(plan, graph, devices, trace=3) as runner:
        stream = runner.stream([inputs_of(graph, seed) for seed in range(8)], in_flight=2)
        with pytest.raises(ExecutionError, match="no generation that has ended"):
            stream.trace()
        list(stream)
        trace = stream.trace()
        assert sorted({s.generation for s in trace.spans}) == [5, 6, 7]
        assert len(trace.spans) == 3 * len([i for _, i in plan.instructions() if i.kind not in ("alloc", "free")])
        assert len({s.instruction for s in trace.spans}) == len(trace.spans)
        by_number = {s.instruction: s for s in trace.spans}
        for span in trace.spans:
            assert span.submit_s <= span.start_s <= span.finish_s <= trace.makespan_s
            assert all(by_number[w].generation == span.generation for w in span.waits if w in by_number)
        for lane in {s.lane for s in trace.spans}:  # in order, whatever the generation
            mine = sorted((s for s in trace.spans if s.lane == lane), key=lambda s: s.start_s)
            assert all(a.finish_s <= b.start_s + 1e-6 for a, b in pairwise(mine))
        assert trace.predicted_makespan_s > 0
        assert len(runner.traces()) == 3
        for seed in range(5):
            runner(inputs_of(graph, seed))
        assert len(runner.traces()) == 3
    with bind(plan, graph, devices, trace=False) as runner:
        runner(inputs_of(graph, 0))
        assert runner.traces() == ()


@pytest.mark.parametrize(
    ("ends_s", "in_flight", "interval_s"),
    [
        ([1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 7.0, 7.0, 7.0], 3, 1.0),
        ([0.0, 1.0, 2.0, 9.0, 10.0], 1, 1.0),
        ([0.0, 3.0], 3, 3.0),
        ([5.0], 3, None),
        ([], 1, None),
    ],
)
def test_the_median_interval_of_batched_results_is_their_average(
    ends_s: list[float], in_flight: int, interval_s: float | None
) -> None:
    assert median_interval_s(ends_s, in_flight) == interval_s
