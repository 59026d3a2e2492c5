# SPDX-License-Identifier: Apache-2.0
"""Failures in runs of plans on live devices: dependent tasks are cancelled, others finish."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.running import (
    ASSIGN,
    ASSIGN_KERNEL,
    DTYPE,
    JUDGE,
    MIX,
    SPIN,
    Gate,
    given_chain,
    plan_by,
    plan_on,
    sequential,
)

from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import (
    ExecutionError,
    RunCancelledError,
    TaskFailedError,
)
from syclsched.execution import execute
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("nothing_is_left_running")]


def failing_graph() -> TaskGraph:
    graph = given_chain(2)
    bad = graph.array("bad", data=np.zeros(100, DTYPE))
    good = graph.array("good", data=np.zeros(100, DTYPE))

    def explode(y: Any) -> None:
        raise ZeroDivisionError("on purpose")

    graph.host(explode, y=bad.update(), name="explode")
    graph.kernel(MIX, name="child", x=bad, y=graph.array("lost", data=np.zeros(100, DTYPE)), a=1)
    graph.kernel(MIX, name="grandchild", x=graph.arrays["lost"], y=graph.arrays["y"], a=1)
    graph.kernel(MIX, name="independent", x=graph.arrays["x"], y=good, a=1)
    graph.kernel(ASSIGN, name="healed", x=good, y=bad)
    return graph


def test_failed_host_task_cancels_its_descendants_only(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = failing_graph()
    run = execute(plan_on(graph, platform, "cpu"), graph, devices)
    with pytest.raises(TaskFailedError, match=r"task 'explode' \(arrays 'bad'\).*ZeroDivisionError: on purpose") as e:
        run.wait()
    assert e.value.task == "explode"
    assert isinstance(e.value.__cause__, ZeroDivisionError)
    outcome = {s.task: s.outcome for s in run.trace().spans if s.kind in ("launch", "host")}
    assert outcome == {
        "mix0": "done", "mix1": "done", "explode": "failed", "child": "cancelled",
        "grandchild": "cancelled", "independent": "done", "healed": "done",
    }  # fmt: skip
    good = np.arange(100) + np.arange(100)
    np.testing.assert_array_equal(run.result("good"), good)
    np.testing.assert_array_equal(run.result("bad"), good)
    for name in ("lost", "y"):
        with pytest.raises(TaskFailedError, match="on purpose"):
            run.result(name)
    run.close()


def test_descendants_of_a_failed_task_are_cancelled(
    live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, devices = live
    graph = given_chain(6)
    plan = plan_on(graph, platform, "cpu")
    third = next(i.id for _, i in plan.instructions() if i.task == graph.tasks[2].name)
    monkeypatch.setattr(SubmissionLoop, "failed", lambda loop: {third: -5})
    run = execute(plan, graph, devices)
    with pytest.raises(TaskFailedError, match=rf"task '{graph.tasks[2].name}'.*failed on its device.*status -5"):
        run.wait()
    outcome = {s.task: s.outcome for s in run.trace().spans if s.kind == "launch"}
    assert [outcome[t.name] for t in graph.tasks] == ["done", "done", "failed", "cancelled", "cancelled", "cancelled"]
    run.close()


def test_queued_host_tasks_are_cancelled_after_a_failure(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("ahead")
    gate, ran = Gate(), []
    x, z = (graph.array(name, data=np.zeros(100, DTYPE)) for name in "xz")

    def explode(x: Any) -> None:
        gate(x)
        raise ZeroDivisionError("on purpose")

    graph.host(explode, x=x.update(), name="explode")
    graph.host(lambda x: ran.append("child"), x=x.update(), name="child")  # all on one lane, in this order
    graph.host(lambda z: ran.append("other"), z=z.update(), name="other")
    graph.host(lambda x, z: ran.append("grandchild"), x=x.read(), z=z.update(), name="grandchild")
    run = execute(plan_on(graph, platform, "host"), graph, devices)
    assert gate.entered.wait(60)
    gate.opened.set()
    with pytest.raises(TaskFailedError, match="task 'explode'"):
        run.wait(60)
    assert ran == ["other"]
    outcome = {s.task: s.outcome for s in run.trace().spans}
    assert outcome == {"explode": "failed", "child": "cancelled", "other": "done", "grandchild": "cancelled"}
    run.close()


def test_failed_status_names_the_task(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("status")
    for name, value in (("fine", 1), ("bad", -1)):
        x = graph.array(f"x_{name}", data=np.full(3, value, DTYPE))
        graph.kernel(JUDGE, name=name, x=x, status=graph.array(f"status_{name}", (1,), "int32", temporary=True))
    run = execute(plan_on(graph, platform, "cpu"), graph, devices)
    with pytest.raises(TaskFailedError, match=r"task 'bad'.*x is negative \(status 7\)"):
        run.wait()
    assert [s.outcome for s in run.trace().spans if s.kind == "launch"] == ["done", "failed"]
    run.close()


def test_results_that_depend_on_a_failed_status_raise_its_error(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("status")
    x = graph.array("x", data=np.full(3, -1, DTYPE))
    status = graph.array("status", (1,), "int32")
    graph.kernel(JUDGE, name="judge", x=x, status=status)
    copy = graph.array("copy", (1,), "int32")
    graph.kernel(ASSIGN, name="copy", x=status, y=copy)
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        with pytest.raises(TaskFailedError, match="task 'judge'"):
            run.result("copy")
        assert run.result("x").tolist() == [-1, -1, -1]


def test_input_cannot_be_written_by_a_host_task_that_reads_it(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("writes its input")
    data = np.zeros(4, DTYPE)

    def naughty(x: Any) -> None:
        x[0] = 1

    graph.host(naughty, x=graph.array("x", data=data).read(), name="naughty")
    run = execute(plan_on(graph, platform, "cpu"), graph, devices)
    with pytest.raises(TaskFailedError, match="read-only"):
        run.wait()
    run.close()
    assert data.tolist() == [0, 0, 0, 0]


def test_cancel(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    gate = Gate()
    graph = given_chain(2)
    z = graph.array("z", data=np.zeros(100, DTYPE))
    graph.host(gate, y=z.update(), name="gate")
    graph.kernel(MIX, name="later", x=z, y=graph.arrays["x"], a=1)
    run = execute(plan_on(graph, platform, "cpu"), graph, devices)
    assert gate.entered.wait(60)
    run.cancel()
    gate.opened.set()
    with pytest.raises(RunCancelledError):
        run.wait(60)
    with pytest.raises(RunCancelledError):
        run.result("x")
    np.testing.assert_array_equal(run.result("y"), sequential(given_chain(2), graph.data)["y"])
    assert {s.task: s.outcome for s in run.trace().spans if s.kind == "launch"}["later"] == "cancelled"
    run.close()


def test_an_interrupted_wait_ends_the_run_and_frees_memory(
    live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, devices = live
    graph = TaskGraph("long")
    y = graph.array("y", data=np.ones(1, DTYPE))
    for i in range(50):
        graph.kernel(SPIN, name=f"spin{i}", y=y, turns=100_000)
    run = execute(plan_on(graph, platform, "cpu"), graph, devices)
    finished = run._resources.engine.finished

    def interrupted(timeout: float | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_wait_finished", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.wait()
    assert finished.is_set()
    assert len(run._resources.engine.buffers) == 0


def test_exception_in_the_block_cancels_the_run(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    gate = Gate()
    graph = TaskGraph("left early")
    graph.host(gate, y=graph.array("y", data=np.zeros(1, DTYPE)).update(), name="gate")

    def leave() -> None:
        with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
            assert gate.entered.wait(60)
            run.cancel()
            gate.opened.set()
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        leave()


def test_compile_error_reaches_the_caller(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = given_chain(1)
    broken = replace(MIX.implementations[0], load=lambda _: "not a kernel")
    operation = replace(MIX, implementations=(broken,))
    graph.kernel(operation, name="broken", x=graph.arrays["x"], y=graph.arrays["y"], a=1)
    run = execute(plan_on(graph, platform, "cpu"), graph, devices)
    with pytest.raises(ExecutionError, match=r"operation 'mix'.*load\(\) returned str"):
        run.wait(60)
    with pytest.raises(ExecutionError, match="returned str"):
        run.result("y")
    run.close()


def test_crash_of_the_dispatcher_reaches_the_caller(
    live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, devices = live
    from syclsched.execution.dispatch.dispatcher import Dispatcher

    def crash(self: Any, node: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Dispatcher, "_dispatch", crash)
    graph = given_chain(1)
    run = execute(plan_on(graph, platform, "cpu"), graph, devices)
    with pytest.raises(ExecutionError, match="the dispatcher failed: RuntimeError: a bug"):
        run.result("y", timeout=60)
    run.close()


def test_order_through_a_skipped_host_task_is_kept(
    live: tuple[Platform, Any],
) -> None:
    platform, devices = live
    graph = TaskGraph("order through the host")
    x, y, z = (graph.array(name, data=np.arange(8, dtype=DTYPE)) for name in "xyz")

    def fail(z: Any) -> None:
        raise ValueError("no")

    graph.host(fail, name="fails", z=z.update())
    graph.kernel(SPIN, name="slow", y=y, turns=20_000_000)
    graph.host(lambda y, z: None, name="left out", y=y.read(), z=z.read())
    graph.kernel(ASSIGN_KERNEL, name="after", x=x, y=y)
    lane = {"slow": 0, "after": 1}
    plan = plan_by(
        graph,
        platform,
        lambda name: ("cpu", lane[name], "opencl-c") if name in lane else ("host", 0, host_function(graph, name)),
    )
    by_task = {i.task: i for _, i in plan.instructions() if i.kind in ("launch", "host")}
    assert by_task["left out"].id in by_task["after"].waits and by_task["slow"].id not in by_task["after"].waits
    with execute(plan, graph, devices) as run:
        with pytest.raises(TaskFailedError, match="fails"):
            run.wait()
        np.testing.assert_array_equal(run.result("y"), graph.data["x"])


def host_function(graph: TaskGraph, name: str) -> str:
    operation = graph.find_task(name).operation
    assert operation is not None
    return operation.implementations[0].name
