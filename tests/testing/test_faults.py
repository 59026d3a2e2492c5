# SPDX-License-Identifier: Apache-2.0
"""Injected faults in real runs: the errors of the real runtime, and no lasting effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.opened import live_on, until
from support.running import DTYPE, MIX, plan_by, plan_on, sequential

from syclsched.devices.submission import faultpoints
from syclsched.errors import ArgumentError, SyclschedError, TaskFailedError, WaitTimeoutError
from syclsched.execution import bind, execute
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.testing import faults

pytestmark = pytest.mark.sycl


def two_chains(length: int = 4) -> TaskGraph:
    """Return two independent chains of kernels: ``a0``, ``a1`` ... and ``b0``, ``b1`` ..."""
    graph = TaskGraph("two chains")
    x = graph.array("x", data=np.arange(100, dtype=DTYPE))
    for name in "ab":
        y = graph.array(name, data=np.ones(100, DTYPE))
        for i in range(length):
            graph.kernel(MIX, name=f"{name}{i}", x=x, y=y, a=i + 2)
    return graph


def place(name: str) -> tuple[str, int, str]:
    return "cpu", "ab".index(name[0]), "opencl-c"


def outcomes(run: Any) -> dict[str, str]:
    return {s.task: s.outcome for s in run.trace().spans if s.kind in ("launch", "host")}


@pytest.fixture
def platform() -> Platform:
    return live_on(None)[0]


@pytest.fixture
def devices() -> Any:
    return live_on(None)[1]


def test_passed_fault_points_are_counted(platform: Platform, devices: Any) -> None:
    graph = two_chains()
    plan = plan_by(graph, platform, place)
    with faults.inject() as seen, execute(plan, graph, devices) as run:
        run.wait(60)
    copies = sum(i.kind == "copy" for _, i in plan.instructions())
    assert seen.passed("submission") == 8 + copies == seen.passed("submission", "cpu")
    assert seen.passed("copy") == copies > 0
    assert seen.passed("allocation") == 3
    assert seen.injected == ()
    assert faultpoints.active is None


@pytest.mark.parametrize("bound", [False, True])
def test_a_refused_submission_fails_its_task_and_no_other_chain(platform: Platform, devices: Any, bound: bool) -> None:
    graph = two_chains()
    plan = plan_by(graph, platform, place)
    order = [i.task for _, i in plan.instructions() if i.kind in ("launch", "copy")]
    number = order.index("a1") + 1
    with faults.inject(faults.fail_submission(number)) as seen:
        runner = bind(plan, graph, devices) if bound else None
        run = execute(plan, graph, devices) if runner is None else runner.run()
        with pytest.raises(TaskFailedError, match="could not be submitted"):
            run.wait(60)
        assert [f.what for f in seen.injected] == ["submission"]
        failed = next(task for task, outcome in outcomes(run).items() if outcome == "failed")
        other = "b" if failed[0] == "a" else "a"
        np.testing.assert_array_equal(run.result(other), sequential(graph, graph.data)[other])
        run.close()
        if runner is not None:
            runner.close()


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("done", [False, True])
def test_a_device_failure_is_detected_and_its_results_refused(
    platform: Platform, devices: Any, bound: bool, done: bool
) -> None:
    graph = two_chains()
    plan = plan_by(graph, platform, place)
    with faults.inject(faults.fail_on_device(6, done=done)):
        runner = bind(plan, graph, devices) if bound else None
        run = execute(plan, graph, devices) if runner is None else runner.run()
        with pytest.raises(TaskFailedError, match="failed on its device"):
            run.wait(60)
        (failed,) = [task for task, outcome in outcomes(run).items() if outcome == "failed"]
        with pytest.raises(TaskFailedError, match="failed on its device"):
            run.result(failed[0])
        other = "b" if failed[0] == "a" else "a"
        np.testing.assert_array_equal(run.result(other), sequential(graph, graph.data)[other])
        run.close()
        if runner is not None:
            runner.close()


def test_a_lost_device_refuses_all_submissions(platform: Platform, devices: Any) -> None:
    graph = two_chains()
    plan = plan_on(graph, platform, "cpu")
    with faults.inject(faults.lose("cpu", after=4)) as seen, pytest.raises(TaskFailedError):
        run = execute(plan, graph, devices)
        try:
            run.wait(60)
        finally:
            run.close()
    assert seen.injected[0].what == "lost"
    with execute(plan, graph, devices) as run:  # the device works again
        np.testing.assert_array_equal(run.result("a"), sequential(graph, graph.data)["a"])


def test_memory_that_cannot_be_had(platform: Platform, devices: Any) -> None:
    graph = two_chains()
    plan = plan_on(graph, platform, "cpu")
    for number in (1, 2, 3):
        with (
            faults.inject(faults.fail_allocation(number)),
            execute(plan, graph, devices) as run,
            pytest.raises(SyclschedError, match="could not be allocated"),
        ):
            run.wait(60)


def test_a_host_function_that_raises(platform: Platform, devices: Any) -> None:
    graph = TaskGraph("calls")
    calls = []
    for i in range(3):
        y = graph.array(f"y{i}", (1,), DTYPE)
        graph.host(lambda y, i: calls.append(i), name=f"h{i}", y=y.write(), i=i)
    plan = plan_on(graph, platform, "cpu")
    with (
        faults.inject(faults.fail_host_call(2)),
        execute(plan, graph, devices) as run,
        pytest.raises(TaskFailedError, match=r"'h1'.*InjectedError"),
    ):
        run.wait(60)
    assert calls == [0, 2]


def test_a_copy_can_be_failed_by_itself(platform: Platform, devices: Any) -> None:
    graph = two_chains()
    plan = plan_on(graph, platform, "cpu")
    with (
        faults.inject(faults.fail_copy(1)) as seen,
        execute(plan, graph, devices) as run,
        pytest.raises(TaskFailedError),
    ):
        run.wait(60)
    assert [f.what for f in seen.injected] == ["copy"]


def test_a_hanging_device_continues_when_released(platform: Platform, devices: Any) -> None:
    graph = two_chains()
    with (
        faults.inject(faults.hang("cpu", after=5)) as seen,
        execute(plan_on(graph, platform, "cpu"), graph, devices) as run,
    ):
        until(lambda: seen.injected)
        with pytest.raises(WaitTimeoutError):
            run.wait(0.3)
        assert [f.what for f in seen.injected] == ["hang"]
        seen.release()
        run.wait(60)
        np.testing.assert_array_equal(run.result("b"), sequential(graph, graph.data)["b"])


def test_a_slow_device_is_slower_and_right(platform: Platform, devices: Any) -> None:
    graph = two_chains()
    with (
        faults.inject(faults.slow("cpu", by_s=0.02)) as seen,
        execute(plan_on(graph, platform, "cpu"), graph, devices) as run,
    ):
        run.wait(60)
        count = seen.passed("submission", "cpu")
        assert run.trace().makespan_s >= 0.02 * (count - 1)
        np.testing.assert_array_equal(run.result("a"), sequential(graph, graph.data)["a"])


def test_the_same_seed_fails_the_same(platform: Platform, devices: Any) -> None:
    graph = two_chains(10)
    plan = plan_on(graph, platform, "cpu")

    def injected(seed: int) -> list[Any]:
        with faults.inject(faults.at_random(0.2, kinds=("submission",), most=1), seed=seed) as seen:
            run = execute(plan, graph, devices)
            run.join()
            run.close()
            return list(seen.injected)

    found = [injected(seed) for seed in range(6)]
    assert found == [injected(seed) for seed in range(6)]
    assert len({tuple(each) for each in found}) > 1


def test_two_injections_at_once_are_refused() -> None:
    with faults.inject(), pytest.raises(SyclschedError, match="already"), faults.inject():
        pass
    assert faultpoints.active is None


def test_bad_faults_are_refused() -> None:
    for make in (
        lambda: faults.fail_submission(0),
        lambda: faults.lose("cpu", after=-1),
        lambda: faults.slow("cpu", by_s=float("nan")),
        lambda: faults.at_random(1.5),
        lambda: faults.at_random(0.5, kinds=("nonsense",)),
    ):
        with pytest.raises(ArgumentError):
            make()
    with pytest.raises(ArgumentError, match="is not a fault"), faults.inject("cpu"):  # type: ignore[arg-type]
        pass


def test_fault_points_count_passes_of_many_threads(platform: Platform, devices: Any) -> None:
    graph = two_chains()
    plan = plan_on(graph, platform, "cpu")
    with faults.inject() as seen:
        runs = [execute(plan, graph, devices) for _ in range(4)]
        for run in runs:
            run.wait(60)
            run.close()
    copies = sum(i.kind == "copy" for _, i in plan.instructions())
    assert seen.passed("submission") == 4 * (8 + copies)
