# SPDX-License-Identifier: Apache-2.0
"""Failures in bound plans with host tasks: dependent tasks are cancelled, others finish."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.hosted import LONG_S, RECOVERY_S, SIZE, Live, arrays_of, bound, chain, outcomes, plus_one
from support.opened import REFUSED, live_on, until
from support.running import MIX, SPIN, Gate, inputs_of, plan_on, sequential

from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import (
    DeadlineError,
    ExecutionError,
    RunCancelledError,
    TaskFailedError,
)
from syclsched.execution.core import stall_timeout
from syclsched.execution.handle.resources import unfinished
from syclsched.model.graph import TaskGraph
from syclsched.testing import faults

pytestmark = pytest.mark.sycl


def sequential_of(graph: TaskGraph, task: str, array: str) -> Any:
    """Return the result of one task alone on the graph's data."""
    alone = TaskGraph("alone")
    for name, value in graph.data.items():
        alone.array(name, data=value)
    made = graph.find_task(task)
    arguments = {parameter: alone.arrays[name] for parameter, name in made.arguments.items()}
    alone.kernel(made.operation, name=task, **arguments, a=1)  # type: ignore[arg-type]
    return sequential(alone, alone.data)[array]


def exploding(now: Callable[[], bool]) -> TaskGraph:
    graph = TaskGraph("explodes")
    x, y, bad, lost, good = arrays_of(graph, "x", "y", "bad", "lost", "good")

    def explode(y: Any) -> None:
        y[...] = 7
        if now():
            raise ZeroDivisionError("on purpose")

    graph.kernel(MIX, name="first", x=x, y=bad, a=1)
    graph.host(explode, name="explode", y=bad.update())
    graph.kernel(MIX, name="child", x=bad, y=lost, a=1)
    graph.host(lambda x, y: np.copyto(y, x), name="grandchild", x=lost.read(), y=y.write())
    graph.kernel(MIX, name="independent", x=x, y=good, a=1)
    graph.host(plus_one, name="too", y=good.update())
    graph.host(lambda x, y: np.copyto(y, x), name="healed", x=good.read(), y=bad.write())
    return graph


@pytest.mark.parametrize("recover", [False, True])
def test_a_raising_host_function_cancels_only_its_descendants(live: Live, recover: bool) -> None:
    platform, devices = live
    turn = [0]
    graph = exploding(lambda: turn[0] % 2 == 0)
    before = {name: value.copy() for name, value in graph.data.items()}
    good = sequential_of(graph, "independent", "good") + 1
    with bound(plan_on(graph, platform, "cpu"), graph, devices, recover=recover) as runner:
        for turn[0] in range(4):
            run = runner.run()
            if turn[0] % 2:
                run.wait()
                assert set(outcomes(run).values()) == {"done"}
                np.testing.assert_array_equal(run.result("y"), run.result("lost"))
                continue
            with pytest.raises(
                TaskFailedError, match=r"task 'explode' \(arrays 'bad'\).*ZeroDivisionError: on purpose"
            ):
                run.wait()
            assert outcomes(run) == {
                "first": "done", "explode": "failed", "child": "cancelled", "grandchild": "cancelled",
                "independent": "done", "too": "done", "healed": "done",
            }  # fmt: skip
            np.testing.assert_array_equal(run.result("good"), good)
            np.testing.assert_array_equal(run.result("bad"), good)
            for name in ("lost", "y"):
                with pytest.raises(TaskFailedError, match="on purpose"):
                    run.result(name)
    for name, value in before.items():
        np.testing.assert_array_equal(graph.data[name], value)


def test_the_order_through_a_function_that_is_left_out_is_kept(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("through")
    y, z, bad = arrays_of(graph, "y", "z", "bad")

    def explode(y: Any) -> None:
        raise ZeroDivisionError("on purpose")

    graph.host(explode, name="explode", y=bad.update())
    graph.kernel(SPIN, name="spin", y=y, turns=3_000_000)
    graph.host(lambda bad, y, z: None, name="through", bad=bad.read(), y=y.read(), z=z.write())
    graph.host(plus_one, name="after", y=y.update())  # waits for spin through the skipped task
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        run = runner.run()
        with pytest.raises(TaskFailedError, match="task 'explode'"):
            run.wait()
        spans = {s.task: s for s in run.trace().spans if s.kind in ("launch", "host")}
        assert {name: s.outcome for name, s in spans.items()} == {
            "explode": "failed", "spin": "done", "through": "cancelled", "after": "done",
        }  # fmt: skip
        assert spans["spin"].finish_s <= spans["after"].start_s


def test_a_host_function_is_retried_up_to_its_limit(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("retries")
    calls: list[int] = []

    def flaky(y: Any) -> None:
        calls.append(1)
        y += 1
        if len(calls) % 3:
            raise OSError("half way")

    x, y = arrays_of(graph, *"xy")
    graph.kernel(MIX, name="mix", x=x, y=y, a=0)
    graph.host(flaky, name="flaky", y=y.update(), retries=2)
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        for _ in range(2):
            run = runner.run()
            np.testing.assert_array_equal(run.result("y"), 4 * np.arange(SIZE) + 1)
            run.wait()
            assert run.counts.retried == ["flaky", "flaky"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_call_that_is_made_to_fail(live: Live, number: int) -> None:
    platform, devices = live
    graph = chain(8, {2, 4, 6})
    plan = plan_on(graph, platform, "cpu")
    steps = [i for _, i in plan.instructions() if i.kind == "host"]
    assert [i.task for i in steps] == ["t2", "t4", "t6"]
    with bound(plan, graph, devices) as runner:
        inputs = inputs_of(graph, 0)
        copies = sum(1 for lane in plan.lanes if lane.kind == "host" for i in lane.instructions if i.kind == "copy")
        with faults.inject(faults.fail_host_call(number)) as seen:
            run = runner.run(inputs)
            with pytest.raises(TaskFailedError, match="Injected"):
                run.wait()
            assert len(seen.injected) == 1
        assert copies or outcomes(run)[f"t{2 * number}"] == "failed"
        np.testing.assert_array_equal(runner(inputs)["y"], sequential(graph, inputs)["y"])


@given(data=st.data())
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_random_faults_change_no_bit(data: st.DataObject) -> None:
    platform, devices = live_on(None)
    hosts = data.draw(st.sets(st.integers(0, 11), max_size=6))
    graph = chain(12, hosts)
    inputs = inputs_of(graph, 0)
    plan = plan_on(graph, platform, "cpu")
    one = st.integers(1, 12)
    chosen = data.draw(
        st.sampled_from(
            [
                faults.fail_submission(data.draw(one)),
                faults.fail_on_device(data.draw(one), done=data.draw(st.booleans())),
            ]
        )
    )
    expected = sequential(graph, inputs)["y"]
    with bound(plan, graph, devices, recover=True) as runner:
        with faults.inject(chosen):
            run = runner.run(inputs)
            run.wait(RECOVERY_S)
            np.testing.assert_array_equal(run.result("y"), expected)
        np.testing.assert_array_equal(runner(inputs)["y"], expected)


def test_values_of_failed_tasks_are_not_passed_to_host_functions(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, devices = live
    graph = TaskGraph("spoilt")
    x, y, z = arrays_of(graph, *"xyz")
    seen: list[str] = []
    graph.kernel(MIX, name="bad", x=x, y=y, a=1)
    graph.host(lambda y: seen.append("look"), name="look", y=y.update())
    graph.host(lambda z: seen.append("other"), name="other", z=z.update())
    graph.kernel(MIX, name="after", x=y, y=x, a=1)
    plan = plan_on(graph, platform, "cpu")
    bad = next(i.id for _, i in plan.instructions() if i.task == "bad" and i.kind == "launch")
    monkeypatch.setattr(SubmissionLoop, "failed", lambda loop: {bad: -5})
    monkeypatch.setattr(SubmissionLoop, "any_failed", lambda loop, slots: bad in slots)
    with bound(plan, graph, devices) as runner:
        run = runner.run()
        with pytest.raises(TaskFailedError, match=r"task 'bad'.*status -5"):
            run.wait()
        assert outcomes(run) == {"bad": "failed", "look": "cancelled", "other": "done", "after": "cancelled"}
        assert seen == ["other"]


def test_a_refused_kernel_before_and_after_a_function(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("refused")
    x, y, z = arrays_of(graph, *"xyz")
    graph.kernel(MIX, name="first", x=x, y=y, a=1)
    graph.host(plus_one, name="step", y=y.update())
    graph.kernel(REFUSED, name="bad", x=y, y=z, a=1)
    graph.kernel(MIX, name="mine", x=x, y=y, a=1)
    graph.host(plus_one, name="child", y=z.update())
    graph.host(plus_one, name="other", y=y.update())
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        for _ in range(2):
            run = runner.run()
            with pytest.raises(TaskFailedError, match=r"task 'bad' .*could not be submitted"):
                run.wait()
            assert outcomes(run) == {
                "first": "done", "step": "done", "bad": "failed", "mine": "done", "child": "cancelled", "other": "done",
            }  # fmt: skip
            n = np.arange(SIZE)
            np.testing.assert_array_equal(run.result("y"), n + 3 * (n + 3 * n + n + 1) + n + 1)


def test_cancelled_while_a_function_runs(live: Live) -> None:
    platform, devices = live
    gate = Gate()
    graph = TaskGraph("cancelled")
    x, y = arrays_of(graph, *"xy")
    graph.host(gate, name="gate", y=y.update())
    graph.kernel(MIX, name="later", x=x, y=y, a=1)
    graph.host(plus_one, name="last", y=y.update())
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        run = runner.run()
        assert gate.entered.wait(LONG_S)
        run.cancel()
        gate.opened.set()
        with pytest.raises(RunCancelledError):
            run.wait()
        with pytest.raises(RunCancelledError):
            run.result("y")
        assert outcomes(run) == {"gate": "done", "later": "cancelled", "last": "cancelled"}
        np.testing.assert_array_equal(runner(None)["y"], sequential(chain_like(graph), graph.data)["y"])


def chain_like(graph: TaskGraph) -> TaskGraph:
    same = TaskGraph("same")
    x, y = (same.array(name, data=graph.data[name]) for name in "xy")
    same.host(plus_one, name="gate", y=y.update())
    same.kernel(MIX, name="later", x=x, y=y, a=1)
    same.host(plus_one, name="last", y=y.update())
    return same


def test_function_past_its_deadline_fails(live: Live, watchdog_time: Any) -> None:
    platform, devices = live
    gate = Gate()
    watchdog_time(lambda: gate.entered.is_set() and not gate.opened.is_set())
    graph = TaskGraph("late")
    x, y, z = arrays_of(graph, *"xyz")
    graph.host(gate, name="gate", y=y.update(), deadline_s=0.05)
    graph.kernel(MIX, name="child", x=y, y=x, a=1)
    graph.host(plus_one, name="other", y=z.update())
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        run = runner.run()
        assert gate.entered.wait(LONG_S)
        until(lambda: run._resources.engine._overdue)  # type: ignore[attr-defined]
        gate.opened.set()
        with pytest.raises(DeadlineError, match=r"task 'gate'.*its deadline is 0\.05 s"):
            run.wait()
        assert outcomes(run) == {"gate": "failed", "child": "cancelled", "other": "done"}
        runner.run().wait()


def test_a_function_that_hangs_is_given_up(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, devices = live
    monkeypatch.setattr(stall_timeout, "HANG_S", 0.3)
    gate = Gate()
    graph = TaskGraph("hangs")
    x, y = arrays_of(graph, *"xy")
    graph.host(gate, name="gate", y=y.update())
    graph.kernel(MIX, name="child", x=y, y=x, a=1)
    runner = bound(plan_on(graph, platform, "cpu"), graph, devices)
    run = runner.run()
    run.join()
    assert "no progress for" in str(run.hang_error)
    with pytest.raises(ExecutionError, match="given up"):
        runner.run()
    runner.close()
    gate.opened.set()
    run._resources.engine.join(LONG_S)
    assert run._resources.engine.finished.is_set()


def test_dropped_while_a_function_runs(live: Live) -> None:
    platform, devices = live
    gate = Gate()
    graph = TaskGraph("dropped")
    x, y = arrays_of(graph, *"xy")
    graph.host(gate, name="gate", y=y.update())
    graph.kernel(MIX, name="later", x=x, y=y, a=1)
    runner = bound(plan_on(graph, platform, "cpu"), graph, devices)
    run = runner.run()
    engine, ring = run._resources.engine, runner._bound.instances
    assert ring is not None
    assert gate.entered.wait(LONG_S)
    del run, runner
    gc.collect()
    gate.opened.set()
    engine.join(LONG_S)
    assert engine.finished.is_set()
    until(lambda: len(ring.generations[0]._buffers) == 0)
    assert not [r for r in unfinished if r.engine is engine]
