# SPDX-License-Identifier: Apache-2.0
"""Bound plans: equal bits in repeated runs with new data, replayed or dispatched, and no leaks."""

from __future__ import annotations

import gc
import re
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.opened import REFUSED, check_refused, is_usm, live_on, refused_graph
from support.running import (
    ASSIGN,
    DTYPE,
    JUDGE,
    MIX,
    SPIN,
    chain,
    check_spans,
    graphs,
    inputs_of,
    plan_by,
    plan_on,
    plans,
    sequential,
)

from syclsched.devices import open_devices
from syclsched.devices.memory import usm_memory
from syclsched.devices.submission import command_list
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import (
    ArgumentError,
    ExecutionError,
    RaceError,
    RunCancelledError,
    TaskFailedError,
    WaitTimeoutError,
)
from syclsched.execution import bind
from syclsched.execution.handle.resources import unfinished
from syclsched.execution.replay.replay import Replay
from syclsched.execution.runner import plan_binding
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Work
from syclsched.model.platform import Platform
from syclsched.oneapi.dpctl_interface import usm_arrays

pytestmark = pytest.mark.sycl


@pytest.mark.gpu_shape
@given(data=st.data())
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("sub_devices", [None, 2])
def test_random_graphs_have_the_bits_of_numpy_in_every_run(sub_devices: int | None, data: st.DataObject) -> None:
    platform, devices = live_on(sub_devices)
    graph = data.draw(graphs())
    plan = data.draw(plans(graph, platform))
    given_twice = inputs_of(graph, 0)
    with bind(plan, graph, devices) as runner:
        for inputs in (given_twice, inputs_of(graph, 1), given_twice):
            untouched = {name: value.copy() for name, value in inputs.items()}
            expected = sequential(graph, inputs)
            with runner.run(inputs) as run:
                run.wait()
                for array in plan.arrays:
                    if not array.temporary and array.rows is None:
                        np.testing.assert_array_equal(run.result(array.name), expected[array.name], err_msg=array.name)
                trace = run.trace()
            for name, value in untouched.items():
                np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")
            check_spans(trace, graph)


@given(data=st.data())
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("device", ["cpu", OTHER_DEVICE])
def test_kernels_on_two_lanes_are_replayed(device: str, data: st.DataObject) -> None:
    platform, devices = live_on(None)
    graph = data.draw(graphs(max_tasks=40))
    tasks = {t.name: t for t in graph.tasks}
    assert all(t.operation in (None, MIX, ASSIGN) for t in tasks.values())

    def place(name: str) -> tuple[str, int, str | None]:
        operation = tasks[name].operation
        return device, data.draw(st.integers(0, 1)), None if operation is None else operation.implementations[0].name

    plan = plan_by(graph, platform, place)
    with bind(plan, graph, devices) as runner:
        library = any(t.operation is ASSIGN and 0 not in t.signature.shapes["y"] for t in tasks.values())
        assert runner.replayed != library, runner.why_not_replayed
        for seed in range(3):
            inputs = inputs_of(graph, seed)
            expected = sequential(graph, inputs)
            found = runner(inputs)
            assert set(found) <= set(expected)
            for name, value in found.items():
                np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_a_plan_without_replay_reports_the_reason_and_runs(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(2)
    graph.kernel(ASSIGN, name="by a library", x=graph.arrays["y"], y=graph.array("z", (100,), DTYPE))
    inputs = inputs_of(graph, 3)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        assert not runner.replayed and not runner.lacks_memory
        assert "'by a library' is submitted by a library that has no native call" in str(runner.why_not_replayed)
        assert "dispatched" in repr(runner)
        expected = sequential(graph, inputs)["z"]
        for _ in range(2):
            np.testing.assert_array_equal(runner(inputs, ["z"])["z"], expected)


def test_a_tampered_plan_is_refused_when_it_is_bound(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(2)
    plan = plan_by(graph, platform, lambda name: ("cpu", int(name[-1]), "opencl-c"))
    lanes = tuple(
        replace(lane, instructions=tuple(replace(i, waits=()) if i.kind == "launch" else i for i in lane.instructions))
        for lane in plan.lanes
    )
    with pytest.raises(RaceError):
        bind(replace(plan, lanes=lanes), graph, devices)


def test_results_are_readable_until_the_next_run(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(1)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        first = runner.run(inputs_of(graph, 0))
        value = first.result("y")
        second = runner.run(inputs_of(graph, 1))
        with pytest.raises(ExecutionError, match="closed"):
            first.result("y")
        assert not np.array_equal(second.result("y"), value)
    with pytest.raises(ExecutionError, match="closed"):
        second.result("y")
    with pytest.raises(ExecutionError, match="the runner is closed"):
        runner.run(inputs_of(graph, 0))
    runner.close()


def test_bad_inputs_leave_the_runner_unchanged(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(1)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        inputs = inputs_of(graph, 0)
        before = runner(inputs)["y"]
        with pytest.raises(ArgumentError):
            runner.run({**inputs, "x": np.zeros(7, DTYPE)})
        with pytest.raises(ArgumentError):
            runner.run({"x": inputs["x"]})
        np.testing.assert_array_equal(runner(inputs)["y"], before)


def test_a_failed_status_names_its_task_and_the_next_run_is_fine(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("judged")
    x, status = graph.array("x", (4,), "int64"), graph.array("status", (1,), "int32")
    graph.kernel(JUDGE, name="bad", x=x, status=status)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        assert runner.replayed, runner.why_not_replayed
        run = runner.run({"x": np.full(4, -1)})
        with pytest.raises(TaskFailedError, match=r"task 'bad'.*x is negative"):
            run.wait()
        assert [s.outcome for s in run.trace().spans if s.kind == "launch"] == ["failed"]
        runner.run({"x": np.full(4, 1)}).wait()


def test_refused_kernel_names_its_task(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = refused_graph()
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        assert runner.replayed, runner.why_not_replayed
        for _ in range(2):
            run = runner.run()
            check_refused(run)
            with pytest.raises(TaskFailedError):
                run.result("y_child")


def test_descendants_of_a_failed_task_are_cancelled(
    live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, devices = live
    graph = chain(4)
    plan = plan_on(graph, platform, "cpu")
    second = next(i.id for _, i in plan.instructions() if i.task == "mix1")
    monkeypatch.setattr(SubmissionLoop, "failed", lambda loop: {second: -5})
    with bind(plan, graph, devices) as runner:
        run = runner.run(inputs_of(graph, 0))
        with pytest.raises(TaskFailedError, match=r"task 'mix1'.*status -5"):
            run.wait()
        outcome = {s.task: s.outcome for s in run.trace().spans if s.kind == "launch"}
        assert outcome == {"mix0": "done", "mix1": "failed", "mix2": "cancelled", "mix3": "cancelled"}


def test_the_run_after_a_cancelled_run_completes(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("long")
    y = graph.array("y", data=np.zeros(1, DTYPE))
    for i in range(400):
        graph.kernel(SPIN, name=f"spin{i}", y=y, turns=20_000)
    running: list[Replay] = []
    start, submit = Replay.start, SubmissionLoop.submit_listed

    def remembered(replay: Replay) -> None:
        running.append(replay)
        start(replay)

    def cancelled_after_some(loop: SubmissionLoop, *arguments: Any) -> Any:
        if arguments[3] >= 48:  # the number of the first submission
            running[0].cancel()
        return submit(loop, *arguments)

    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        assert runner.replayed, runner.why_not_replayed
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(command_list, "COMMANDS_PER_CALL", 16)
            patch.setattr(Replay, "start", remembered)
            patch.setattr(SubmissionLoop, "submit_listed", cancelled_after_some)
            run = runner.run()
            with pytest.raises(RunCancelledError):
                run.wait()
            outcomes = [s.outcome for s in run.trace().spans]
            assert outcomes.count("done") == 48
            assert outcomes.count("cancelled") == len(graph) + 1 - 48
            with pytest.raises(RunCancelledError):
                run.result("y")
        np.testing.assert_array_equal(runner(None, ["y"])["y"], runner(None, ["y"])["y"])


def test_a_wait_timeout_names_the_current_tasks(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("long")
    y, z = graph.array("y", data=np.zeros(1, DTYPE)), graph.array("z", data=np.zeros(1, DTYPE))
    graph.kernel(SPIN, name="spin", y=y, turns=50_000_000)
    graph.kernel(MIX, name="after", x=y, y=z, a=1)
    plan = plan_by(graph, platform, lambda name: ("cpu", int(name == "after"), "opencl-c"))
    with bind(plan, graph, devices) as runner, runner.run() as run:
        with pytest.raises(WaitTimeoutError) as error:
            run.wait(timeout=0.001)
        run.wait()
    assert "lane cpu:0 is at task 'spin'" in str(error.value)
    waits = r"(task 'after'|a copy of 'y') .*, which waits for task 'spin' on cpu:0"
    assert re.search(rf"lane cpu:1 is at ({waits}|a copy of 'z')", str(error.value))


def test_an_interrupted_start_leaves_the_runner_good(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(40)
    inputs = inputs_of(graph, 0)
    submit = SubmissionLoop.submit_listed

    def interrupted(loop: SubmissionLoop, *arguments: Any) -> Any:
        if arguments[3] >= 16:
            raise KeyboardInterrupt
        return submit(loop, *arguments)

    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(command_list, "COMMANDS_PER_CALL", 8)
            patch.setattr(SubmissionLoop, "submit_listed", interrupted)
            with pytest.raises(KeyboardInterrupt):
                runner.run(inputs)
        for seed in range(3):
            found = runner(inputs_of(graph, seed))["y"]
            np.testing.assert_array_equal(found, sequential(graph, inputs_of(graph, seed))["y"])


def test_results_do_not_share_memory_with_the_runner(live: tuple[Platform, Any]) -> None:
    tensor = usm_arrays()

    platform, devices = live
    graph = chain(2)
    first, second = inputs_of(graph, 0), inputs_of(graph, 1)
    expected = sequential(graph, first)["y"]
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        for _ in range(200):  # a copy without a wait would be wrong sometimes
            run = runner.run(first)
            run.wait()
            shared = run.result("y", like="usm_ndarray")
            runner(second)
            np.testing.assert_array_equal(tensor.asnumpy(shared), expected)


def test_a_run_keeps_its_runner(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(2)
    run = bind(plan_on(graph, platform, "cpu"), graph, devices).run(inputs_of(graph, 0))
    gc.collect()
    np.testing.assert_array_equal(run.result("y"), sequential(graph, inputs_of(graph, 0))["y"])
    run.wait()
    run.close()


SET_SOURCE = """__kernel void set(__global const long *x, __global long *y) {
    y[get_global_id(0)] = x[get_global_id(0)];
}"""
SET = Operation(
    "set",
    (Parameter("x", AccessMode.READ), Parameter("y", AccessMode.WRITE, like="x")),
    (
        Implementation(
            "opencl-c", "opencl-c", lambda _: OpenCLSource(SET_SOURCE, "set"), launch=lambda s, d: Launch((100,))
        ),
    ),
    lambda signature: Work(flops=0.0, bytes=0.0),
)


def test_a_buffer_rewritten_after_a_refusal_is_valid(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("overwritten")
    x, y = graph.array("x", data=np.arange(100)), graph.array("y", data=np.zeros(100, DTYPE))
    z = graph.array("z", data=np.zeros(100, DTYPE))
    graph.kernel(REFUSED, name="bad", x=x, y=y, a=1)
    graph.kernel(SET, name="again", x=x, y=y)
    graph.kernel(MIX, name="reader", x=y, y=z, a=1)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        assert runner.replayed, runner.why_not_replayed
        run = runner.run()
        with pytest.raises(TaskFailedError, match="task 'bad'"):
            run.wait()
        outcome = {s.task: s.outcome for s in run.trace().spans if s.kind == "launch"}
        assert outcome == {"bad": "failed", "again": "done", "reader": "done"}
        np.testing.assert_array_equal(run.result("y"), np.arange(100))


def test_the_order_through_a_refused_kernel_is_kept(
    live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, devices = live
    graph = TaskGraph("through")
    x, y, z = (graph.array(name, data=np.arange(100, dtype=DTYPE)) for name in "xyz")
    graph.kernel(SPIN, name="spin", y=y, turns=3_000_000)
    graph.kernel(REFUSED, name="bad", x=y, y=z, a=1)
    graph.kernel(SET, name="again", x=x, y=y)  # waits for spin through bad
    plan = plan_by(graph, platform, lambda name: ("cpu", int(name == "spin"), "opencl-c"))
    numbers = {i.task: i.id for _, i in plan.instructions() if i.kind == "launch"}
    fence, stood_in = SubmissionLoop.fence, []

    def noted(loop: SubmissionLoop, slot: int, lane: int, waits: Any) -> Any:
        if slot == numbers["bad"]:
            stood_in.append(numbers["spin"] in waits)
        return fence(loop, slot, lane, waits)

    monkeypatch.setattr(SubmissionLoop, "fence", noted)
    with bind(plan, graph, devices) as runner:
        run = runner.run()
        with pytest.raises(TaskFailedError, match="task 'bad'"):
            run.wait()
        assert stood_in == [True]
        spans = {s.task: s for s in run.trace().spans if s.kind == "launch"}
        assert spans["spin"].finish_s <= spans["again"].start_s
        np.testing.assert_array_equal(run.result("y"), np.arange(100))


def test_a_closed_runner_leaves_no_references(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = chain(2)
    runner = bind(plan_on(graph, platform, "cpu"), graph, devices)
    runner(inputs_of(graph, 0))
    tables = weakref.ref(runner._bound.instances.generations[0]._buffers)  # type: ignore[union-attr]
    runner.close()
    assert len(tables()) == 0  # type: ignore[arg-type]
    del runner
    gc.collect()
    assert tables() is None
    assert not [r for r in unfinished if not r.engine.cancelled]


def test_a_plan_that_cannot_be_replayed_is_dispatched(
    live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, devices = live
    monkeypatch.setattr(plan_binding, "why_dispatcher_needed", lambda *_: "the test says so")
    graph = chain(2)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        assert not runner.replayed
        inputs = inputs_of(graph, 0)
        np.testing.assert_array_equal(runner(inputs)["y"], sequential(graph, inputs)["y"])


def test_close_frees_memory_of_a_referenced_runner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    platform, _ = live_on(None)
    graph = chain(3)
    allocated: list[tuple[int, Any]] = []
    allocate = usm_memory.allocate

    def noting(queue: Any, nbytes: int, kind: Any) -> Any:
        made = allocate(queue, nbytes, kind)
        allocated.append((int(made._pointer), queue))
        return made

    monkeypatch.setattr(usm_memory, "allocate", noting)
    with open_devices(platform) as own, bind(plan_on(graph, platform, "cpu"), graph, own) as runner:
        runner(inputs_of(graph, 0))
        assert allocated
        assert all(is_usm(pointer, queue) for pointer, queue in allocated)
    assert not any(is_usm(pointer, queue) for pointer, queue in allocated)
    assert runner is not None
