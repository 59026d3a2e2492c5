# SPDX-License-Identifier: Apache-2.0
"""Unexpected errors within the package itself: the run ends all the same, and not before its kernels."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.library_calls import Called, with_library
from support.opened import live_on, until
from support.running import DTYPE, MIX, SPIN, plan_on
from support.starting import live_called, start

from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import DeviceError, ExecutionError, TaskFailedError
from syclsched.execution import bind
from syclsched.execution.dynamic.compiled.fast_path import CompiledRun
from syclsched.execution.dynamic.submission.submitter import Submitter
from syclsched.model.graph import TaskGraph

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("nothing_is_left_running", "compiled_policies")]


def test_a_submission_that_breaks_on_another_thread_ends_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    platform, live = live_on(None)
    graph = TaskGraph("broken")
    x, y = (graph.array(name, (8,), DTYPE) for name in "xy")
    graph.kernel(with_library(Called(0)), name="by a library", x=x, y=y)
    graph.kernel(MIX, name="mix", x=x, y=y, a=1)
    inputs = {name: np.arange(8) for name in graph.inputs()}
    submitted, broken = SubmissionLoop.submit_listed, [True]

    def breaking(loop: SubmissionLoop, *arguments: Any) -> Any:
        if broken:
            broken.clear()
            raise ZeroDivisionError("on purpose")
        return submitted(loop, *arguments)

    with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
        monkeypatch.setattr(SubmissionLoop, "submit_listed", breaking)
        run = runner.run(inputs)
        with pytest.raises(ExecutionError, match="ZeroDivisionError: on purpose"):
            run.wait(60)
        runner(inputs)  # no part of the failed run is left


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_broken_dynamic_run_waits_for_submitted_commands(workers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CL_CONFIG_CPU_TBB_NUM_WORKERS", workers)  # 1: lane threads execute it
    pending: list[bool] = []
    close = Submitter.close

    def noted(submitter: Submitter) -> None:
        assert submitter.loop is not None
        pending.extend(submitter.loop.is_pending(slot) for slot in range(20))
        close(submitter)

    def breaking(fast_path: CompiledRun) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(Submitter, "close", noted)
    monkeypatch.setattr(CompiledRun, "_after_batch", breaking)
    graph = TaskGraph("broken")
    y = graph.array("y", data=np.ones(1, DTYPE))
    for i in range(20):
        graph.kernel(SPIN, name=f"t{i}", y=y, turns=10_000_000)
    graph.host(lambda z: None, name="function", z=graph.array("z", data=np.ones(1, DTYPE)).update())
    run = start(graph, live_called("cpu"), "eager")
    with pytest.raises(ExecutionError, match="ZeroDivisionError: on purpose"):
        run.wait(60)
    run.close()
    assert pending and not any(pending)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("recover", [False, True])
def test_broken_submission_ends_a_dynamic_run(recover: bool, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = TaskGraph("broken")
    x, y, z, scrap = (graph.array(name, data=np.arange(8, dtype=DTYPE)) for name in ("x", "y", "z", "scrap"))
    graph.kernel(with_library(Called(0)), name="by a library", x=x, y=scrap)  # so that policies run in Python
    device_mix = replace(MIX, implementations=MIX.implementations[:1])
    graph.kernel(device_mix, name="before", x=x, y=y, a=2)
    graph.host(lambda y: np.add(y, 1, out=y), name="host", y=y.update(), pure=True)
    graph.kernel(device_mix, name="after", x=y, y=z, a=3)
    submit, left = SubmissionLoop.submit, [None] * number

    def breaking(loop: SubmissionLoop, commands: Any) -> Any:
        if left and not (left.pop() or left):
            raise DeviceError("on purpose")
        return submit(loop, commands)

    monkeypatch.setattr(SubmissionLoop, "submit", breaking)
    run = start(graph, live_called("cpu"), "eager", recover=recover)
    try:
        if recover:
            run.wait(60)
            i = np.arange(8, dtype=DTYPE)  # the initial values of x, y and z
            wanted_y = (2 * i + 3 * i + i) + 1
            np.testing.assert_array_equal(run.result("y"), wanted_y)
            np.testing.assert_array_equal(run.result("z"), 3 * wanted_y + 3 * i + i)
            assert len(run.recoveries) == 1
        else:
            with pytest.raises(DeviceError, match="on purpose"):
                run.wait(60)
    finally:
        run.close()


def test_host_task_after_a_raising_one_waits_for_its_kernel() -> None:
    """Both are on the host's lane when the first one raises, and compiled code has started both."""
    graph = TaskGraph("behind")
    x, y, z = (graph.array(name, data=np.zeros(4, DTYPE)) for name in "xyz")
    started, seen = threading.Event(), []

    def bad(x: Any) -> None:
        assert started.wait(60)
        raise ValueError("no good")

    graph.host(bad, name="bad", x=x.update())
    graph.kernel(SPIN, name="slow", y=y, turns=300_000_000)
    graph.host(lambda y, z: seen.append(int(y[0])), name="behind", y=y.read(), z=z.write())
    with start(graph, live_called("cpu"), "eager", trace=True) as run:
        until(lambda: run._resources.engine.passed(2))
        started.set()
        with pytest.raises(TaskFailedError, match="no good"):
            run.wait(60)
        wanted = run.result("y")[0]
        spans = {span.task: span for span in run.trace().spans if span.kind != "copy"}
    assert seen == [wanted]
    assert spans["slow"].finish_s <= spans["behind"].start_s + 1e-3
