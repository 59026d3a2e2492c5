# SPDX-License-Identifier: Apache-2.0
"""Streams and plans with host tasks on one-core lanes, executed by lane threads, with the same results."""

from __future__ import annotations

import asyncio
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.opened import REFUSED, live_on
from support.running import ASSIGN, DTYPE, MIX, SPIN, graphs, inputs_of, plan_by, plan_on, sequential

from syclsched.devices.submission import faultpoints
from syclsched.devices.submission.commands import CommandStructure
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import DeadlineError, TaskFailedError
from syclsched.execution import bind
from syclsched.execution.handle import watchdog
from syclsched.execution.replay.end_watch import PolledEndWatch
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.testing import faults

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("one_core_lanes")]


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for each submission from a list whether it went to lane threads."""
    seen: list[bool] = []
    submit = SubmissionLoop.submit_listed

    def noted(loop: SubmissionLoop, *arguments: Any) -> Any:
        seen.append(loop.uses_lane_threads)
        return submit(loop, *arguments)

    monkeypatch.setattr(SubmissionLoop, "submit_listed", noted)
    return seen


def to_and_fro(turns: int = 2_000) -> tuple[TaskGraph, Plan]:
    """Return six tasks, each on the other lane than the one before."""
    platform, _ = live_on(None)
    graph = TaskGraph("to and fro")
    y = graph.array("y", (1,), DTYPE)
    for step in range(6):
        graph.kernel(SPIN, name=f"t{step}", y=y, turns=turns)
    return graph, plan_by(graph, platform, lambda name: ("cpu", int(name[-1]) % 2, "opencl-c"))


@given(data=st.data(), in_flight=st.integers(1, 4))
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_random_graphs_with_functions_have_the_bits_of_numpy(data: st.DataObject, in_flight: int) -> None:
    platform, devices = live_on(None)
    graph = data.draw(graphs(max_tasks=24))
    tasks = {t.name: t for t in graph.tasks}

    def place(name: str) -> tuple[str, int, str | None]:
        operation = tasks[name].operation
        names = [] if operation is None else [i.name for i in operation.implementations]
        name = data.draw(st.sampled_from(names)) if names else None
        on_host = operation is not None and operation.implementation(name).kind == "host"
        return ("host", 0, name) if on_host else ("cpu", data.draw(st.integers(0, 1)), name)

    given_inputs = [inputs_of(graph, seed) for seed in range(5)]
    with bind(plan_by(graph, platform, place), graph, devices) as runner:
        assert not runner.replayed or runner.why_not_on_threads is None
        found = [runner(given_inputs[0]), *runner.stream(given_inputs, in_flight=in_flight), runner(given_inputs[0])]
    for inputs, results in zip([given_inputs[0], *given_inputs, given_inputs[0]], found, strict=True):
        assert isinstance(results, dict)
        expected = sequential(graph, inputs)
        for name, value in results.items():
            np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_spans_of_a_lane_do_not_overlap_in_the_trace(ways: list[bool]) -> None:
    _, devices = live_on(None)
    graph, plan = to_and_fro()
    with bind(plan, graph, devices) as runner:
        assert runner.why_not_on_threads is None
        stream = runner.stream([{"y": np.array([seed])} for seed in range(6)], in_flight=3)
        assert sum(1 for _ in stream) == 6
        spans = [span for span in stream.trace().spans if span.kind == "launch"]
        assert len(spans) == 36
        for lane in plan.lanes:
            mine = sorted((s.start_s, s.finish_s) for s in spans if s.lane == lane.name)
            assert all(before[1] <= after[0] for before, after in pairwise(mine))
        for generation in range(6):
            chain = sorted((s.task or "", s.start_s, s.finish_s) for s in spans if s.generation == generation)
            assert all(before[2] <= after[1] for before, after in pairwise(chain))
        run = runner.run({"y": np.array([1])})  # a single run is submitted to queues, and its trace has its own times
        run.wait(60)
        assert all(span.duration_s > 0 for span in run.trace().spans if span.kind == "launch")
    assert ways and all(ways)


def test_a_kernel_refused_at_submission_fails_each_generation(ways: list[bool]) -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("refused")
    x, y, z = (graph.array(name, (100,), DTYPE) for name in "xyz")
    graph.kernel(MIX, name="0 good", x=x, y=z, a=1)
    graph.kernel(REFUSED, name="1 bad", x=x, y=y, a=1)
    graph.kernel(MIX, name="1 child", x=y, y=z, a=1)
    plan = plan_by(graph, platform, lambda name: ("cpu", int(name[0]), "opencl-c"))
    given_inputs = [{name: np.full(100, seed) for name in "xyz"} for seed in range(4)]
    with bind(plan, graph, devices) as runner:
        found = list(runner.stream(given_inputs, in_flight=2, return_exceptions=True))
        assert [type(each) for each in found] == [TaskFailedError] * 4
        assert [f"generation {n}, " in str(each) and "1 bad" in str(each) for n, each in enumerate(found)] == [True] * 4
    assert ways and all(ways)


def test_a_task_past_its_deadline_fails_its_generation(ways: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LEAST_GRACE_S", 60.0)  # the kernel ends, on a busy machine late
    platform, devices = live_on(None)
    graph = TaskGraph("late")
    y = graph.array("y", (1,), DTYPE)
    graph.kernel(SPIN, name="slow", y=y, turns=100_000_000, deadline_s=0.01)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        stream = runner.stream([{"y": np.ones(1, DTYPE)}] * 2, in_flight=1, return_exceptions=True)
        assert [type(each) for each in stream] == [DeadlineError] * 2
    assert ways and all(ways)


def test_an_abandoned_stream_leaves_the_runner_usable(ways: list[bool]) -> None:
    _, devices = live_on(None)
    graph, plan = to_and_fro(200_000)
    with bind(plan, graph, devices) as runner:
        expected = runner({"y": np.array([7])})["y"]
        for _ in range(3):
            with runner.stream([{"y": np.array([seed])} for seed in range(9)], in_flight=3) as stream:
                next(stream)
            np.testing.assert_array_equal(runner({"y": np.array([7])})["y"], expected)
    assert ways and all(ways)


def test_coroutines_are_woken_by_threads() -> None:
    _, devices = live_on(None)
    graph, plan = to_and_fro()

    async def all_of(runner: Any) -> list[Any]:
        return [found["y"][0] async for found in runner.stream([{"y": np.array([s])} for s in range(8)], in_flight=3)]

    with bind(plan, graph, devices) as runner:
        expected = [runner({"y": np.array([s])})["y"][0] for s in range(8)]
        assert asyncio.run(all_of(runner)) == expected


def test_host_functions_between_lane_thread_commands(ways: list[bool]) -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("hosted")
    y, z = (graph.array(name, (50,), DTYPE) for name in "yz")

    def double(y: Any) -> None:
        y *= 2

    for step in range(4):
        graph.kernel(MIX, name=f"0 mix{step}", x=z, y=y, a=step)
        graph.host(double, name=f"double{step}", y=y.update())
        graph.kernel(MIX, name=f"1 mix{step}", x=y, y=z, a=1)
    first = {t.name: None if t.operation is None else t.operation.implementations[0].name for t in graph.tasks}
    plan = plan_by(graph, platform, lambda n: ("host", 0, first[n]) if n[0] == "d" else ("cpu", int(n[0]), "opencl-c"))
    given_inputs = [inputs_of(graph, seed) for seed in range(5)]
    with bind(plan, graph, devices) as runner:
        for inputs, results in zip(given_inputs, runner.stream(given_inputs, in_flight=3), strict=True):
            assert isinstance(results, dict)
            expected = sequential(graph, inputs)
            for name in "yz":
                np.testing.assert_array_equal(results[name], expected[name])
        alone = runner(given_inputs[0])
        for name in "yz":
            np.testing.assert_array_equal(alone[name], sequential(graph, given_inputs[0])[name])
    assert ways and all(ways)


def test_injected_faults_act_as_those_of_queues(ways: list[bool]) -> None:
    _, devices = live_on(None)
    graph, plan = to_and_fro()
    with bind(plan, graph, devices) as runner:
        with faults.inject(faults.fail_submission(8)):
            stream = runner.stream([{"y": np.array([s])} for s in range(3)], in_flight=2, return_exceptions=True)
            assert [isinstance(each, dict) for each in stream] == [True, False, True]
        assert ways and not any(ways)
        assert sum(1 for _ in runner.stream([{"y": np.array([1])}] * 2)) == 2
        assert ways[-1]


def test_lanes_that_are_no_cores_say_so(monkeypatch: pytest.MonkeyPatch, ways: list[bool]) -> None:
    _, devices = live_on(None)
    graph, plan = to_and_fro()
    monkeypatch.delenv("CL_CONFIG_CPU_TBB_NUM_WORKERS")
    with bind(plan, graph, devices) as runner:
        assert "CL_CONFIG_CPU_TBB_NUM_WORKERS" in str(runner.why_not_on_threads)
        assert sum(1 for _ in runner.stream([{"y": np.array([1])}] * 3)) == 3
    assert ways and not any(ways)


def test_empty_library_calls_do_not_prevent_lane_threads() -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("nothing")
    x, y = (graph.array(name, (0,), DTYPE) for name in "xy")
    graph.kernel(ASSIGN, name="t", x=x, y=y)
    with bind(plan_by(graph, platform, lambda _: ("cpu", 0, "library")), graph, devices) as runner:
        assert runner.replayed
        assert runner.why_not_on_threads is None


def test_skipped_commands_keep_the_order_of_lane_threads(ways: list[bool]) -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("left out")
    x, y, z = (graph.array(name, (50,), DTYPE) for name in "xyz")

    def judge(y: Any) -> None:
        if y[0] < 0:
            raise ValueError("on purpose")

    graph.kernel(MIX, name="first", x=x, y=y, a=1)
    graph.host(judge, name="judge", y=y.update())
    for step in range(20):
        graph.kernel(MIX, name=f"child{step}", x=y, y=z, a=1)
    given_inputs = [{name: np.full(50, sign) for name in "xyz"} for sign in (1, -1, 1, -1)]
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        assert runner.why_not_on_threads is None
        found = list(runner.stream(given_inputs, in_flight=2, return_exceptions=True))
        assert [type(each) for each in found] == [dict, TaskFailedError, dict, TaskFailedError]
        assert all("task 'judge'" in str(each) for each in found[1::2])
        with pytest.raises(TaskFailedError, match="on purpose"):
            runner(given_inputs[1])
        np.testing.assert_array_equal(runner(given_inputs[0])["z"], sequential(graph, given_inputs[0])["z"])
    assert ways and all(ways)


def test_skipped_commands_live_until_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    _, devices = live_on(None)
    graph, plan = to_and_fro(20_000_000)
    made: list[weakref.ref[CommandStructure]] = []
    alive: list[bool] = []
    wait = SubmissionLoop.wait_for_all

    class Noted(CommandStructure):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(weakref.ref(self))

    def looked_at(loop: SubmissionLoop) -> None:
        alive.extend(each() is not None for each in made)
        wait(loop)

    with bind(plan, graph, devices) as runner:
        assert runner._bound.instances is not None
        generation = runner._bound.instances.generations[0]
        watch = PolledEndWatch(None, lambda: ())
        left = generation.replay(runner._bound.prepared.values({"y": np.ones(1, DTYPE)}), record=False, polled=watch)
        assert generation.loop.uses_lane_threads
        monkeypatch.setattr(faultpoints, "CommandStructure", Noted)
        monkeypatch.setattr(SubmissionLoop, "wait_for_all", looked_at)
        left.start()
        with faults.inject(faults.fail_on_device(4)):  # they begin when the generation is in flight already
            left.submit_until(1000)
            while not left.end_if_complete():
                pass
        assert alive == [True]
        assert left.failures.first is not None
