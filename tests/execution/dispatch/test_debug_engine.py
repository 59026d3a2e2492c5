# SPDX-License-Identifier: Apache-2.0
"""Step-by-step runs: equal results, and the task and place of wrong accesses."""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.opened import live_on
from support.running import DTYPE, JUDGE, MIX, SPIN, graphs, plan_by, plan_on, plans, sequential

from syclsched.errors import DeadlineError, NotFiniteError, TaskFailedError, UndeclaredWriteError
from syclsched.execution import execute
from syclsched.execution.core.safeguards import Safeguards
from syclsched.execution.memory.red_zones import MOST_GUARD_BYTES
from syclsched.model.access import AccessMode
from syclsched.model.constant import constant
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Work
from syclsched.model.platform import Platform
from syclsched.planner.memory_limit import with_memory_limit

pytestmark = pytest.mark.sycl
DEBUG, NAN_GUARD = Safeguards(debug=True), Safeguards(nan_guard=True)

SOURCE = """
__kernel void writes_input(__global double *x, __global double *y) { y[0] = 1.0; x[3] = 7.0; }
__kernel void writes_beyond(__global double *x, __global double *y) { y[0] = 1.0; y[N] = 7.0; }
__kernel void writes_before(__global double *x, __global double *y) { y[0] = 1.0; y[-1] = 7.0; }
__kernel void halves(__global double *x, __global double *y) {
    for (int i = 0; i < N; i += 2) y[i] = x[i];
}
__kernel void divides(__global double *x, __global double *y) {
    for (int i = 0; i < N; i++) y[i] = 1.0 / x[i];
}
"""
SIZE = 8


def operation(name: str, size: int = SIZE, mode: AccessMode = AccessMode.WRITE) -> Operation:
    source = SOURCE.replace("N", str(size))
    return Operation(
        name,
        (Parameter("x", AccessMode.READ), Parameter("y", mode)),
        (Implementation("opencl-c", "opencl-c", lambda _: OpenCLSource(source, name), lambda *_: Launch((1,))),),
        lambda _: Work(flops=1.0, bytes=1.0, dtype="float64"),
    )


def run(graph: TaskGraph, safeguards: Safeguards, device: int = 0) -> Any:
    platform, live = live_on(None)
    if device >= len(platform.compute_devices):
        pytest.skip("there is one device here")
    plan = plan_on(graph, platform, platform.compute_devices[device].name)
    return execute(plan, graph, live, safeguards=safeguards)


@settings(max_examples=examples(15))
@given(st.data())
@pytest.mark.parametrize("ranges", [False, True])
def test_a_stepped_run_has_the_results_of_a_sequential_run(ranges: bool, data: st.DataObject) -> None:
    platform, live = live_on(None)
    graph = data.draw(graphs(8, ranges=ranges))
    plan = data.draw(plans(graph, platform))
    values = np.random.default_rng(1)
    inputs = {name: values.integers(-9, 9, graph.arrays[name].shape, dtype=DTYPE) for name in graph.inputs()}
    expected = sequential(graph, inputs)
    with execute(plan, graph, live, inputs, safeguards=Safeguards(debug=True, nan_guard=True)) as run:
        run.wait()
        for name in {a.array for t in graph.tasks for a in t.accesses if a.mode.writes}:
            if not graph.arrays[name].temporary and name not in graph.segments():
                np.testing.assert_array_equal(run.result(name), expected[name])
        assert len(run.trace().spans) == sum(i.kind not in ("alloc", "free") for _, i in plan.instructions())


def wrong(name: str, **arrays: Any) -> TaskGraph:
    graph = TaskGraph("wrong")
    x = graph.array("x", data=np.ones(SIZE))
    y = graph.array("y", (SIZE,), "float64")
    z = graph.array("z", (SIZE,), "float64")
    graph.kernel(operation(name), name="first", x=x, y=y)
    graph.kernel(operation("halves"), name="second", x=y, y=z)
    return graph


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("writes_input", r"changes array 'x' between \[0\] and \[7\] in .*, which it does not declare to write"),
        ("writes_beyond", r"writes beyond array 'y' in .*, 0 bytes behind its end"),
        ("writes_before", r"writes beyond array 'y' in .*, 8 bytes before its beginning"),
    ],
)
@pytest.mark.parametrize("device", [0, 1])
def test_undeclared_writes_are_found(name: str, said: str, device: int) -> None:
    with run(wrong(name), DEBUG, device) as started:
        with pytest.raises(UndeclaredWriteError, match=said) as found:
            started.wait()
        assert found.value.task == "first"
        assert {s.task: s.outcome for s in started.trace().spans if s.kind == "launch"}["second"] == "cancelled"


FAR = """
__kernel void far(__global double *x, __global double *y, long at) { y[0] = x[0]; y[at] = 7.0; }
__kernel void weighs(__global double *x, __global double *y, __global double *w) { y[0] = x[0]; w[3] = 7.0; }
"""


def kernel_of(name: str, *parameters: Parameter) -> Operation:
    source = Implementation("opencl-c", "opencl-c", lambda _: OpenCLSource(FAR, name), lambda *_: Launch((1,)))
    return Operation(name, parameters, (source,), lambda _: Work(flops=1.0, bytes=1.0, dtype="float64"))


FAR_WRITE = kernel_of("far", Parameter("x", AccessMode.READ), Parameter("y", AccessMode.WRITE), Parameter("at"))


@pytest.mark.parametrize("at", [100_000, -100_000])
@pytest.mark.parametrize("device", [0, 1])
def test_writes_far_from_their_array_are_found(at: int, device: int) -> None:
    graph = TaskGraph("far")
    x, y = graph.array("x", data=np.ones(SIZE)), graph.array("y", (SIZE,), "float64")
    graph.kernel(FAR_WRITE, name="far", x=x, y=y, at=at)
    said = r"writes beyond array 'y' .* 799936 bytes behind" if at > 0 else r"array 'y' .* 800000 bytes before"
    with run(graph, DEBUG, device) as started, pytest.raises(UndeclaredWriteError, match=said):
        started.wait()


def test_a_write_into_any_other_array_is_found() -> None:
    graph = TaskGraph("far")
    x, y = graph.array("x", data=np.ones(SIZE)), graph.array("y", (SIZE,), "float64")
    others = [graph.array(f"other{n}", (1 << n,), "float64") for n in range(4, 20, 5)]
    for other in others:
        graph.kernel(operation("halves"), name=f"write {other.name}", x=x, y=other)
    addresses = graph.array("addresses", (1 + len(others),), "int64")
    found: list[int] = []

    def note(**arrays: Any) -> None:
        found.extend(arrays[name].ctypes.data for name in ("y", *(other.name for other in others)))
        arrays["addresses"].fill(1)

    graph.host(note, name="note", y=y.write(), **{o.name: o.read() for o in others}, addresses=addresses.write())

    def write_far(y: Any, addresses: Any) -> None:
        ctypes.c_double.from_address(found[-1] + 8 * (1 << 10)).value = 7.0
        y.fill(0.0)

    graph.host(write_far, name="far", y=y.write(), addresses=addresses.read())
    with run(graph, DEBUG) as started, pytest.raises(UndeclaredWriteError, match=r"'far'.*changes array 'other19'"):
        started.wait()


def test_write_into_a_constant_is_found_and_undone() -> None:
    operation = kernel_of(
        "weighs", Parameter("x", AccessMode.READ), Parameter("y", AccessMode.WRITE), Parameter("w", AccessMode.READ)
    )
    weights = constant(np.ones(SIZE), name="weights")
    for _ in range(2):
        graph = TaskGraph("constants")
        x, y = graph.array("x", data=np.ones(SIZE)), graph.array("y", (SIZE,), "float64")
        graph.kernel(operation, name="weighs", x=x, y=y, w=weights)
        said = r"'weighs'.*changes the constant 'weights' in"
        with run(graph, DEBUG) as started, pytest.raises(UndeclaredWriteError, match=said):
            started.wait()


def test_red_zones_are_as_large_as_the_memory_allows() -> None:
    platform, live = live_on(None)
    device = platform.compute_devices[0]
    graph = TaskGraph("small")
    x, y = graph.array("x", data=np.ones(SIZE)), graph.array("y", (SIZE,), "float64")
    graph.kernel(operation("halves"), name="first", x=x, y=y)
    plan = plan_on(graph, platform, device.name)
    with execute(plan, graph, live, safeguards=DEBUG) as started:
        started.wait()
        assert set(started._resources.engine.buffers._guard_bytes.values()) == {MOST_GUARD_BYTES}
    small = with_memory_limit(platform, 1 << 16)
    plan = plan_on(graph, small, device.name)
    with execute(plan, graph, live, safeguards=DEBUG) as started:
        started.wait()
        # Of both red zones of its buffers together, at most half of the memory that the plan leaves.
        assert 0 < 2 * started._resources.engine.buffers._guard_bytes[device.space] <= 1 << 15


def test_writes_outside_the_declared_rows_are_found() -> None:
    graph = TaskGraph("rows")
    x = graph.array("x", data=np.ones(4))
    y = graph.array("y", data=np.zeros(12))
    graph.kernel(operation("writes_before", 4), name="low", x=x, y=y[4:8])
    graph.kernel(operation("halves", 4), name="high", x=x, y=y[8:12])
    said = r"array 'y'.*\[3\].*declares to write y\[4:8\] only"
    with run(graph, DEBUG) as started, pytest.raises(UndeclaredWriteError, match=said):
        started.wait()


def test_writes_to_captured_arrays_in_host_functions_are_detected() -> None:
    kept: list[Any] = []
    graph = TaskGraph("closure")
    x, y = graph.array("x", (4,), "float64"), graph.array("y", (4,), "float64")
    graph.host(lambda x: (kept.append(x), x.fill(1.0)), x=x.write(), name="keeps")
    graph.host(lambda y: (kept[0].fill(2.0), y.fill(0.0)), y=y.write(), name="changes")
    with run(graph, DEBUG) as started, pytest.raises(UndeclaredWriteError, match=r"'changes'.*array 'x'"):
        started.wait()


def test_reads_of_unwritten_memory_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    graph = TaskGraph("unwritten")
    x = graph.array("x", data=np.ones(SIZE))
    y, z = graph.array("y", (SIZE,), "float64"), graph.array("z", (SIZE,), "float64")
    graph.kernel(operation("halves"), name="first", x=x, y=y)
    graph.kernel(operation("halves"), name="second", x=y, y=z)
    with caplog.at_level(logging.WARNING, "syclsched"), run(graph, DEBUG) as started:
        started.wait()
    assert "task 'second' (opencl-c): it may read 4 of 8 elements of array 'y'" in caplog.text
    assert "the first at [1]" in caplog.text


@pytest.mark.parametrize("device", [0, 1])
def test_the_first_task_that_writes_an_infinity_is_named(device: int) -> None:
    values = np.ones(SIZE)
    values[5] = 0.0
    graph = TaskGraph("infinite")
    x = graph.array("x", data=values)
    y, z, w = (graph.array(name, (SIZE,), "float64") for name in "yzw")
    graph.kernel(operation("divides"), name="first", x=x, y=y)
    graph.kernel(operation("divides"), name="second", x=y, y=z)
    graph.host(lambda w: w.fill(3.0), w=w.write(), name="other")
    with run(graph, NAN_GUARD, device) as started:
        said = r"task 'first'.*writes inf to 'y' at \[5\], 1 of 8 elements; its input 'x' was finite"
        with pytest.raises(NotFiniteError, match=said):
            started.wait()
        np.testing.assert_array_equal(started.result("w"), np.full(SIZE, 3.0))
        np.testing.assert_array_equal(started.result("x"), values)
        with pytest.raises(NotFiniteError):
            started.result("z")


def test_non_finite_inputs_of_a_failing_task_are_reported() -> None:
    def spoil(x: Any) -> None:
        x[2] *= np.inf

    graph = TaskGraph("given")
    x = graph.array("x", data=np.array([np.nan, 1.0, 1.0, np.inf]))
    graph.host(spoil, x=x.update(), name="spoils")
    with (
        run(graph, NAN_GUARD) as started,
        pytest.raises(NotFiniteError, match="'x' had 2 elements that are not finite"),
    ):
        started.wait()


def test_failures_and_statuses_are_as_in_other_runs() -> None:
    def fail(x: Any) -> None:
        raise ValueError("no")

    graph = TaskGraph("failures")
    x = graph.array("x", data=np.array([-1]))
    y, status = graph.array("y", (1,), DTYPE), graph.array("status", (1,), "int32")
    graph.kernel(JUDGE, name="judges", x=x, status=status)
    graph.host(fail, x=y.write(), name="fails")
    with run(graph, DEBUG) as started:
        with pytest.raises(TaskFailedError, match="x is negative"):
            started.wait()
        with pytest.raises(TaskFailedError):
            started.result("y")


@pytest.mark.parametrize("end", ["cancel", "close", "exception"])
def test_a_stepped_run_can_be_ended_early(end: str) -> None:
    graph = TaskGraph("long")
    x, y = graph.array("x", data=np.zeros(SIZE, DTYPE)), graph.array("y", data=np.zeros(SIZE, DTYPE))
    for i in range(2000):
        graph.kernel(MIX, name=f"t{i}", x=x, y=y, a=1)
    started = run(graph, DEBUG)
    ways: dict[str, Callable[[], object]] = {"cancel": started.cancel, "close": started.close}
    if end == "exception":
        with pytest.raises(KeyboardInterrupt), started:
            raise KeyboardInterrupt
    else:
        ways[end]()
        started.join()
    assert started.done()
    started.close()


def test_results_can_be_read_while_steps_continue() -> None:
    graph = TaskGraph("early")
    x, y = graph.array("x", data=np.arange(SIZE, dtype=DTYPE)), graph.array("y", data=np.zeros(SIZE, DTYPE))
    graph.kernel(MIX, name="first", x=x, y=y, a=1)
    z = graph.array("z", data=np.zeros(SIZE, DTYPE))
    for i in range(20):
        graph.kernel(MIX, name=f"t{i}", x=x, y=z, a=1)
    with run(graph, NAN_GUARD) as started:
        np.testing.assert_array_equal(started.result("y", timeout=60), 2 * np.arange(SIZE))


@pytest.mark.parametrize("safeguards", [Safeguards(), DEBUG])
def test_the_story_of_a_task_has_its_arrays_and_dependencies(safeguards: Safeguards) -> None:
    graph = TaskGraph("story")
    x, y = graph.array("x", data=np.arange(SIZE, dtype=DTYPE)), graph.array("y", data=np.zeros(SIZE, DTYPE))
    graph.kernel(MIX, name="first", x=x, y=y, a=1)
    graph.kernel(MIX, name="second", x=x, y=y, a=1)
    with run(graph, safeguards) as started:
        told = started.story("second")
    assert re.search(r"task 'second' \(mix\) by 'opencl-c' on lane \w+:0 of device '\w+': done", told)
    assert re.search(r"reads +'x' in \w+\n +updates +'y' in \w+\n +ready at +\S+ ms: 'first' on", told)
    assert re.search(r"it took .*, predicted .* times\)", told)


def test_devices_without_host_memory_are_checked(platform_and_live: tuple[Platform, Any]) -> None:
    platform, live = platform_and_live
    graph = wrong("writes_input")
    plan = plan_on(graph, platform, platform.compute_devices[0].name)
    with execute(plan, graph, live, safeguards=DEBUG) as started, pytest.raises(UndeclaredWriteError, match="'x'"):
        started.wait()


@pytest.fixture
def platform_and_live(monkeypatch: pytest.MonkeyPatch) -> tuple[Platform, Any]:
    """The platform as if no device's memory could be addressed by the host."""
    from dataclasses import replace

    platform, live = live_on(None)
    spaces = tuple(s if s.name == "host" else replace(s, host_accessible=False) for s in platform.spaces)
    return replace(platform, spaces=spaces), live


@pytest.mark.parametrize("late", ["slow", "quick"])
def test_deadlines_apply_to_the_running_step(late: str, request: pytest.FixtureRequest) -> None:
    """The host's step waits for nothing, and runs after the other step all the same."""
    platform, live = live_on(None)
    graph = TaskGraph("steps")
    y, z = (graph.array(name, data=np.ones(1, DTYPE)) for name in "yz")
    graph.kernel(SPIN, name="slow", y=y, turns=400_000_000, deadline_s=0.05 if late == "slow" else None)
    graph.host(lambda z: None, z=z.write(), name="quick", deadline_s=0.05 if late == "quick" else None)
    plan = plan_by(graph, platform, lambda n: ("cpu", 0, "opencl-c") if n == "slow" else ("host", 0, "host"))
    watchdog_time = request.getfixturevalue("watchdog_time") if late == "quick" else None
    started = execute(plan, graph, live, safeguards=DEBUG)
    if watchdog_time is None:
        with pytest.raises(DeadlineError, match="task 'slow'"):
            started.wait(60)
    else:
        watchdog_time(lambda: any(lane.task == "slow" and lane.runs for lane in started._engine.positions()))
        started.wait(60)
    started.close()
