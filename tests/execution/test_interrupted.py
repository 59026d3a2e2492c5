# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at any moment of a bound plan's run: the next run is right, and no part of the interrupted one remains."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from support.library_calls import Called, alternating, expected, with_library
from support.onednn_calls import linear, needs_onednn
from support.opened import live_on
from support.running import DTYPE, MIX, plan_by, plan_on, sequential

import syclsched
from syclsched.devices.submission.native_run import NativeRun
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution import Runner, bind
from syclsched.execution.core import stall_timeout
from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.replay import native_run_cache
from syclsched.execution.replay.replay import Replay
from syclsched.model.graph import TaskGraph

pytestmark = pytest.mark.sycl
SIZE = 64
_PACKAGE = str(Path(syclsched.__file__).parent)


class Interrupt:
    """Raise KeyboardInterrupt at a given number of function calls of the package, where Python handles signals."""

    def __init__(self, at: int) -> None:
        self._at, self._calls = at, 0
        self.raised = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            self._calls += 1
            if self._calls == self._at:
                self.raised = True
                raise KeyboardInterrupt


def plus_one(y: Any) -> None:
    y += 1


def chain(hosts: set[int]) -> tuple[TaskGraph, dict[str, Any]]:
    graph = TaskGraph("chain")
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    for n in range(6):
        if n in hosts:
            graph.host(plus_one, name=f"t{n}", y=y.update(), pure=True)
        else:
            graph.kernel(MIX, name=f"t{n}", x=x, y=y, a=n)
    return graph, {"x": np.arange(SIZE, dtype=np.int64), "y": np.arange(SIZE, dtype=np.int64)}


def bound(hosts: set[int], **options: Any) -> tuple[Runner, dict[str, Any], dict[str, Any]]:
    graph, inputs = chain(hosts)
    platform, live = live_on(None)

    def place(name: str) -> tuple[str, int, str]:
        first = graph.find_task(name).operation.implementations[0]  # type: ignore[union-attr]
        return "host" if first.kind == "host" else "cpu", 0, first.name

    runner = bind(plan_by(graph, platform, place), graph, live, **options)
    assert runner.replayed, runner.why_not_replayed
    return runner, inputs, sequential(graph, inputs)


def flying() -> tuple[Runner, dict[str, Any], dict[str, Any]]:
    platform, live = live_on(None)
    graph = alternating(6, SIZE, linear())
    inputs = {"y": np.arange(SIZE, dtype=np.float32)}
    return bind(plan_on(graph, platform, "cpu"), graph, live, trace=False), inputs, {"y": expected(inputs["y"], 6)}


KINDS: dict[str, Callable[[], Any]] = {
    "replayed": lambda: bound(set()),
    "hosted": lambda: bound({2, 4}),
    "flown": flying,
    "flown and awaited": flying,
    "flown and taken over": flying,
}


@needs_onednn
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may be raised in a finaliser
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_at_any_function_does_not_affect_the_next_run(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, inputs, wanted = KINDS[kind]()
    if kind.startswith("flown and"):
        monkeypatch.setattr(native_run_cache, "SLICE_S", 0.0)
    if kind == "flown and taken over":
        monkeypatch.setattr(native_run_cache, "LONGEST_S", 0.0)
    with runner:
        for _ in range(2):
            runner(inputs)
        at, done = 1, False
        while not done:
            interrupt = Interrupt(at)
            before = sys.gettrace()
            sys.settrace(interrupt)
            try:
                runner(inputs)
                if interrupt.raised:  # the garbage collector dropped it: it is raised again
                    threading.Event().wait(60)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            for name, value in runner(inputs).items():
                np.testing.assert_array_equal(value, wanted[name], err_msg=f"after an interrupt at call {at}")
            at, done = at + 1, not interrupt.raised
        assert at > 20


@pytest.mark.parametrize("hosts", [set(), {2, 4}])
def test_a_run_cancelled_before_its_start_does_not_affect_the_next(hosts: set[int]) -> None:
    runner, inputs, wanted = bound(hosts)
    with runner:
        for _ in range(3):
            runner(inputs)
            assert runner._bound.instances is not None
            left = runner._bound.instances.generations[0].replay(runner._bound.prepared.values(inputs), record=True)
            left.cancel()  # its events were released: to wait for them would end the process
            left.join(60)
            assert left.finished.is_set()
            np.testing.assert_array_equal(runner(inputs)["y"], wanted["y"])


@pytest.mark.parametrize("hosts", [set(), {2, 4}])
def test_a_replay_that_was_never_started_is_not_awaited(hosts: set[int]) -> None:
    runner, inputs, wanted = bound(hosts)
    with runner:
        assert runner._bound.instances is not None
        runner._bound.instances.generations[0].replay(runner._bound.prepared.values(inputs), record=True)
        np.testing.assert_array_equal(runner(inputs)["y"], wanted["y"])


def test_submissions_of_an_interrupted_c_call_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, inputs, wanted = bound(set())
    submit = SubmissionLoop._submit

    def interrupted(self: SubmissionLoop, *arguments: Any) -> int:
        submit(self, *arguments)
        raise KeyboardInterrupt

    waited: list[int] = []
    wait = SubmissionLoop.wait_for_all

    def noted(self: SubmissionLoop) -> None:
        waited.append(sum(count.value for _, count, _ in self._made))
        wait(self)

    with runner:
        runner(inputs)
        with monkeypatch.context() as patch:
            patch.setattr(SubmissionLoop, "_submit", interrupted)
            patch.setattr(SubmissionLoop, "wait_for_all", noted)
            with pytest.raises(KeyboardInterrupt):
                runner(inputs)
            assert runner._bound.instances is not None
            runner._bound.instances.settle()
        assert waited == [8]  # two copies and six kernels
        np.testing.assert_array_equal(runner(inputs)["y"], wanted["y"])


def test_native_run_interrupted_twice_keeps_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second interrupt comes during the hand-over, when only the runner refers to the run."""
    platform, live = live_on(None)
    graph = TaskGraph()
    x, y = (graph.array(name, (10,), DTYPE) for name in "xy")
    graph.kernel(with_library(Called(0)), x=x, y=y, name="called")
    run_blocking, follow = NativeRun.run_blocking, NativeRun.follow

    def interrupted(_: object) -> Any:
        raise KeyboardInterrupt

    with bind(plan_on(graph, platform, "cpu"), graph, live, trace=False) as runner:
        runner({"x": np.arange(10)})
        assert runner._bound.instances is not None
        generation = runner._bound.instances.generations[0]
        for _ in range(5):
            with monkeypatch.context() as patch:
                patch.setattr(
                    NativeRun, "run_blocking", lambda self, targets, _: interrupted(run_blocking(self, targets, 0.0))
                )
                patch.setattr(NativeRun, "follow", lambda self: interrupted(follow(self)))
                with pytest.raises(KeyboardInterrupt):
                    runner({"x": np.arange(10)})
            assert generation.native_runs._written is not None
            runner({"x": np.arange(10)})
            assert generation.native_runs._written is None


@needs_onednn
def test_repeated_results_and_many_choices_of_results_are_allowed() -> None:
    runner, inputs, wanted = flying()
    with runner:
        assert np.array_equal(runner(inputs, ["y", "y"])["y"], wanted["y"])
        before = len(os.listdir("/proc/self/task"))
        for _ in range(3):
            for choice in range(2 * native_run_cache.MOST):
                runner(inputs, ["y"] * (choice % 2))
        assert len(os.listdir("/proc/self/task")) <= before + native_run_cache.MOST


def test_ctrl_c_while_a_generation_is_ended_is_no_failure_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, inputs, wanted = bound(set())
    record, to_come = Replay._record, [signal.SIGINT]

    def interrupted(self: Replay, submitted: list[int]) -> None:
        if to_come:
            signal.raise_signal(to_come.pop())
        record(self, submitted)

    monkeypatch.setattr(Replay, "_record", interrupted)
    with runner:
        with pytest.raises(KeyboardInterrupt):
            list(runner.stream([inputs] * 4, in_flight=2))
        assert not to_come
        for found in runner.stream([inputs] * 2, in_flight=2):
            np.testing.assert_array_equal(found["y"], wanted["y"])


def test_interrupt_before_reading_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, inputs, wanted = bound(set())
    monkeypatch.setattr(stall_timeout, "HANG_S", 30.0)

    def interrupted(worker: WorkerThread, job: Any) -> None:
        raise KeyboardInterrupt

    with runner:
        with monkeypatch.context() as patch:
            patch.setattr(WorkerThread, "post", interrupted)
            with pytest.raises(KeyboardInterrupt):
                runner(inputs)
        np.testing.assert_array_equal(runner(inputs)["y"], wanted["y"])
