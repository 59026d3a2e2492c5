# SPDX-License-Identifier: Apache-2.0
"""Recovery of planned runs: equal bits for every fault at any time, and no leaks."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.injected import FAULTS
from support.opened import REFUSED, live_on
from support.running import ASSIGN, DTYPE, JUDGE, MIX, SPIN, check_results, graphs, plan_by, plan_on, plans, sequential

from syclsched.errors import MemoryLimitError, RunCancelledError, TaskFailedError
from syclsched.execution import bind, execute
from syclsched.execution.dynamic import run_dynamically
from syclsched.execution.recovery import recovery_planner
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.testing import faults

pytestmark = pytest.mark.sycl

DEADLINE_S = 240.0


def coupled_updates(tasks: int = 16, strands: int = 3) -> TaskGraph:
    """Return chains that are written in place and read each other through temporaries: a task needs all before it."""
    graph = TaskGraph("coupled updates")
    arrays = [graph.array(f"x{n}", data=np.arange(64, dtype=DTYPE) * (n + 1)) for n in range(strands)]
    for index in range(tasks):
        mine, other = arrays[index % strands], arrays[(index + 1) % strands]
        if index % 4 == 3:
            between = graph.array(f"t{index}", (64,), DTYPE, temporary=True)
            graph.kernel(ASSIGN, name=f"set{index}", x=other, y=between)
            other = between
        graph.kernel(MIX, name=f"mix{index}", x=other, y=mine, a=index + 2)
    return graph


def spread(graph: TaskGraph, platform: Platform) -> Plan:
    """Plan tasks round robin over all devices and lanes."""
    places = [(d.name, lane) for d in platform.compute_devices for lane in range(d.lanes)]
    implementation = {"assign": "library", "mix": "opencl-c"}

    def place(name: str) -> tuple[str, int, str]:
        return *places[int(name[3:]) % len(places)], implementation[graph.find_task(name).family]

    return plan_by(graph, platform, place)


def passed(plan: Plan, graph: TaskGraph, devices: Any, point: Any) -> int:
    """Return how often an undisturbed run passes a point of fault injection."""
    with faults.inject() as seen, execute(plan, graph, devices) as run:
        run.wait(DEADLINE_S)
    return seen.passed(point)


# --- one fault at every point -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_at_any_point_changes_no_bit(kind: str) -> None:
    platform, devices = live_on(2)
    graph = coupled_updates()
    plan = spread(graph, platform)
    expected = sequential(graph, graph.data)
    points = passed(plan, graph, devices, kind if kind in ("copy", "allocation") else "submission")
    step = 2 if kind == "copy" else 5
    held = {space: info.in_use_bytes for space, info in devices.pools.info().items()}
    for number in range(1, points + 1, step):
        with faults.inject(FAULTS[kind](number)) as seen, execute(plan, graph, devices, recover=True) as run:
            check_results(run, graph, expected)
            assert len(seen.injected) == 1
            assert len(run.recoveries) == 1
        del run
        gc.collect()
        now = {space: info.in_use_bytes for space, info in devices.pools.info().items()}
        assert {space: nbytes for space, nbytes in now.items() if nbytes > held.get(space, 0)} == {}
    for name, value in graph.data.items():
        np.testing.assert_array_equal(value, np.arange(64, dtype=DTYPE) * (int(name[1:]) + 1))


def test_input_written_before_failure_has_last_value() -> None:
    """No remaining task uses this input."""
    _, devices = live_on(2)
    graph = TaskGraph("two strands")
    x = [graph.array(f"x{n}", data=np.arange(64, dtype=DTYPE) * (n + 1)) for n in range(4)]
    graph.kernel(MIX, name="first", x=x[1], y=x[0], a=2)
    graph.kernel(MIX, name="second", x=x[3], y=x[2], a=3)
    plan = plan_by(graph, devices.platform, lambda _: ("cpu.0", 0, "opencl-c"))
    last = passed(plan, graph, devices, "submission")
    with faults.inject(faults.fail_submission(last)), execute(plan, graph, devices, recover=True) as run:
        run.wait(DEADLINE_S)
        assert run.recoveries
        check_results(run, graph, sequential(graph, graph.data))


@pytest.mark.gpu_shape
@pytest.mark.parametrize("after", [0, 1, 2, 4])
@pytest.mark.parametrize("device", ["cpu.0", "cpu.1", f"{OTHER_DEVICE}.0", f"{OTHER_DEVICE}.1", "cpu1.0"])
def test_runs_continue_without_a_lost_device(device: str, after: int) -> None:
    platform, devices = live_on(2)
    if device not in {d.name for d in platform.compute_devices}:
        pytest.skip(f"no device {device!r} here")
    graph = coupled_updates()
    plan = spread(graph, platform)
    with faults.inject(faults.lose(device, after=after)) as seen, execute(plan, graph, devices, recover=True) as run:
        check_results(run, graph, sequential(graph, graph.data))
        assert seen.injected[0].what == "lost"
        assert run.recoveries[0].lost == run.recoveries[0].left_out == (device,)
        begun = run.trace().spans
        assert device not in {s.device for s in begun[-4:]}
    assert run.trace().recoveries == run.recoveries


@pytest.mark.other_device
def test_bound_plans_recover_and_later_runs_avoid_lost_devices() -> None:
    platform, devices = live_on(None)
    graph = coupled_updates()
    lost = platform.compute_devices[-1].name
    with bind(spread(graph, platform), graph, devices, recover=True) as runner:
        assert runner.replayed == (len({d.space for d in platform.compute_devices}) == 1)
        with faults.inject(faults.lose(lost, after=3)):
            for turn in range(3):
                inputs = {f"x{n}": np.arange(64, dtype=DTYPE) + turn * n for n in range(3)}
                run = runner.run(inputs)
                check_results(run, graph, sequential(graph, inputs))
                assert bool(run.recoveries) == (turn == 0)
                assert lost not in {lane.device for lane in runner.plan.lanes} or turn == 0


@pytest.mark.parametrize("number", [1, 4, 8, 11])
def test_a_replay_recovers_and_the_runner_keeps_its_plan(number: int) -> None:
    platform, devices = live_on(None)
    graph = coupled_updates()
    plan = plan_by(graph, platform, lambda n: ("cpu", int(n[3:]) % 2, "python" if n[0] == "m" else "library"))
    graph = coupled_kernels()
    plan = plan_by(graph, platform, lambda n: ("cpu", int(n[3:]) % 2, "opencl-c"))
    expected = sequential(graph, graph.data)
    with bind(plan, graph, devices, recover=True) as runner:
        assert runner.replayed, runner.why_not_replayed
        for fault in (faults.fail_submission(number), faults.fail_on_device(number, done=True)):
            with faults.inject(fault) as seen:
                for _ in range(2):
                    check_results(runner.run(), graph, expected)
                assert len(seen.injected) == 1
        assert runner.plan is plan


def coupled_kernels() -> TaskGraph:
    graph = TaskGraph("coupled updates")
    arrays = [graph.array(f"x{n}", data=np.arange(64, dtype=DTYPE) * (n + 1)) for n in range(3)]
    for index in range(10):
        graph.kernel(MIX, name=f"mix{index}", x=arrays[(index + 1) % 3], y=arrays[index % 3], a=index + 2)
    return graph


# --- many faults, at random -------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("sub_devices", [None, 2])
def test_random_faults_in_random_graphs_change_no_bit(sub_devices: int | None, data: st.DataObject) -> None:
    platform, devices = live_on(sub_devices)
    graph = data.draw(graphs(ranges=data.draw(st.booleans())))
    plan = data.draw(plans(graph, platform))
    rng = np.random.default_rng(len(graph))
    inputs = {name: rng.integers(-(2**40), 2**40, a.shape) for name, a in graph.arrays.items()}
    untouched = {name: value.copy() for name, value in inputs.items()}
    device = data.draw(st.sampled_from([d.name for d in platform.compute_devices]))
    lost = faults.lose(device, after=data.draw(st.integers(0, 12)))
    chosen = data.draw(
        st.sampled_from([(faults.at_random(0.1, most=3),), (lost,), (lost, faults.at_random(0.05, most=2))])
    )
    with faults.inject(*chosen, seed=data.draw(st.integers(0, 99))):
        if data.draw(st.booleans()):
            try:
                runner = bind(plan, graph, devices, recover=True)
            except MemoryLimitError:
                return  # before anything ran
            with runner:
                check_results(runner.run(inputs), graph, sequential(graph, inputs))
        else:
            with execute(plan, graph, devices, inputs, recover=True) as run:
                check_results(run, graph, sequential(graph, inputs))
    for name, value in untouched.items():
        np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")


# --- what cannot be recovered -----------------------------------------------------------------------


def test_a_permanent_failure_reports_its_cause_and_others_finish() -> None:
    platform, devices = live_on(None)
    graph = coupled_kernels()
    y = graph.array("y", data=np.zeros(100, DTYPE))
    graph.kernel(REFUSED, name="bad99", x=graph.array("x", data=np.ones(100, DTYPE)), y=y, a=1)
    graph.kernel(MIX, name="mix99", x=y, y=graph.array("z", data=np.ones(100, DTYPE)), a=1)
    plan = plan_by(graph, platform, lambda n: ("cpu", int(n[3:]) % 2, "opencl-c"))
    with execute(plan, graph, devices, recover=True) as run:
        with pytest.raises(TaskFailedError, match=r"task 'bad99'.*could not be submitted"):
            run.wait(DEADLINE_S)
        assert 1 <= len(run.recoveries) <= recovery_planner.MOST_RECOVERIES
        assert set(run.recoveries[-1].given_up) == {"bad99", "mix99"}
        expected = sequential(coupled_kernels(), graph.data)
        for name in ("x0", "x1", "x2"):
            np.testing.assert_array_equal(run.result(name), expected[name])
        for name in ("y", "z"):
            with pytest.raises(TaskFailedError, match="task 'bad99'"):
                run.result(name)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_the_host_takes_over_if_all_devices_are_lost(after: int, dynamic: bool) -> None:
    platform, devices = live_on(None)
    graph = coupled_updates()
    lost = [faults.lose(d.name, after=after) for d in platform.compute_devices]
    with faults.inject(*lost) as seen:
        start = (
            run_dynamically(graph, devices, "eager", recover=True)
            if dynamic
            else execute(spread(graph, platform), graph, devices, recover=True)
        )
        with start as run:
            check_results(run, graph, sequential(graph, graph.data))
            assert seen.injected
            assert run.recoveries
            assert {s.device for s in run.trace().spans if s.kind == "host"} == {"host"}


def test_a_bound_plan_continues_on_the_host_alone() -> None:
    platform, devices = live_on(None)
    graph = coupled_updates()
    with bind(spread(graph, platform), graph, devices, recover=True) as runner:
        with faults.inject(*[faults.lose(d.name, after=2) for d in platform.compute_devices]):
            for turn in range(3):
                inputs = {f"x{n}": np.arange(64, dtype=DTYPE) + turn * n for n in range(3)}
                run = runner.run(inputs)
                check_results(run, graph, sequential(graph, inputs))
        assert {lane.device for lane in runner.plan.lanes} == {"host"}


def test_completed_results_are_readable_after_all_devices_are_lost() -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("nothing left")
    early = graph.array("early", data=np.ones(64, DTYPE))
    late = graph.array("late", data=np.ones(64, DTYPE))
    graph.host(lambda y: np.multiply(y, 5, out=y), name="first", y=early.update())
    for index in range(3):
        graph.kernel(SPIN, name=f"spin{index}", y=late, turns=index)
    plan = plan_on(graph, platform.select(["cpu"]), "cpu")
    with faults.inject(faults.lose("cpu", after=2)), execute(plan, graph, devices, recover=True) as run:
        with pytest.raises(TaskFailedError):
            run.wait(DEADLINE_S)
        np.testing.assert_array_equal(run.result("early"), np.full(64, 5))
        with pytest.raises(TaskFailedError):
            run.result("late")


def test_function_with_side_effects_is_called_once() -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("side effects")
    calls = []

    def once(y: Any) -> None:
        calls.append(1)
        y[...] = 3

    y = graph.array("y", (64,), DTYPE)
    z = graph.array("z", data=np.ones(64, DTYPE))
    graph.host(once, name="once", y=y.write())
    graph.kernel(MIX, name="use", x=y, y=z, a=1)
    expected = np.full(64, 3) + 3 + np.arange(64)
    for device in ("cpu", platform.compute_devices[-1].name):
        calls.clear()
        plan = plan_on(graph, platform, device)
        for number in range(1, 4):
            with faults.inject(faults.fail_on_device(number)), execute(plan, graph, devices, recover=True) as run:
                np.testing.assert_array_equal(run.result("z", timeout=DEADLINE_S), expected)
                run.wait(DEADLINE_S)
            assert len(calls) == number


def test_cancelled_runs_are_not_recovered() -> None:
    platform, devices = live_on(None)
    graph = coupled_updates()
    with faults.inject(faults.hang("cpu", after=2), faults.fail_on_device(2)) as seen:
        run = execute(spread(graph, platform), graph, devices, recover=True)
        run.cancel()
        seen.release()
        with pytest.raises((RunCancelledError, TaskFailedError)):
            run.wait(DEADLINE_S)
        assert run.recoveries == ()
        run.close()


def test_the_number_of_recoveries_is_bounded() -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("for devices only")
    y = graph.array("y", data=np.ones(1, DTYPE))
    for index in range(8):
        graph.kernel(SPIN, name=f"mix{index}", y=y, turns=1)
    with (
        faults.inject(faults.fail_submission(5, times=10_000)) as seen,
        execute(plan_on(graph, platform, "cpu"), graph, devices, recover=True) as run,
    ):
        with pytest.raises(TaskFailedError):
            run.wait(DEADLINE_S)
        assert len(run.recoveries) <= recovery_planner.MOST_RECOVERIES
        assert seen.injected


# --- retries ----------------------------------------------------------------------------------------


def test_a_raising_function_is_retried_with_its_original_inputs() -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("retries")
    calls = []

    def flaky(y: Any) -> None:
        calls.append(1)
        y += 1
        if len(calls) < 3:
            raise OSError("half way")

    graph.host(flaky, name="flaky", y=graph.array("y", data=np.zeros(4, DTYPE)).update(), retries=2)
    plan = plan_on(graph, platform, "cpu")
    with execute(plan, graph, devices) as run:
        assert run.result("y", timeout=DEADLINE_S).tolist() == [1, 1, 1, 1]
        assert run.counts.retried == ["flaky", "flaky"]
    calls.clear()
    with (
        faults.inject(faults.fail_host_call(1, times=3)),
        execute(plan, graph, devices) as run,
        pytest.raises(TaskFailedError, match=r"task 'flaky'.*injected"),
    ):
        run.wait(DEADLINE_S)
    assert not calls


def test_a_task_with_a_failure_status_is_retried() -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("status")
    x = graph.array("x", data=np.full(3, -1, DTYPE))
    graph.kernel(JUDGE, name="judge", x=x, status=graph.array("status", (1,), "int32"), retries=2)
    y = graph.array("y", (3,), DTYPE)
    graph.kernel(ASSIGN, name="other", x=x, y=y)
    with execute(plan_on(graph, platform, "cpu"), graph, devices, recover=True) as run:
        with pytest.raises(TaskFailedError, match=r"task 'judge'.*x is negative"):
            run.wait(DEADLINE_S)
        assert [r.reason for r in run.recoveries] == ["status", "status"]
        assert run.result("y").tolist() == [-1, -1, -1]
        with pytest.raises(TaskFailedError):
            run.result("status")
