# SPDX-License-Identifier: Apache-2.0
"""Conformance of every way to run a graph: the same errors, cancellation, deadlines and reaction to Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.conformance import WAYS, Handle, Session, Way, check_run, over_all_ways, platform_of, releasing, spread
from support.conformance_graphs import DEVICE_MIX, SIZE, CountingHostFunction, Failing
from support.opened import until
from support.running import DTYPE, MIX, inputs_of, sequential

from syclsched.errors import DeadlineError, ExecutionError, RunCancelledError, TaskFailedError
from syclsched.execution.handle import watchdog
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Operation
from syclsched.testing import faults

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("own_history", "compiled_policies")]


def arrays_in_frames(error: BaseException | None) -> list[str]:
    """Return the local variables of an error's traceback that are arrays: those of a closed run would be freed memory.

    To look at one ended the process.
    """
    frames = [] if error is None else [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [
        name
        for frame in frames
        for name, value in frame.f_locals.items()
        if isinstance(value, np.ndarray)
        or (isinstance(value, dict) and any(isinstance(each, np.ndarray) for each in value.values()))
    ]


FAILURES = ["raises", "raises, two contexts", "status", "library"]


@over_all_ways("errors", FAILURES)
@releasing
def test_an_error_names_its_task_and_cancels_only_descendants(way: Way, case: str) -> None:
    failing = Failing(case)
    graph = failing.graph
    with way.open(graph, failing.plan, failing.arm(False)) as session:
        inputs = failing.arm(True)
        untouched = {name: value.copy() for name, value in inputs.items()}
        failing.behind.calls = failing.apart.calls = 0
        handle = session.start(inputs)
        with pytest.raises(TaskFailedError, match=failing.message) as caught:
            handle.wait()
        assert caught.value.task == "bad"
        assert "'bad'" in str(caught.value)
        assert failing.apart.calls == session.runs_per_handle
        if case.startswith("raises"):
            assert isinstance(caught.value.__cause__, ValueError)
        if not case.startswith("status"):  # a status is read when the run ends
            assert failing.behind.calls == 0
        if way.has_run:
            np.testing.assert_array_equal(handle.result("w"), failing.wanted["w"])
            if not case.startswith("status"):
                with pytest.raises(TaskFailedError, match=failing.message):
                    handle.result("x")
            if case.startswith("raises"):
                outcomes = {s.task: s.outcome for s in handle.trace().spans if s.kind in ("launch", "host")}
                assert outcomes["bad"] == "failed"
                assert outcomes["after"] == outcomes["behind"] == "cancelled"
                assert outcomes["before"] == outcomes["apart"] == outcomes["apart end"] == "done"
        handle.close()
        assert not arrays_in_frames(caught.value.__cause__)
        for name, value in untouched.items():
            np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")
        handle = session.start(failing.arm(False))
        handle.wait()
        for name, value in failing.wanted.items():
            np.testing.assert_array_equal(handle.result(name), value, err_msg=name)
        handle.close()


# --- cancelling --------------------------------------------------------------------------------------


class Gate:
    """A host function that blocks, while it is closed, until it is opened."""

    def __init__(self, *, passes: int = 0) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self._passes, self.calls = passes, 0
        self.opened.set()

    def close(self, *, passes: int = 0) -> None:
        """Block calls after this number of further ones."""
        self._passes, self.calls = passes, 0
        self.entered.clear()
        self.opened.clear()

    def __call__(self, y: Any) -> None:
        self.calls += 1
        if self.calls > self._passes:
            self.entered.set()
            assert self.opened.wait(300)
        y += 1


def gated(gate: Gate, operation: Operation = MIX) -> tuple[TaskGraph, CountingHostFunction]:
    """Return a graph with a gate between kernels, and the host function at its end."""
    graph, last = TaskGraph("gated"), CountingHostFunction()
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    graph.kernel(operation, name="before", x=x, y=y, a=1)
    graph.host(gate, name="gate", y=y.update())
    for index in range(6):
        graph.kernel(operation, name=f"after{index}", x=x, y=y, a=index)
    graph.host(last, name="last", y=y.update())
    return graph, last


@over_all_ways("cancel", ["one context", "two contexts"])
@releasing
def test_a_cancelled_run_ends_and_the_next_is_right(way: Way, case: str) -> None:
    gate = Gate()
    graph, last = gated(gate)
    inputs = inputs_of(graph, 1)
    with way.open(graph, spread(graph, platform_of(1 if case == "one context" else 2)), inputs) as session:
        gate.close()
        handle = session.start(inputs)
        assert gate.entered.wait(60)
        last.calls = 0
        handle.cancel()
        gate.opened.set()
        with pytest.raises(RunCancelledError):
            handle.wait()
        assert last.calls == 0
        handle.close()
        check_run(session, inputs, sequential(graph, inputs), graph)


@releasing
def test_a_stream_that_is_left_ends_and_the_next_is_right() -> None:
    gate = Gate()
    graph = TaskGraph("one gate")  # one thread calls the host functions of all generations
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    graph.host(gate, name="gate", y=y.update())
    graph.kernel(MIX, name="after", x=x, y=y, a=1)
    inputs = inputs_of(graph, 1)
    wanted = sequential(graph, inputs)
    stream_way = next(way for way in WAYS if way.name == "stream")
    with stream_way.open(graph, spread(graph, platform_of(1)), inputs) as session:
        gate.close(passes=1)
        handle = session.start(inputs)
        np.testing.assert_array_equal(next(handle.stream)["y"], wanted["y"])  # type: ignore[attr-defined]
        assert gate.entered.wait(60)
        opener = threading.Thread(target=lambda: (until(lambda: handle.stream.closed), gate.opened.set()))  # type: ignore[attr-defined]
        opener.start()
        handle.close()
        opener.join(60)
        assert gate.calls <= 2, "a generation began after the stream was closed"
        check_run(session, inputs, wanted, graph)


# --- deadlines ---------------------------------------------------------------------------------------


#: By the watchdog's time, which advances only while a task hangs.
DEADLINE_S = 0.2


def deadline_error(handle: Handle) -> DeadlineError:
    with pytest.raises(ExecutionError) as caught:
        handle.wait()
    assert isinstance(caught.value, DeadlineError), repr(caught.value)
    return caught.value


def run_when_accepted(session: Session, inputs: Any, wanted: dict[str, Any], graph: TaskGraph) -> None:
    """Run again; a runner refuses runs until the engine of an abandoned run has ended."""

    def accepted() -> bool:
        try:
            check_run(session, inputs, wanted, graph)
        except ExecutionError as error:
            assert "given up" in str(error), error
            return False
        return True

    until(accepted)


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hung run be given up soon after its deadline."""
    monkeypatch.setattr(watchdog, "LEAST_GRACE_S", DEADLINE_S)


@over_all_ways("deadline on the host")
@pytest.mark.usefixtures("short_grace")
@releasing
def test_a_run_past_its_deadline_fails_by_the_task_that_ran(way: Way, watchdog_time: Any) -> None:
    gate = Gate()
    watchdog_time(lambda: gate.entered.is_set() and not gate.opened.is_set())
    graph, _ = gated(gate)
    inputs = inputs_of(graph, 1)
    plan = spread(graph, platform_of(1))
    with way.open(graph, plan, inputs) as session:
        check_run(session, inputs, sequential(graph, inputs), graph)
    with way.open(graph, plan, inputs, warm=False, deadline_s=DEADLINE_S) as session:
        gate.close()
        handle = session.start(inputs)
        try:
            error = deadline_error(handle)
        finally:
            gate.opened.set()
        assert error.task in ("gate", None)
        assert "its deadline is 0.2 s" in str(error)
        with suppress(ExecutionError):
            handle.close()
        run_when_accepted(session, inputs, sequential(graph, inputs), graph)


@over_all_ways("deadline on a device")
@pytest.mark.usefixtures("short_grace")
@releasing
def test_a_run_past_its_deadline_fails_by_the_kernel_that_hangs(way: Way, watchdog_time: Any) -> None:
    released = threading.Event()
    graph, _ = gated(Gate(), DEVICE_MIX)
    inputs = inputs_of(graph, 1)
    wanted = sequential(gated(Gate())[0], inputs)
    plan = spread(graph, platform_of(1))
    with way.open(graph, plan, inputs, warm=False, deadline_s=DEADLINE_S) as session:
        with faults.inject(faults.hang("cpu")) as injection:
            watchdog_time(lambda: injection.injected and not released.is_set())
            handle = session.start(inputs)
            error = deadline_error(handle)
            released.set()
            injection.release()
        assert "its deadline is 0.2 s" in str(error)
        with suppress(ExecutionError):
            handle.close()
        run_when_accepted(session, inputs, wanted, graph)


@over_all_ways("deadline while compiling")
@releasing
def test_a_deadline_is_kept_when_no_lane_is_at_work(
    way: Way, watchdog_time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compilation of a kernel's source takes longer than the run's deadline."""
    entered, opened = threading.Event(), threading.Event()
    implementation, cancel = MIX.implementations[0], watchdog.RunWatch._cancel

    def load(signature: Any) -> Any:
        entered.set()
        assert opened.wait(60)
        return implementation.load(signature)

    def cancelled(*arguments: Any) -> None:
        cancel(*arguments)
        opened.set()

    monkeypatch.setattr(watchdog.RunWatch, "_cancel", cancelled)
    watchdog_time(lambda: entered.is_set() and not opened.is_set())
    slow = replace(MIX, name="slow to load", implementations=(replace(implementation, load=load),))
    graph = TaskGraph("compiled late")
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    graph.kernel(slow, name="slow", x=x, y=y, a=1)
    inputs = inputs_of(graph, 1)
    plan = spread(graph, platform_of(1))
    with way.open(graph, plan, inputs, deadline_s=DEADLINE_S) as session:
        handle = session.start(inputs)
        error = deadline_error(handle)
        assert entered.is_set()
        assert "its deadline is 0.2 s" in str(error)
        with suppress(ExecutionError):
            handle.close()


# --- Ctrl-C ------------------------------------------------------------------------------------------


class Interrupting(Gate):
    """A host function that, while it is armed, sends SIGINT to the main thread."""

    armed = False

    def __call__(self, y: Any) -> None:
        if self.armed:
            self.armed = False
            os.kill(os.getpid(), signal.SIGINT)
        y += 1


@over_all_ways("ctrl-c", ["one context", "two contexts"])
@releasing
def test_ctrl_c_while_waiting_ends_the_run_and_the_next_is_right(way: Way, case: str) -> None:
    gate = Interrupting()
    graph, _ = gated(gate)
    inputs = inputs_of(graph, 1)
    wanted = sequential(graph, inputs)
    with way.open(graph, spread(graph, platform_of(1 if case == "one context" else 2)), inputs) as session:
        gate.armed = True
        handle: Handle | None = None
        with pytest.raises(KeyboardInterrupt):
            handle = session.start(inputs)
            handle.wait()
            until(lambda: not gate.armed)
        if handle is not None:
            handle.close()
        check_run(session, inputs, wanted, graph)
