# SPDX-License-Identifier: Apache-2.0
"""Calibration on the CPU device: timed, refused and omitted implementations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.loads import QUIET, busy_machine
from support.sample_profiles import device_profile

import syclsched
from syclsched.costs.history import history_key
from syclsched.costs.model import CostModel
from syclsched.errors import CapabilityError, MeasurementError, MemoryLimitError
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Work
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.profile import Quantity
from syclsched.planner import plan_graph
from syclsched.profiling.calibration import calibrate
from syclsched.profiling.statistics import InterruptedMeasurement, Sampler
from syclsched.profiling.storage.history_store import HistoryStore
from syclsched.profiling.task_timing import TimedCase

BUSY = busy_machine()


def scale_operation(fails: bool = False) -> Operation:
    """Return an operation that scales an array in place on the host and as OpenCL C, which may be wrong on purpose."""
    from syclsched.model.operation import Launch, OpenCLSource

    source = "kernel void scale(global float* x) { x[get_global_id(0)] *= 2.0f; }"

    def on_host(x: Any) -> None:
        x *= 2
        assert x.max() < 4, "the data was not restored"

    return Operation(
        "scale",
        (Parameter("x", AccessMode.UPDATE, ndim=1, dtypes=("float32",)),),
        (
            Implementation(
                "opencl-c", "opencl-c",
                load=lambda s: OpenCLSource("broken" if fails else source, "scale"),
                launch=lambda s, d: Launch(s.shapes["x"]),
            ),
            Implementation("host", "host", load=lambda s: on_host),
        ),
        work=lambda s: Work(s.shapes["x"][0], 8 * s.shapes["x"][0], "float32"),
    )  # fmt: skip


def scale_graph(operation: Operation) -> TaskGraph:
    graph = TaskGraph("scaling")
    arrays = [graph.array(f"x{i}", data=np.ones(64, np.float32)) for i in range(3)]
    other = graph.array("other", (128,), "float32")
    for array in (*arrays, other):
        graph.kernel(operation, x=array)
    return graph


@pytest.mark.sycl
def test_each_kind_of_task_is_timed_once_on_every_device(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    graph = scale_graph(scale_operation())
    with HistoryStore(":memory:") as history:
        told: list[tuple[int, int, str]] = []
        done = calibrate(graph, platform, live, history, seconds_each=0.0, progress=lambda *t: told.append(t))
        assert (done.measured, done.known, done.failures, done.complete) == (4, 0, (), True)
        assert told[:2] == [(0, 4, "building 2 kernels"), (0, 4, "scale (opencl-c) on cpu")]
        assert told[-1] == (4, 4, "")
        task = graph.tasks[0]
        assert task.operation is not None
        assert task.signature is not None
        for device, implementation in (("cpu", "opencl-c"), (HOST, "host")):
            found = task.operation.implementation(implementation)
            key = history_key(platform.device(device).key, task.operation, found, task.signature)
            quantity = history.lookup(key)
            assert quantity is not None
            assert quantity.value > 0
        assert done.provisional == 4  # of one sample each
        for _ in range(4):
            still = Sampler(clock=lambda: 0.0)
            again = calibrate(graph, platform, live, history, sampler=still, seconds_each=0.0, meter=QUIET)
            assert (again.measured, again.known, again.failures) == (4, 0, ())
        task = graph.tasks[0]
        assert task.operation is not None and task.signature is not None
        key = history_key(platform.device("cpu").key, task.operation, task.operation.implementations[0], task.signature)
        assert len(history.stored(key)) == 5
    assert np.array_equal(graph.data["x0"], np.ones(64, np.float32))


@pytest.mark.sycl
def test_single_implementations_are_not_timed_with_choices_only(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    both = scale_operation()
    one = replace(both, name="one way", implementations=both.implementations[:1])
    graph = scale_graph(both)
    graph.kernel(one, x=graph.array("only", (256,), "float32"))
    with HistoryStore(":memory:") as history:
        done = calibrate(graph, platform, live, history, seconds_each=0.0, choices_only=True)
        assert (done.measured, done.known, done.left_out, done.failures) == (4, 0, 1, ())
        again = calibrate(graph, platform, live, history, seconds_each=0.0, meter=BUSY)
        assert (again.measured, again.known) == (1, 4)


@pytest.mark.sycl
def test_task_without_a_choice_is_not_timed(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    both = scale_operation()
    one, other = (replace(both, implementations=(each,)) for each in both.implementations[:2])

    def measured(operations: list[Operation]) -> int:
        graph = TaskGraph()
        for number, operation in enumerate(operations):
            graph.kernel(operation, x=graph.array(f"x{number}", data=np.ones(64, np.float32)))
        with HistoryStore(":memory:") as history:
            return calibrate(graph, platform, live, history, seconds_each=0.0, choices_only=True).measured

    assert [measured(each) for each in ([one, other], [one, both], [one, other, both])] == [0, 2, 2]


def several_ways(slow_s: float, quick_s: float) -> tuple[Operation, list[str], Sampler]:
    """Return a host operation with a slow, a quick and a slow function, in this order; the calls; and a sampler.

    Only these functions advance the clock of the sampler.
    """
    called: list[str] = []
    now_s = 0.0

    def way(name: str, pause_s: float) -> Implementation:
        def function(x: Any) -> None:
            nonlocal now_s
            called.append(name)
            now_s += pause_s

        return Implementation(name, "host", load=lambda s: function)

    operation = Operation(
        "several",
        (Parameter("x", AccessMode.UPDATE, ndim=1, dtypes=("float32",)),),
        (way("first", slow_s), way("quick", quick_s), way("last", slow_s)),
        work=lambda s: Work(1.0, 8.0, "float32"),
    )
    return operation, called, Sampler(clock=lambda: now_s)


@pytest.mark.sycl
def test_the_fastest_implementation_is_planned_from_then_on(machine: tuple[Platform, Any], tmp_path: Path) -> None:
    platform, live = machine
    operation, called, sampler = several_ways(0.002, 1e-6)
    graph = TaskGraph("several")
    graph.kernel(operation, x=graph.array("x", data=np.ones(8, np.float32)))
    with HistoryStore(tmp_path / "history.sqlite3") as history:
        done = calibrate(graph, platform, live, history, sampler=sampler, seconds_each=0.01, meter=QUIET)
        assert (done.measured, done.failures) == (3, ())
    assert called.count("last") == 3  # so much slower than the second that more samples were not worth their time
    with HistoryStore(tmp_path / "history.sqlite3") as history:  # as another process opens it
        again = calibrate(graph, platform, live, history, sampler=sampler, seconds_each=0.01, meter=BUSY)
        assert (again.measured, again.known) == (0, 3)
        task = graph.tasks[0]
        choice = CostModel(platform, history).best(task, platform.device(HOST))
        assert choice is not None
        assert (choice[0].name, choice[1].origin) == ("quick", "measured")


@pytest.mark.sycl
def test_implementations_without_possible_gain_are_not_compiled(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    slow = device_profile(platform.device("cpu").key)
    bandwidth = replace(slow.triad_bandwidth_bytes_per_s, value=1.0)
    slow = replace(slow, triad_bandwidth_bytes_per_s=bandwidth, bandwidth_curve=())  # every kernel is faster than this
    devices = tuple(replace(d, profile=slow) if d.name == "cpu" else d for d in platform.devices)
    operation = scale_operation()
    first, host = operation.implementations
    operation = replace(operation, implementations=(first, replace(first, name="another"), host))
    still = Sampler(clock=lambda: 0.0)
    with HistoryStore(":memory:") as history:
        done = calibrate(
            scale_graph(operation), replace(platform, devices=devices), live, history, sampler=still, meter=QUIET
        )
    assert done.left_out == 2  # the one named "another", for both sizes
    assert done.failures == ()


@pytest.mark.sycl
def test_given_sample_data_are_used(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    asked: list[str] = []

    def sample_data(task: Any, parameter: str) -> Any:
        asked.append(f"{task.name}.{parameter}")
        return np.full(task.signature.shapes[parameter], 1.5, np.float32)

    with HistoryStore(":memory:") as history:
        done = calibrate(
            scale_graph(scale_operation()), platform, live, history, sample_data=sample_data, seconds_each=0.0
        )
    assert done.failures == ()
    assert set(asked) == {"scale_0.x", "scale_3.x"}


@pytest.mark.sycl
def test_kernels_on_arrays_without_dimensions_are_timed(machine: tuple[Platform, Any], tmp_path: Path) -> None:
    """Before, they were given one-dimensional arrays, which numba-dpex passes in more arguments than the kernel had."""
    platform, live = machine
    graph = TaskGraph()
    x = graph.array("x", (4, 4), "float32", data=np.ones((4, 4), np.float32))
    graph.kernel(reduce("sum", (0, 1), False), y=graph.array("y", (), "float32"), x=x)
    with HistoryStore(tmp_path / "history.sqlite") as history:
        done = calibrate(graph, platform, live, history, seconds_each=0.01)
    assert not done.failures and done.measured >= 2


@pytest.mark.sycl
def test_compile_failures_are_listed_and_others_measured(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    with HistoryStore(":memory:") as history:
        done = calibrate(scale_graph(scale_operation(fails=True)), platform, live, history, seconds_each=0.0)
    assert done.measured == 2
    assert [failure.label for failure in done.failures] == ["scale (opencl-c) on cpu"] * 2


def refusing(error: Exception) -> tuple[Operation, Callable[[], None]]:
    """Return an operation whose library, first in order, raises an error in every call, and a function to repair it."""
    broken = True

    def call(queue: Any, arguments: Any, depends: list[Any]) -> Any:
        if broken:
            raise error
        return queue.submit_barrier(depends)

    def mend() -> None:
        nonlocal broken
        broken = False

    operation = scale_operation()
    library = Implementation("library", "library", lambda _: call)
    return replace(operation, implementations=(library, *operation.implementations)), mend


@pytest.mark.sycl
def test_library_refusals_are_stored_until_timing_succeeds(machine: tuple[Platform, Any], tmp_path: Path) -> None:
    platform, live = machine
    platform = replace(platform, devices=tuple(d for d in platform.devices if not d.is_host))
    operation, mend = refusing(CapabilityError("no engine for this device", where="a library"))
    graph = scale_graph(operation)
    path = tmp_path / "history.sqlite3"
    with HistoryStore(path) as history:
        done = calibrate(graph, platform, live, history, seconds_each=0.0)
    assert [(f.label, f.is_refusal) for f in done.failures] == [("scale (library) on cpu", True)] * 2
    with HistoryStore(path) as history:  # as another process opens it
        plan = plan_graph(graph, platform, history=history)
        assert {a.implementation for a in plan.schedule.assignments} == {"opencl-c"}
        assert "refused      by cpu: library: a library: no engine for this device" in plan.explain("scale_0")
        assert Plan.from_json(plan.to_json()).refusals == plan.refusals
        kernels = replace(operation, implementations=operation.implementations[:1])
        only = TaskGraph()
        only.kernel(kernels, x=only.array("x", (64,), "float32"))
        with pytest.raises(CapabilityError, match="library: a library: no engine"):
            plan_graph(only, platform, history=history)
        mend()
        again = calibrate(graph, platform, live, history, seconds_each=0.0, meter=BUSY)
        assert (again.measured, again.failures) == (2, ())
        assert not history.refusals()


@pytest.mark.sycl
def test_transient_failures_are_not_stored_as_refusals(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    operation, _ = refusing(MemoryLimitError("no memory just now"))
    with HistoryStore(":memory:") as history:
        done = calibrate(scale_graph(operation), platform, live, history, seconds_each=0.0)
        assert [(f.label, f.is_refusal) for f in done.failures] == [("scale (library) on cpu", False)] * 2
        assert not history.refusals()


@pytest.mark.sycl
def test_calibration_can_be_interrupted(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    with HistoryStore(":memory:") as history:
        sampler = Sampler(interrupted=lambda: len(history) >= 1)
        done = calibrate(scale_graph(scale_operation()), platform, live, history, sampler=sampler, seconds_each=0.0)
        assert (done.measured, done.complete) == (1, False)
        assert len(history) == 1


def test_interruption_is_an_error_of_this_project() -> None:
    assert issubclass(InterruptedMeasurement, MeasurementError)


def test_slowly_compiled_kernels_with_little_gain_are_not_timed() -> None:
    from syclsched.profiling import calibration

    operation = reduce("sum", (0,), False)
    graph = TaskGraph()
    graph.kernel(operation, y=graph.array("y", (64,), "float32"), x=graph.array("x", (64, 64), "float32"))
    (task,) = graph.tasks
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs = CostModel(platform)
    assert task.signature is not None
    quick, slow, one = (Quantity(1e-9, samples=9), Quantity(1.0, samples=9), Quantity(1.0, uncertainty=0.5))
    assert not quick.uncertainty
    for name, expected in (("python", True), ("opencl-c", False)):
        by = operation.implementation(name)
        case = TimedCase(
            task, operation, task.signature, device, by, history_key(device.key, operation, by, task.signature)
        )
        guess_s = costs.task_seconds(task, by, device).seconds
        other = replace(by, name="another")
        fastest = other, replace(slow, value=10 * guess_s)
        assert calibration._is_needless(case, costs, fastest, 20 * guess_s) is expected
        assert not calibration._is_needless(case, costs, fastest, 5 * guess_s)
        assert not calibration._is_needless(case, costs, fastest)
        assert calibration._is_needless(case, costs, None, 20 * guess_s)  # no other can save as much
        assert not calibration._is_needless(case, costs, None, 2 * guess_s)
        badly = other, replace(one, value=10 * guess_s)
        assert calibration._is_needless(case, costs, badly, 20 * guess_s) is expected
        assert not calibration._is_needless(case, costs, badly, 5 * guess_s)
        assert calibration._is_needless(case, costs, (other, quick))  # faster than the roofline
        disturbed = replace(case, device=with_busy_profile(device))
        assert not calibration._is_needless(disturbed, costs, (other, quick))
        # Uncertain times suffice where both the roofline and the other implementation show that it cannot be faster.
        better = replace(other, efficiency=min(1.0, 3 * by.efficiency))
        badly = replace(one, value=guess_s / 2)
        assert calibration._is_needless(disturbed, costs, (better, badly)) is expected
        assert not calibration._is_needless(disturbed, costs, (better, replace(badly, value=guess_s)))
        assert not calibration._is_needless(disturbed, costs, (replace(by, name="as good"), badly))


@pytest.mark.sycl
def test_of_kernels_with_the_same_code_one_is_timed_for_a_choice(tmp_path: Path) -> None:
    """The other would be compiled for a second, with the same measured time."""
    from syclsched.devices import open_devices

    operation, graph = reduce("sum", (0,), False), TaskGraph()
    graph.kernel(operation, y=graph.array("y", (64,), "float32"), x=graph.array("x", (512, 64), "float32"))
    (signature,) = (task.signature for task in graph.tasks)
    assert signature is not None
    platform = syclsched.discover("cpu")
    (device,) = platform.compute_devices
    opencl, python = (
        history_key(device.timing_key, operation, operation.implementation(name), signature)
        for name in ("opencl-c", "python")
    )
    with HistoryStore(tmp_path / "history.sqlite3") as history, open_devices(platform) as devices:
        history.record(opencl, [0.1] * 9)  # much longer than the model of both
        calibrate(graph, platform, devices, history, choices_only=True)
        assert history.lookup(opencl) is not None and history.lookup(python) is None


def with_busy_profile(device: Device) -> Device:
    assert device.profile is not None
    return replace(device, profile=replace(device.profile, provenance=replace(device.profile.provenance, busy=True)))
