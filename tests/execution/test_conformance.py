# SPDX-License-Identifier: Apache-2.0
"""Conformance of every way to run a graph: the same results, errors, cancellation, recovery, traces and limits."""

from __future__ import annotations

import functools
import gc
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.conformance import (
    WAYS,
    Defect,
    Handle,
    Session,
    Way,
    across_contexts,
    over_all_ways,
    platform_of,
    run_apart,
    spread,
)
from support.library_calls import Called, alternating, expected, with_library
from support.onednn_calls import linear, needs_onednn
from support.opened import until
from support.running import ASSIGN, ASSIGN_KERNEL, DTYPE, JUDGE, MIX, SPIN, graphs, inputs_of, plans, sequential

import syclsched
from syclsched.errors import DeadlineError, ExecutionError, RunCancelledError, TaskFailedError
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Operation
from syclsched.testing import faults

pytestmark = pytest.mark.sycl

SIZE = 96
#: `MIX`, which no policy can put on the host.
DEVICE_MIX = replace(MIX, implementations=MIX.implementations[:1])
DYNAMIC = frozenset(way.name for way in WAYS if way.decides_while_running)

#: What is known to be wrong. Remove an entry with its defect: a case that passes unexpectedly fails the suite.
KNOWN_DEFECTS = (
)


@pytest.fixture(autouse=True, scope="module")
def _own_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep measured times, by which policies decide, apart from those of other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


def in_use() -> dict[str, int]:
    return {space: info.in_use_bytes for space, info in syclsched.memory_info().items()}


def releasing(test: Callable[..., None]) -> Callable[..., None]:
    """Let a test fail if it passes and leaves memory in use."""

    @functools.wraps(test)
    def body(**arguments: Any) -> None:
        gc.collect()
        before = in_use()
        test(**arguments)
        gc.collect()
        until(lambda: all(held <= before.get(space, 0) for space, held in in_use().items()))

    return body


# --- graphs and plans -------------------------------------------------------------------------------


def array(graph: TaskGraph, name: str, factor: int = 1, size: int = SIZE) -> Any:
    return graph.array(name, data=np.arange(size, dtype=DTYPE) * factor)


def everything(assign: Operation = ASSIGN_KERNEL) -> TaskGraph:
    """Kernels, host tasks, copies, a reduction, rows, a constant, a barrier, a temporary and an explicit edge."""
    graph = TaskGraph("everything")
    x, y, z = (graph.array(name, (SIZE,), DTYPE) for name in "xyz")
    total, kept = graph.array("total", (1,), DTYPE), graph.array("kept", (SIZE,), DTYPE)
    between = graph.array("between", (SIZE,), DTYPE, temporary=True)
    graph.kernel(MIX, name="first", x=x, y=y, a=2)
    graph.kernel(MIX, name="second", x=x, y=z, a=3)
    graph.kernel(assign, name="set", x=z, y=between)
    graph.kernel(MIX, name="rows", x=z[: SIZE // 2], y=y[SIZE // 2 :], a=5)
    graph.copy(between, kept, name="copied")
    graph.kernel(MIX, name="constant", x=syclsched.constant(np.arange(SIZE), DTYPE, name="c"), y=kept, a=7)
    for name, part in (("sum y", y), ("sum z", z)):
        graph.host(add_sum, name=name, part=part.read(), total=total.reduce(), pure=True)
    graph.host(add_total, name="spread total", y=y.update(), total=total.read(), pure=True)
    graph.barrier(name="barrier")
    graph.kernel(MIX, name="third", x=kept, y=x, a=-1)
    graph.kernel(MIX, name="fourth", x=y, y=z, a=11)
    graph.edge("third", "fourth")
    return graph


def add_sum(part: Any, total: Any) -> None:
    total += part.sum()


def add_total(y: Any, total: Any) -> None:
    y += total[0]


def check(handle: Handle, wanted: dict[str, Any], graph: TaskGraph) -> None:
    """Assert that all values that tasks write are the sequential program's, to the last bit."""
    handle.wait()
    written = {access.array for task in graph.tasks for access in task.accesses if access.mode.writes}
    for name in sorted(written):
        if not graph.arrays[name].temporary:
            np.testing.assert_array_equal(handle.result(name), wanted[name], err_msg=name)


def check_run(session: Session, inputs: Any, wanted: dict[str, Any], graph: TaskGraph) -> None:
    """Run once more, and check all of it."""
    handle = session.start(inputs)
    try:
        check(handle, wanted, graph)
    finally:
        handle.close()


# --- 1. results -------------------------------------------------------------------------------------


@over_all_ways("results", ["one context", "two contexts", "python library"], known=KNOWN_DEFECTS)
@releasing
def test_results_are_those_of_the_sequential_program(way: Way, case: str) -> None:
    graph = everything(ASSIGN if case == "python library" else ASSIGN_KERNEL)
    inputs = inputs_of(graph, 1)
    untouched = {name: value.copy() for name, value in inputs.items()}
    wanted = sequential(graph, inputs)
    plan = spread(graph, platform_of(1 if case == "one context" else 2))
    with way.open(graph, plan, inputs) as session:
        for turn in range(2):
            check_run(session, inputs, wanted, graph)
            others = inputs_of(graph, turn + 2)
            check_run(session, others, sequential(graph, others), graph)
    for name, value in untouched.items():
        np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")


@needs_onednn
@over_all_ways("results of a library", known=KNOWN_DEFECTS)
@releasing
def test_results_of_a_library_called_from_c(way: Way) -> None:
    graph = alternating(6, 64, linear())
    inputs = {"y": np.arange(64, dtype=np.float32)}
    with way.open(graph, spread(graph, platform_of(1)), inputs) as session:
        for _ in range(2):
            check_run(session, inputs, {"y": expected(inputs["y"], 6)}, graph)
        if way.name == "called again":
            assert session.runner.handed_over_ns is not None, "not one call of C"  # type: ignore[attr-defined]


@over_all_ways("random graphs", known=KNOWN_DEFECTS)
@releasing
@given(data=st.data())
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
def test_random_graphs(way: Way, data: st.DataObject) -> None:
    graph = data.draw(graphs(max_tasks=10, ranges=data.draw(st.booleans())))
    plan = data.draw(plans(graph, platform_of(data.draw(st.sampled_from([1, 2])))))
    inputs = inputs_of(graph, len(graph))
    with way.open(graph, plan, inputs) as session:
        handle = session.start(inputs)
        handle.wait()
        wanted = sequential(graph, inputs)
        for name, value in written_as_a_whole(graph, inputs).items():
            np.testing.assert_array_equal(handle.result(name), wanted[name], err_msg=value)
        handle.close()


def written_as_a_whole(graph: TaskGraph, inputs: dict[str, Any]) -> dict[str, str]:
    """Return the arrays whose whole value every way keeps: written by a task, and whole or an input."""
    ranged = {t.arguments[p] for t in graph.tasks for p in t.rows}
    written = {a.array for t in graph.tasks for a in t.accesses if a.mode.writes}
    kept = [n for n in sorted(written) if not graph.arrays[n].temporary and (n in inputs or n not in ranged)]
    return {name: f"array {name}" for name in kept}


# --- 2. errors --------------------------------------------------------------------------------------


class Told:
    """A host function that counts its calls, and raises as long as it is armed."""

    def __init__(self) -> None:
        self.armed, self.calls = False, 0

    def __call__(self, y: Any) -> None:
        self.calls += 1
        if self.armed:
            raise ValueError("no good")
        y += 1


class Library(Called):
    """A library that fails with its status, called from C and from Python alike."""

    def __call__(self, queue: Any, arguments: Any, depends: list[Any]) -> Any:
        if self.status:
            raise RuntimeError(f"it has no mood for {self.status}")
        return queue.submit_barrier(depends)


class Failing:
    """A graph with a task that can be made to fail, a chain behind it, and another chain."""

    def __init__(self, case: str) -> None:
        self.graph = graph = TaskGraph("failing")
        self.bad, self.behind, self.apart = Told(), Told(), Told()
        self.library = Library(0)
        w, x, y, z = (graph.array(name, (SIZE,), DTYPE) for name in "wxyz")
        status = graph.array("status", (1,), "int32", temporary=True)
        self.inputs = {name: np.arange(1, SIZE + 1) * n for n, name in enumerate("wxyz", 1)}
        self.cause = "no good"
        graph.kernel(MIX, name="before", x=x, y=y, a=2)
        self.errors = {"raises": "no good", "status": "x is negative", "library": "it has no mood for 3"}
        if case.startswith("raises"):
            graph.host(self.bad, name="bad", y=y.update())
        elif case.startswith("status"):
            graph.kernel(JUDGE, name="bad", x=x, status=status)
            graph.host(lambda y, status: self.bad(y), name="told", y=y.update(), status=status.read())
        else:
            graph.kernel(with_library(self.library), name="bad", x=w, y=y)
        self.message = next(text for key, text in self.errors.items() if case.startswith(key))
        graph.kernel(MIX, name="after", x=y, y=x, a=1)
        graph.host(self.behind, name="behind", y=x.update())
        graph.kernel(MIX, name="apart", x=z, y=w, a=3)
        graph.host(self.apart, name="heard", y=w.update())
        self.plan = spread(graph, platform_of(2 if case.endswith("two contexts") else 1))
        self._case = case

    def arm(self, armed: bool) -> dict[str, Any]:
        """Return the inputs of the next run, which fails if it is armed."""
        self.bad.armed = armed and self._case.startswith("raises")
        self.library.status = 3 if armed else 0
        sign = -1 if armed and self._case.startswith("status") else 1
        return self.inputs | {"x": sign * self.inputs["x"]}

    @property
    def wanted(self) -> dict[str, Any]:
        """The values of a run that is not armed, as far as they are known."""
        x, y, z, w = (self.inputs[name].astype(DTYPE) for name in "xyzw")
        i = np.arange(SIZE)
        values = {"w": 3 * z + 3 * w + i + 1}
        if self._case != "library":  # it does nothing to what it writes
            y = 2 * x + 3 * y + i + 1
            values |= {"y": y, "x": y + 3 * x + i + 1}
        return values


FAILURES = ["raises", "raises, two contexts", "status", "library"]


@over_all_ways("errors", FAILURES, known=KNOWN_DEFECTS)
@releasing
def test_an_error_is_told_by_name_and_only_its_descendants_are_cancelled(way: Way, case: str) -> None:
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
                assert outcomes["before"] == outcomes["apart"] == outcomes["heard"] == "done"
        handle.close()
        for name, value in untouched.items():
            np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")
        handle = session.start(failing.arm(False))
        handle.wait()
        for name, value in failing.wanted.items():
            np.testing.assert_array_equal(handle.result(name), value, err_msg=name)
        handle.close()


# --- 3. cancelling ----------------------------------------------------------------------------------


class Gate:
    """A host function that blocks, while it is closed, until it is opened."""

    def __init__(self, *, passes: int = 0) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self._passes, self.calls = passes, 0
        self.opened.set()

    def close(self, *, passes: int = 0) -> None:
        """Block calls from now on, after so many more."""
        self._passes, self.calls = passes, 0
        self.entered.clear()
        self.opened.clear()

    def __call__(self, y: Any) -> None:
        self.calls += 1
        if self.calls > self._passes:
            self.entered.set()
            assert self.opened.wait(300)
        y += 1


def gated(gate: Gate, operation: Operation = MIX) -> tuple[TaskGraph, Told]:
    """Return a graph with a gate between kernels, and the host function at its end."""
    graph, last = TaskGraph("gated"), Told()
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    graph.kernel(operation, name="before", x=x, y=y, a=1)
    graph.host(gate, name="gate", y=y.update())
    for index in range(6):
        graph.kernel(operation, name=f"after{index}", x=x, y=y, a=index)
    graph.host(last, name="last", y=y.update())
    return graph, last


@over_all_ways("cancel", ["one context", "two contexts"], known=KNOWN_DEFECTS)
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


# --- 4. deadlines -----------------------------------------------------------------------------------


#: Long enough for a run to come to its gate, where the watchdog then finds it.
DEADLINE_S = 0.3


def deadline_error(handle: Handle) -> DeadlineError:
    with pytest.raises(ExecutionError) as caught:
        handle.wait()
    assert isinstance(caught.value, DeadlineError), repr(caught.value)
    return caught.value


def run_when_accepted(session: Session, inputs: Any, wanted: dict[str, Any], graph: TaskGraph) -> None:
    """Run again; a runner refuses runs until the engine of one that was given up has ended."""

    def accepted() -> bool:
        try:
            check_run(session, inputs, wanted, graph)
        except ExecutionError as error:
            assert "given up" in str(error), error
            return False
        return True

    until(accepted)


@over_all_ways("deadline on the host", known=KNOWN_DEFECTS)
@releasing
def test_a_run_past_its_deadline_fails_by_the_task_that_ran(way: Way) -> None:
    gate = Gate()
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
        assert "its deadline is 0.3 s" in str(error)
        with suppress(ExecutionError):
            handle.close()
        run_when_accepted(session, inputs, sequential(graph, inputs), graph)


@over_all_ways("deadline on a device", known=KNOWN_DEFECTS)
@releasing
def test_a_run_past_its_deadline_fails_by_the_kernel_that_hangs(way: Way) -> None:
    graph, _ = gated(Gate(), DEVICE_MIX)
    inputs = inputs_of(graph, 1)
    wanted = sequential(gated(Gate())[0], inputs)
    plan = spread(graph, platform_of(1))
    with way.open(graph, plan, inputs, warm=False, deadline_s=DEADLINE_S) as session:
        with faults.inject(faults.hang("cpu")) as injection:
            handle = session.start(inputs)
            error = deadline_error(handle)
            injection.release()
        assert "its deadline is 0.3 s" in str(error)
        with suppress(ExecutionError):
            handle.close()
        run_when_accepted(session, inputs, wanted, graph)


@over_all_ways("deadline while compiling", known=KNOWN_DEFECTS)
@releasing
def test_a_deadline_is_kept_when_no_lane_is_at_work(way: Way) -> None:
    """A kernel's source takes longer to make than the run may take."""
    entered, opened = threading.Event(), threading.Event()
    implementation = MIX.implementations[0]

    def load(signature: Any) -> Any:
        entered.set()
        opened.wait(2.5 * DEADLINE_S)
        return implementation.load(signature)

    slow = replace(MIX, name="slow to load", implementations=(replace(implementation, load=load),))
    graph = TaskGraph("compiled late")
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    graph.kernel(slow, name="slow", x=x, y=y, a=1)
    inputs = inputs_of(graph, 1)
    plan = spread(graph, platform_of(1))
    with way.open(graph, plan, inputs, deadline_s=DEADLINE_S) as session:
        handle = session.start(inputs)
        try:
            error = deadline_error(handle)
        finally:
            opened.set()
        assert entered.is_set()
        assert "its deadline is 0.3 s" in str(error)
        with suppress(ExecutionError):
            handle.close()


# --- 5. Ctrl-C --------------------------------------------------------------------------------------


class Interrupting(Gate):
    """A host function that, while it is armed, sends SIGINT to the main thread."""

    armed = False

    def __call__(self, y: Any) -> None:
        if self.armed:
            self.armed = False
            os.kill(os.getpid(), signal.SIGINT)
        y += 1


@over_all_ways("ctrl-c", ["one context", "two contexts"], known=KNOWN_DEFECTS)
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


# --- 6. recovery ------------------------------------------------------------------------------------


def braid(mix: Operation, tasks: int = 12) -> TaskGraph:
    """Return a graph of arrays that are updated in place and read each other: every task needs those before."""
    graph = TaskGraph("braid")
    arrays = [graph.array(f"x{n}", (SIZE,), DTYPE) for n in range(3)]
    for index in range(tasks):
        graph.kernel(mix, name=f"mix{index}", x=arrays[(index + 1) % 3], y=arrays[index % 3], a=index + 2)
    graph.host(lambda y: np.add(y, 1, out=y), name="host", y=arrays[0].update(), pure=True)
    graph.kernel(mix, name="last", x=arrays[0], y=arrays[1], a=2)
    return graph


POINTS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "submission": ("submission", faults.fail_submission),
    "copy": ("copy", faults.fail_copy),
    "allocation": ("allocation", faults.fail_allocation),
    "on device": ("submission", faults.fail_on_device),
    "on device, done": ("submission", lambda number: faults.fail_on_device(number, done=True)),
}
FAULTS = [f"{when} {what}" for what in POINTS for when in ("first", "middle")] + ["lost device"]


@over_all_ways("recovery", FAULTS, known=KNOWN_DEFECTS)
@releasing
def test_a_run_recovers_from_a_fault_with_the_same_bits(way: Way, case: str) -> None:
    graph = braid(DEVICE_MIX)
    inputs = inputs_of(graph, 1)
    untouched = {name: value.copy() for name, value in inputs.items()}
    wanted = sequential(braid(MIX), inputs)
    platform = platform_of(2)
    plan = spread(graph, platform)

    def passed(*fault: Any) -> Any:
        with faults.inject(*fault) as seen, way.open(graph, plan, inputs, warm=False, trace=True) as session:
            handle = session.start(inputs)
            check(handle, wanted, graph)
            assert len(handle.recoveries) == len(seen.injected)
            handle.close()
        return seen

    if case == "lost device":
        lost = "cpu"  # where every policy puts something
        with faults.inject(faults.lose(lost, after=1)) as seen:
            with way.open(graph, plan, inputs, warm=False, trace=True) as session:
                handle = session.start(inputs)
                check(handle, wanted, graph)
                assert lost in {device for recovery in handle.recoveries for device in recovery.lost}
                handle.close()
                check_run(session, inputs, wanted, graph)
            assert seen.injected[0].what == "lost"
    else:
        when, _, what = case.partition(" ")
        point, make = POINTS[what]
        number = 1 if when == "first" else max(1, passed().passed(point) // 2)
        assert len(passed(make(number)).injected) == 1 or (way.decides_while_running and when == "middle")
    for name, value in untouched.items():
        np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")


# --- 7. traces --------------------------------------------------------------------------------------


def spins() -> TaskGraph:
    """Tasks of some milliseconds, so that wrong times show, on all lanes and on the host."""
    graph = TaskGraph("spins")
    first, second = array(graph, "first"), array(graph, "second")
    for index in range(3):
        graph.kernel(SPIN, name=f"first{index}", y=first, turns=1_000_000)
        graph.kernel(SPIN, name=f"second{index}", y=second, turns=1_000_000)
    graph.host(add_sum, name="host", part=first.read(), total=array(graph, "total", size=1).update())
    graph.barrier(name="barrier")
    graph.kernel(SPIN, name="end", y=first, turns=1_000_000)
    graph.edge("first0", "second1")
    return graph


@over_all_ways("trace", ["one context", "two contexts"], known=KNOWN_DEFECTS)
@releasing
def test_a_trace_has_every_task_once_and_in_order(way: Way, case: str) -> None:
    graph = spins()
    plan = spread(graph, platform_of(1 if case == "one context" else 2))
    with way.open(graph, plan, trace=True) as session:
        handle = session.start()
        handle.wait()
        trace = handle.trace()
        assert {s.outcome for s in trace.spans} == {"done"}
        assert trace.recoveries == ()
        for generation in range(session.runs_per_handle):
            spans = [s for s in trace.spans if s.generation == generation]
            tasks = Counter(s.task for s in spans if s.kind in ("launch", "host", "barrier"))
            assert tasks == {task.name: 1 for task in graph.tasks}
            if not way.decides_while_running:
                planned = [i for _, i in plan.instructions() if i.kind not in ("alloc", "free")]
                assert len(spans) == len(planned)
            by_task = {s.task: s for s in spans if s.kind in ("launch", "host")}
            for dependency in graph.dependencies():
                if dependency.before in by_task and dependency.after in by_task:
                    before, after = by_task[dependency.before], by_task[dependency.after]
                    assert before.finish_s <= after.start_s + 1e-3, (before, after)
            by_number = {s.instruction: s for s in spans}
            assert len(by_number) == len(spans)
            for s in spans:
                assert s.start_s <= s.finish_s
                assert all(by_number[n].finish_s <= s.start_s + 1e-3 for n in s.waits)
        handle.close()


# --- 8. memory --------------------------------------------------------------------------------------


@over_all_ways("memory", ["one context", "two contexts"], known=KNOWN_DEFECTS)
@releasing
def test_memory_stays_within_the_limit_and_the_plans_proof(way: Way, case: str) -> None:
    """Eight arrays, and memory for three on each device."""
    size = 1000
    graph = TaskGraph("tight")
    arrays = [array(graph, f"a{n}", n + 1, size) for n in range(8)]
    for step in range(2):
        for n in range(8):
            graph.kernel(MIX, name=f"t{step}_{n}", x=arrays[(n + step) % 8], y=arrays[(n + step + 1) % 8], a=n)
    free = platform_of(1 if case == "one context" else 2)
    limits = {device.name: 3 * 8 * size for device in free.compute_devices}
    plan = spread(graph, syclsched.with_memory_limit(free, limits))
    assert any(instruction.kind == "free" for _, instruction in plan.instructions())
    options: dict[str, Any] = {"in_flight": 1} if way.name == "stream" else {}
    with way.open(graph, plan, trace=True, **options) as session:
        handle = session.start()
        check(handle, sequential(graph, graph.data), graph)
        for space, peak in handle.trace().peak_bytes.items():
            if space != "host":
                assert peak <= limits[space]
            if not way.decides_while_running:
                assert peak <= plan.peak_bytes[space]
        handle.close()


# --- 9. threads -------------------------------------------------------------------------------------


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Call a function on several threads at once; raise what it raises."""
    begin, errors = threading.Barrier(count), list[BaseException]()

    def body(number: int) -> None:
        try:
            begin.wait(60)
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@over_all_ways("shared handle", known=KNOWN_DEFECTS)
@releasing
def test_several_threads_may_read_one_run(way: Way) -> None:
    graph = everything()
    inputs = inputs_of(graph, 1)
    wanted = sequential(graph, inputs)
    with way.open(graph, spread(graph, platform_of(2)), inputs) as session:
        handle = session.start(inputs)
        in_threads(lambda _: check(handle, wanted, graph))
        handle.close()


@over_all_ways("shared session", known=KNOWN_DEFECTS)
@releasing
def test_several_threads_may_run_one_graph(way: Way) -> None:
    graph = everything()
    given_inputs = [inputs_of(graph, seed) for seed in range(4)]
    wanted = [sequential(graph, inputs) for inputs in given_inputs]
    with way.open(graph, spread(graph, platform_of(2)), given_inputs[0]) as session:
        in_threads(lambda n: [check_run(session, given_inputs[n], wanted[n], graph) for _ in range(2)])


@over_all_ways("sessions at once", known=KNOWN_DEFECTS)
@releasing
def test_several_threads_may_run_graphs_of_their_own(way: Way) -> None:
    def one(number: int) -> None:
        graph = everything()
        inputs = inputs_of(graph, number)
        with way.open(graph, spread(graph, platform_of(2)), inputs) as session:
            check_run(session, inputs, sequential(graph, inputs), graph)

    in_threads(one)


# --- 10. faults beside host functions that raise, over two contexts ---------------------------------


@over_all_ways("edge across contexts", known=KNOWN_DEFECTS)
@releasing
def test_a_task_left_out_waits_for_one_on_the_other_context(way: Way) -> None:
    """Its input failed on the host; by an explicit edge it comes after a kernel that still runs elsewhere.

    In a process of its own where it ended the process.
    """
    if way.decides_while_running:
        run_apart(way)
    else:
        across_contexts(way)


@over_all_ways("fault beside an error", ["submission", "on device"], known=KNOWN_DEFECTS)
@releasing
def test_a_fault_beside_a_host_function_that_raises(way: Way, case: str) -> None:
    """The fault is recovered from where runs are recovered; the function's error is raised, and the rest is done."""
    failing = Failing("raises, two contexts")
    make = faults.fail_submission if case == "submission" else faults.fail_on_device
    for number in (1, 2, 3):
        with (
            faults.inject(make(number)),
            way.open(failing.graph, failing.plan, failing.arm(False), warm=False) as session,
        ):
            failing.apart.calls = failing.behind.calls = 0
            handle = session.start(failing.arm(True))
            with pytest.raises(TaskFailedError) as caught:
                handle.wait()
            if "recovery" not in way.lacks:
                assert caught.value.task == "bad"
                assert failing.behind.calls == 0
                assert failing.apart.calls >= session.runs_per_handle
                if way.has_run:
                    np.testing.assert_array_equal(handle.result("w"), failing.wanted["w"])
            handle.close()
            again = session.start(failing.arm(False))
            again.wait()
            for name, value in failing.wanted.items():
                np.testing.assert_array_equal(again.result(name), value, err_msg=name)
            again.close()
