# SPDX-License-Identifier: Apache-2.0
"""Runs made by one C call: results, and the continuation of long, failed or interrupted runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.library_calls import Called, alternating, expected, with_library
from support.onednn_calls import linear, needs_onednn
from support.opened import live_on
from support.running import DTYPE, plan_by, plan_on

from syclsched.devices.submission.command_list import MAX_CALLS_IN_FLIGHT
from syclsched.devices.submission.command_maker import CommandMaker
from syclsched.devices.submission.native_run import COMPLETED, STILL_RUNNING, TRIALS, NativeRun
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import TaskFailedError
from syclsched.execution import bind
from syclsched.execution.replay import native_run_cache
from syclsched.kernels.elementwise import AXPY, COPY, FILL, SCALE
from syclsched.model.graph import TaskGraph
from syclsched.testing import faults

pytestmark = pytest.mark.sycl
STEPS, SIZE = 40, 5000


@pytest.fixture
def flown(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the return values of one-call runs."""
    found: list[int] = []
    run_blocking = NativeRun.run_blocking

    def noted(self: NativeRun, *arguments: Any) -> int:
        found.append(run_blocking(self, *arguments))
        return found[-1]

    monkeypatch.setattr(NativeRun, "run_blocking", noted)
    return found


@pytest.fixture(params=["one lane", "two lanes", "calls only", "kernels only"])
def runner(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A bound plan, and a function that returns its expected result."""
    platform, live = live_on(None)
    if request.param == "calls only":
        graph = TaskGraph("calls")
        y = graph.array("y", (SIZE,), "float32")
        for n in range(STEPS):
            graph.kernel(linear(), name=f"t{n}", y=y, alpha=-1.0, beta=float(n))
        plan = plan_on(graph, platform, "cpu")
    elif request.param == "kernels only":
        graph = TaskGraph("kernels")
        y, z = graph.array("y", (SIZE,), "float32"), graph.array("z", (SIZE,), "float32", temporary=True)
        for n in range(0, STEPS, 2):
            graph.kernel(SCALE, name=f"t{n}", x=y, alpha=-1.0)
            graph.kernel(FILL, name=f"f{n}", x=z.write(), value=1.0 - n % 4)
            graph.kernel(AXPY, name=f"t{n + 1}", y=y, x=z, alpha=1.0)
        plan = plan_by(graph, platform, lambda name: ("cpu", 0, _device_way(graph, name)))
    else:
        graph = alternating(STEPS, SIZE, linear())
        several = request.param == "two lanes"

        def place(name: str) -> tuple[str, int, str]:
            operation = graph.find_task(name).operation
            assert operation is not None
            return "cpu", int(name[1:]) // 2 % 2 if several else 0, operation.implementations[0].name

        plan = plan_by(graph, platform, place)
    with bind(plan, graph, live, trace=False) as bound:
        wanted = {"calls only": result, "kernels only": turned}
        yield bound, wanted.get(request.param, lambda y: expected(y, STEPS))


def result(y: Any) -> Any:
    for n in range(STEPS):
        y = np.float32(n) - y
    return y


def turned(y: Any) -> Any:
    for n in range(0, STEPS, 2):
        y = np.float32(1 - n % 4) - y
    return y


def inputs(turn: int) -> Any:
    return np.arange(SIZE, dtype=np.float32) % 500 + turn


@needs_onednn
def test_results_are_right_and_owned_by_the_caller(runner: Any, flown: list[int]) -> None:
    bound, wanted = runner
    found = [bound({"y": inputs(turn)})["y"] for turn in range(8)]
    for turn, y in enumerate(found):
        assert np.array_equal(y, wanted(inputs(turn)))
    assert flown == [COMPLETED] * 8
    with bound.run({"y": inputs(9)}) as run:  # by Python, in between
        assert np.array_equal(run.result("y"), wanted(inputs(9)))
    assert np.array_equal(bound({"y": inputs(3)})["y"], wanted(inputs(3)))
    assert bound({"y": inputs(3)}, results=()) == {}
    assert len(flown) == 10


@pytest.fixture
def on_caller(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record after each run the number of runs executed on the calling thread."""
    found: list[int] = []
    run_blocking = NativeRun.run_blocking

    def noted(self: NativeRun, *arguments: Any) -> int:
        ended = run_blocking(self, *arguments)
        found.append(self.runs_on_caller)
        return ended

    monkeypatch.setattr(NativeRun, "run_blocking", noted)
    return found


def small_kernels() -> tuple[Any, TaskGraph, Any]:
    """Return a plan of three small kernels that count y from 0 to 1, then to 3, in place, and add x."""
    platform, live = live_on(None)
    graph = TaskGraph("small")
    x, y = graph.array("x", (64,), "float32"), graph.array("y", (64,), "float32")
    graph.kernel(FILL, name="one", x=y.write(), value=1.0)
    graph.kernel(SCALE, name="three", x=y, alpha=3.0)
    graph.kernel(AXPY, name="sum", y=y, x=x, alpha=1.0)
    return plan_by(graph, platform, lambda name: ("cpu", 0, _device_way(graph, name))), graph, live


def test_short_runs_are_tried_on_the_calling_thread(local_queues: None, on_caller: list[int]) -> None:
    plan, graph, live = small_kernels()
    with bind(plan, graph, live, trace=False) as bound:
        for turn in range(500):
            x = np.full(64, turn, np.float32)
            assert np.array_equal(bound({"x": x}, ["y"])["y"], x + 3)
            if turn > 20 and on_caller[-1]:
                break
        assert on_caller[-1]


@pytest.mark.parametrize(("submitted_ns", "runs"), [(1_000_000, TRIALS), (1, 2)])
def test_trials_end_early_if_clearly_faster(
    local_queues: None, monkeypatch: pytest.MonkeyPatch, submitted_ns: int, runs: int
) -> None:
    made: list[NativeRun] = []
    begin = NativeRun.begin
    monkeypatch.setattr(NativeRun, "begin", lambda self: (made.append(self), begin(self)))
    plan, graph, live = small_kernels()
    with bind(plan, graph, live, trace=False) as bound:
        x = np.ones(64, np.float32)
        bound({"x": x}, ["y"])
        job = made[-1]._job
        job.trials[0], job.trials[1], job.typical_ns[0] = 3, 1, submitted_ns
        job.timed[1], job.times_ns[1][:] = 4, [1] * TRIALS
        assert np.array_equal(bound({"x": x}, ["y"])["y"], x + 3)
        assert made[-1].runs_on_caller == runs


def test_kernels_refused_on_the_calling_thread_are_submitted(
    local_queues: None, on_caller: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, perform = CommandMaker.copy_lanes, []

    def without_queues(self: CommandMaker, queues: Any) -> Any:
        perform.append(queues)
        return real(self, dict.fromkeys(queues, 0))

    monkeypatch.setattr(CommandMaker, "copy_lanes", without_queues)
    plan, graph, live = small_kernels()
    with bind(plan, graph, live, trace=False) as bound:
        for turn in range(40):
            x = np.full(64, turn, np.float32)
            assert np.array_equal(bound({"x": x}, ["y"])["y"], x + 3)
        assert perform
        assert on_caller == [0] * 40


@needs_onednn
def test_an_input_requested_as_result_is_returned_unchanged() -> None:
    platform, live = live_on(None)
    graph = TaskGraph("passed on")
    x, y = graph.array("x", (SIZE,), "float32"), graph.array("y", (SIZE,), "float32")
    graph.kernel(COPY, x=x, y=y)
    graph.kernel(linear(), y=y, alpha=-1.0, beta=1.0)
    plan = plan_by(graph, platform, lambda name: ("cpu", 0, _device_way(graph, name)))
    with bind(plan, graph, live, trace=False) as runner:
        for turn in range(3):
            found = runner({"x": inputs(turn)}, ["x", "y"])
            assert np.array_equal(found["x"], inputs(turn))
            assert np.array_equal(found["y"], 1 - inputs(turn))


def _device_way(graph: TaskGraph, name: str) -> str:
    operation = graph.find_task(name).operation
    assert operation is not None
    return next(each.name for each in operation.implementations if each.kind in ("opencl-c", "library"))


@needs_onednn
def test_slow_calls_continue_as_runs(runner: Any, flown: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    bound, wanted = runner
    monkeypatch.setattr(native_run_cache, "SLICE_S", 0.0)
    monkeypatch.setattr(native_run_cache, "LONGEST_S", 0.0)
    bound({"y": inputs(0)})
    bound._bound.instances.generations[0].native_runs._last._job.local = None  # runs on the caller are never long
    for turn in range(2000):  # on a busy machine a run may end before the caller checks
        assert np.array_equal(bound({"y": inputs(turn)})["y"], wanted(inputs(turn)))
        if turn >= 20 and STILL_RUNNING in flown:
            break
    assert STILL_RUNNING in flown


@needs_onednn
def test_long_calls_are_awaited(runner: Any, flown: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    bound, wanted = runner
    monkeypatch.setattr(native_run_cache, "SLICE_S", 0.0)
    bound({"y": inputs(0)})
    bound._bound.instances.generations[0].native_runs._last._job.local = None  # runs on the caller are never long
    for turn in range(2000):  # on a busy machine a run may end before the caller checks
        assert np.array_equal(bound({"y": inputs(turn)})["y"], wanted(inputs(turn)))
        assert bound.handed_over_ns is not None  # no run by Python took it over
        if turn >= 20 and STILL_RUNNING in flown:
            break
    assert STILL_RUNNING in flown

    def interrupted(self: NativeRun, seconds: float) -> int:
        raise KeyboardInterrupt

    stopped = 0
    with monkeypatch.context() as patch:
        patch.setattr(NativeRun, "wait", interrupted)
        for turn in range(2000):
            try:
                assert np.array_equal(bound({"y": inputs(turn)})["y"], wanted(inputs(turn)))
            except KeyboardInterrupt:
                stopped += 1
            if turn >= 20 and stopped:
                break
    assert stopped
    assert np.array_equal(bound({"y": inputs(3)})["y"], wanted(inputs(3)))


def check_interrupted(runner: Any, monkeypatch: pytest.MonkeyPatch, interrupted: Any) -> None:
    """Check the results of calls after others that were interrupted."""
    bound, wanted = runner
    for turn in range(5):
        with monkeypatch.context() as patch:
            patch.setattr(NativeRun, "run_blocking", interrupted)
            with pytest.raises(KeyboardInterrupt):
                bound({"y": inputs(turn)})
        assert np.array_equal(bound({"y": inputs(turn)})["y"], wanted(inputs(turn)))


@needs_onednn
def test_an_interrupted_run_ends_before_the_next_begins(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_blocking = NativeRun.run_blocking

    def interrupted(self: NativeRun, targets: Any, seconds: float) -> int:
        run_blocking(self, targets, 0.0)
        raise KeyboardInterrupt

    check_interrupted(runner, monkeypatch, interrupted)


@needs_onednn
def test_a_run_interrupted_at_its_begin_ends_before_the_next(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: NativeRun, targets: Any, seconds: float) -> int:
        raise KeyboardInterrupt

    check_interrupted(runner, monkeypatch, interrupted)


@needs_onednn
def test_runs_with_injected_faults_are_not_native_runs(runner: Any, flown: list[int]) -> None:
    bound, wanted = runner
    with faults.inject(faults.fail_submission(3)), pytest.raises(TaskFailedError):
        bound({"y": inputs(0)})
    assert not flown
    assert np.array_equal(bound({"y": inputs(1)})["y"], wanted(inputs(1)))


def test_a_refused_library_call_raises_the_error_of_a_run(flown: list[int]) -> None:
    platform, live = live_on(None)
    called = Called(0)
    graph = TaskGraph()
    x, y = (graph.array(name, (10,), DTYPE) for name in "xy")
    graph.kernel(with_library(called), x=x, y=y, name="moody")
    with bind(plan_on(graph, platform, "cpu"), graph, live, trace=False) as runner:
        for _ in range(3):
            runner({"x": np.arange(10)}, results=())
            called.status = 7
            with pytest.raises(TaskFailedError, match=r"moody.*no mood for 7 \(status 7\)"):
                runner({"x": np.arange(10)}, results=())
            called.status = 0
    assert flown == [1, -1] * 3


@needs_onednn
def test_traced_calls_are_not_native_runs(flown: list[int]) -> None:
    platform, live = live_on(None)
    graph = alternating(4, 10, linear())
    with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
        runner({"y": np.zeros(10, np.float32)})
        assert len(runner.traces()) == 1
    assert not flown


@needs_onednn
def test_unfinished_library_calls_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, ahead, waits = 5 * MAX_CALLS_IN_FLIGHT // 2, [], []
    run_blocking, wait_for = NativeRun.run_blocking, SubmissionLoop.wait_for

    def noted(self: NativeRun, *arguments: Any) -> int:
        ahead.append(self._job.done[0])
        return run_blocking(self, *arguments)

    def waited(self: SubmissionLoop, *arguments: Any) -> None:
        waits.append(arguments)
        wait_for(self, *arguments)

    monkeypatch.setattr(NativeRun, "run_blocking", noted)
    monkeypatch.setattr(SubmissionLoop, "wait_for", waited)
    platform, live = live_on(None)
    graph = TaskGraph("many calls")
    y = graph.array("y", (8,), "float32")
    for n in range(steps):
        graph.kernel(linear(), name=f"t{n}", y=y, alpha=-1.0, beta=float(n % 7))
    wanted = np.arange(8, dtype=np.float32)
    for n in range(steps):
        wanted = np.float32(n % 7) - wanted
    given = {"y": np.arange(8, dtype=np.float32)}
    with bind(plan_on(graph, platform, "cpu"), graph, live, trace=False) as bound:
        for _ in range(3):
            assert np.array_equal(bound(given)["y"], wanted)
        assert ahead
        assert max(ahead) <= MAX_CALLS_IN_FLIGHT + 1  # after the copy of the input
        waits.clear()
        assert all(np.array_equal(each["y"], wanted) for each in bound.stream([given] * 2))
    assert len(waits) >= 2
