# SPDX-License-Identifier: Apache-2.0
"""Bound plans with tasks on the host: replayed with the bits of dispatched runs, and every way to go wrong."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opened import REFUSED, live_on, until
from running import ASSIGN, ASSIGN_KERNEL, DTYPE, MIX, SPIN, graphs, plan_by, plan_on, sequential

from syclsched.devices.submission_loop import SubmissionLoop
from syclsched.errors import (
    DeadlineError,
    ExecutionError,
    RunCancelledError,
    SyclschedError,
    TaskFailedError,
    WaitTimeoutError,
)
from syclsched.execution import Runner, bind, execute, patience
from syclsched.execution.resources import unfinished
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from syclsched.testing import faults

pytestmark = pytest.mark.sycl
Live = tuple[Platform, Any]
SIZE = 64
LONG_S, RECOVERY_S = 60.0, 240.0


class Gate:
    """A host function that says when it is called, and returns when it is let go."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, y: Any) -> None:
        self.entered.set()
        assert self.opened.wait(LONG_S)
        y += 1


def inputs_of(graph: TaskGraph, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-(2**40), 2**40, graph.arrays[name].shape) for name in graph.inputs()}


def arrays_of(graph: TaskGraph, *names: str) -> list[Any]:
    return [graph.array(name, data=np.arange(SIZE, dtype=DTYPE)) for name in names]


def plus_one(y: Any) -> None:
    y += 1


def chain(length: int, hosts: set[int]) -> TaskGraph:
    graph = TaskGraph("chain")
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    for n in range(length):
        if n in hosts:
            graph.host(plus_one, name=f"t{n}", y=y.update(), pure=True)
        else:
            graph.kernel(MIX, name=f"t{n}", x=x, y=y, a=n)
    return graph


def bound(plan: Plan, graph: TaskGraph, devices: Any, **options: Any) -> Runner:
    runner = bind(plan, graph, devices, **options)
    assert runner.replayed, runner.why_not_replayed
    return runner


def two_lanes(graph: TaskGraph, platform: Platform, second: str) -> Plan:
    """Kernels on the CPU device, those whose names begin so on its second lane; functions on the host."""

    def place(name: str) -> tuple[str, int, str | None]:
        first = graph.task(name).operation.implementations[0]  # type: ignore[union-attr]
        return ("host", 0, first.name) if first.kind == "host" else ("cpu", int(name.startswith(second)), first.name)

    return plan_by(graph, platform, place)


def outcomes(run: Any) -> dict[str, str]:
    return {s.task: s.outcome for s in run.trace().spans if s.kind in ("launch", "host")}


# --- the same bits ----------------------------------------------------------------------------------


@given(data=st.data(), in_flight=st.sampled_from([None, 1, 2, 4]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize(("sub_devices", "device"), [(None, "cpu"), (2, "cpu"), (None, "accelerator"), (None, "")])
def test_random_graphs_give_the_bits_of_dispatched_runs(
    sub_devices: int | None, device: str, data: st.DataObject, in_flight: int | None
) -> None:
    platform, devices = live_on(sub_devices)
    graph = data.draw(graphs(ranges=data.draw(st.booleans())))

    def place(name: str) -> tuple[str, int, str | None]:
        operation = graph.task(name).operation
        fitting = [d for d in platform.devices if d.is_host or (operation is not ASSIGN and d.name.startswith(device))]
        chosen = data.draw(st.sampled_from(fitting))
        lane = data.draw(st.integers(0, chosen.lanes - 1))
        if operation is None:
            return chosen.name, lane, None
        return (
            chosen.name,
            lane,
            next(i.name for i in operation.implementations if (i.kind == "host") == chosen.is_host),
        )

    plan = plan_by(graph, platform, place)
    inputs = [inputs_of(graph, seed) for seed in range(3)]
    expected = [sequential(graph, each) for each in inputs]
    with execute(plan, graph, devices, inputs[0]) as run, bound(plan, graph, devices) as runner:
        run.wait()
        names = runner._prepared.results
        dispatched = {name: run.result(name) for name in names}
        for turn in (0, 1, 0):
            untouched = {name: value.copy() for name, value in inputs[turn].items()}
            replayed = runner.run(inputs[turn])
            replayed.wait()
            for name in names:
                np.testing.assert_array_equal(replayed.result(name), expected[turn][name], err_msg=name)
            trace = replayed.trace()
            assert {s.task for s in trace.spans if s.kind != "copy"} == {t.name for t in graph.tasks}
            assert all(s.outcome == "done" and s.start_s <= s.finish_s <= trace.makespan_s for s in trace.spans)
            for name, value in untouched.items():
                np.testing.assert_array_equal(inputs[turn][name], value, err_msg=f"input {name} was written to")
        for name, value in dispatched.items():
            np.testing.assert_array_equal(value, expected[0][name], err_msg=name)
        for found, wanted in zip(runner.stream(inputs, in_flight=in_flight), expected, strict=True):
            assert isinstance(found, dict)
            for name, value in found.items():
                np.testing.assert_array_equal(value, wanted[name], err_msg=name)


def test_two_contexts_that_meet_on_the_host_are_replayed(live: Live) -> None:
    platform, devices = live
    others = [d.name for d in platform.compute_devices if d.name != "cpu"]
    if not others:
        pytest.skip("there is one device only")
    graph = TaskGraph("meet")
    x, y, z = arrays_of(graph, *"xyz")
    graph.kernel(MIX, name="here", x=x, y=y, a=2)
    graph.host(lambda y, z: np.copyto(z, y), name="over", y=y.read(), z=z.write())
    graph.kernel(MIX, name="there", x=x, y=z, a=3)
    where = {"here": "cpu", "over": "host", "there": others[0]}
    plan = plan_by(
        graph,
        platform,
        lambda n: (where[n], 0, "opencl-c" if n != "over" else graph.task(n).operation.implementations[0].name),
    )
    with bound(plan, graph, devices) as runner:
        for _ in range(3):
            np.testing.assert_array_equal(runner()["z"], sequential(graph, graph.data)["z"])


# --- what goes on meanwhile ---------------------------------------------------------------------------


def test_a_device_goes_on_while_a_function_runs(live: Live) -> None:
    platform, devices = live
    gate = Gate()
    graph = TaskGraph("beside")
    x, y, z = arrays_of(graph, *"xyz")
    graph.host(gate, name="gate", y=y.update())
    graph.kernel(ASSIGN_KERNEL, name="beside", x=x, y=z)
    graph.kernel(MIX, name="behind", x=x, y=y, a=1)
    with bound(two_lanes(graph, platform, "beside"), graph, devices) as runner, runner.run() as run:
        assert gate.entered.wait(LONG_S)
        np.testing.assert_array_equal(run.result("z", timeout=LONG_S), graph.data["x"])
        with pytest.raises(WaitTimeoutError, match="lane host:0 is at task 'gate'"):
            run.result("y", timeout=0.01)
        gate.opened.set()
        run.wait()
        assert outcomes(run) == dict.fromkeys(("gate", "behind", "beside"), "done")


def test_a_function_does_not_wait_for_what_it_does_not_need(live: Live) -> None:
    platform, devices = live
    called = threading.Event()
    graph = TaskGraph("hangs beside")
    x, y, z = arrays_of(graph, *"xyz")
    graph.kernel(ASSIGN_KERNEL, name="first", x=x, y=y)
    graph.kernel(ASSIGN_KERNEL, name="second", x=x, y=z)  # hangs
    graph.host(lambda y: called.set(), name="step", y=y.update())
    plan = plan_on(graph, platform, "cpu")
    before = [i.task for _, i in plan.instructions() if i.kind in ("copy", "launch")].index("second")
    with bound(plan, graph, devices) as runner, faults.inject(faults.hang("cpu", after=before)) as injection:
        run = runner.run()
        assert called.wait(LONG_S)
        assert not run.done()
        injection.release()
        run.wait()
        assert outcomes(run) == dict.fromkeys(("first", "second", "step"), "done")


def test_no_thread_is_started_for_a_run(live: Live) -> None:
    platform, devices = live
    graph = chain(9, {2, 5, 8})
    with bound(plan_on(graph, platform, "cpu"), graph, devices, trace=False) as runner:
        runner(inputs_of(graph, 0))
        before = {t.ident for t in threading.enumerate()}
        for seed in range(20):
            runner(inputs_of(graph, seed))
        assert {t.ident for t in threading.enumerate()} <= before


def test_a_plan_of_the_host_alone(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("host alone")
    y = graph.array("y", (SIZE,), DTYPE)
    graph.host(plus_one, name="a", y=y.update())
    graph.host(plus_one, name="b", y=y.update())
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        for seed in range(3):
            inputs = inputs_of(graph, seed)
            run = runner.run(inputs)
            np.testing.assert_array_equal(run.result("y"), inputs["y"] + 2)
            run.wait()
            assert outcomes(run) == {"a": "done", "b": "done"}


def test_a_coroutine_awaits_it(live: Live) -> None:
    platform, devices = live
    graph = chain(5, {1, 3})

    async def several(runner: Runner) -> None:
        for seed in range(3):
            inputs = inputs_of(graph, seed)
            run = await runner.run_async(inputs)
            np.testing.assert_array_equal(run.result("y"), sequential(graph, inputs)["y"])

    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        asyncio.run(several(runner))


def sequential_of(graph: TaskGraph, task: str, array: str) -> Any:
    """What one task alone makes of the graph's data."""
    alone = TaskGraph("alone")
    for name, value in graph.data.items():
        alone.array(name, data=value)
    made = graph.task(task)
    arguments = {parameter: alone.arrays[name] for parameter, name in made.arguments.items()}
    alone.kernel(made.operation, name=task, **arguments, a=1)  # type: ignore[arg-type]
    return sequential(alone, alone.data)[array]


# --- when something goes wrong ------------------------------------------------------------------------


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
def test_a_function_that_raises_takes_its_descendants_along_and_nothing_else(live: Live, recover: bool) -> None:
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
    graph.host(plus_one, name="after", y=y.update())  # waits for spin through the one that is left out
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        run = runner.run()
        with pytest.raises(TaskFailedError, match="task 'explode'"):
            run.wait()
        spans = {s.task: s for s in run.trace().spans if s.kind in ("launch", "host")}
        assert {name: s.outcome for name, s in spans.items()} == {
            "explode": "failed", "spin": "done", "through": "cancelled", "after": "done",
        }  # fmt: skip
        assert spans["spin"].finish_s <= spans["after"].start_s


def test_a_function_is_called_again_as_often_as_it_may_be(live: Live) -> None:
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
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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


def test_what_failed_on_its_device_is_not_passed_to_a_function(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_function_past_its_deadline_fails_and_the_next_run_is_fine(live: Live) -> None:
    platform, devices = live
    gate = Gate()
    graph = TaskGraph("late")
    x, y, z = arrays_of(graph, *"xyz")
    graph.host(gate, name="gate", y=y.update(), deadline_s=0.05)
    graph.kernel(MIX, name="child", x=y, y=x, a=1)
    graph.host(plus_one, name="other", y=z.update())
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        run = runner.run()
        assert gate.entered.wait(LONG_S)
        until(lambda: run._dispatcher._overdue)  # type: ignore[attr-defined]
        gate.opened.set()
        with pytest.raises(DeadlineError, match=r"task 'gate'.*its deadline is 0\.05 s"):
            run.wait()
        assert outcomes(run) == {"gate": "failed", "child": "cancelled", "other": "done"}
        runner.run().wait()


def test_a_function_that_hangs_is_given_up(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, devices = live
    monkeypatch.setattr(patience, "HANG_S", 0.3)
    gate = Gate()
    graph = TaskGraph("hangs")
    x, y = arrays_of(graph, *"xy")
    graph.host(gate, name="gate", y=y.update())
    graph.kernel(MIX, name="child", x=y, y=x, a=1)
    runner = bound(plan_on(graph, platform, "cpu"), graph, devices)
    run = runner.run()
    run.join()
    assert "nothing has gone on in it for" in str(run.left_behind)
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
    engine, ring = run._resources.engine, runner._ring
    assert ring is not None
    assert gate.entered.wait(LONG_S)
    del run, runner
    gc.collect()
    gate.opened.set()
    engine.join(LONG_S)
    assert engine.finished.is_set()
    until(lambda: len(ring.generations[0]._buffers) == 0)
    assert not [r for r in unfinished if r.engine is engine]


# --- streams ------------------------------------------------------------------------------------------


def test_functions_of_generations_are_called_in_order_and_overlap_with_devices(live: Live) -> None:
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
        assert runner._ring is not None and runner._ring.idle


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


def test_what_is_copied_out_for_a_function_lets_the_next_input_go_first(live: Live) -> None:
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
