# SPDX-License-Identifier: Apache-2.0
"""Errors where none are expected, within the package itself: a run ends all the same, and not before its kernels do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.library_calls import Called, with_library
from support.opened import live_on
from support.running import DTYPE, MIX, SPIN, plan_on
from support.starting import live_called, start

from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import ExecutionError
from syclsched.execution import bind
from syclsched.execution.dynamic.compiled.fast_path import CompiledRun
from syclsched.execution.dynamic.submission.submitter import Submitter
from syclsched.model.graph import TaskGraph

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("nothing_is_left_running")]


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
        runner(inputs)  # nothing of it is left


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_dynamic_run_that_breaks_waits_for_what_compiled_code_has_submitted(
    workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CL_CONFIG_CPU_TBB_NUM_WORKERS", workers)  # 1: threads of our own do it
    pending: list[bool] = []
    close = Submitter.close

    def noted(submitter: Submitter) -> None:
        assert submitter.loop is not None
        pending.extend(submitter.loop.is_pending(slot) for slot in range(20))
        close(submitter)

    def breaking(express: CompiledRun) -> None:
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
