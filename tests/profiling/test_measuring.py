# SPDX-License-Identifier: Apache-2.0
"""Tiny profiling sessions and calibrations on the CPU device: structure, verification, interruption."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sample_profiles import device_profile

import syclsched
from syclsched.costs.history import history_key
from syclsched.costs.model import CostModel
from syclsched.devices.programs import program_cache, programs, task_compiler
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.errors import CapabilityError, MeasurementError, MemoryLimitError
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Work
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.profile import Quantity
from syclsched.planner import plan_graph
from syclsched.profiling.busy import CpuTimes, LoadMeter
from syclsched.profiling.calibration import Calibration, calibrate
from syclsched.profiling.measure import microkernels, overlap, throughput
from syclsched.profiling.measure.bandwidth import last_level_cache_bytes, triad, triad_bytes
from syclsched.profiling.measure.bench import Bench
from syclsched.profiling.measure.session_budget import QUICK
from syclsched.profiling.session import MeasurementEnvironment, profile_platform
from syclsched.profiling.statistics import InterruptedMeasurement, Sampler
from syclsched.profiling.storage.attaching import with_profiles
from syclsched.profiling.storage.files import ProfileSet, parse_profile_set
from syclsched.profiling.storage.history_store import HistoryStore
from syclsched.profiling.task_timing import TimedCase, synthetic_data

TINY = replace(
    QUICK,
    total_s=5.0,
    number_s=0.0,
    point_s=0.0,
    kernel_s=1e-4,
    curve_bytes=(3 << 10, 3 << 14),
    transfer_bytes=(1 << 10, 1 << 14),
    watch_s=0.0,
    power_s=0.06,
)


# --- without a device -------------------------------------------------------------------------------


def cpu(**changes: Any) -> Device:
    device = Device("cpu", "key", "cpu", "opencl", "a CPU", "cpu", ("cpu",), dtypes=("float32", "float64", "int32"))
    return replace(device, **changes)


def test_the_reference_of_the_fma_chain_is_the_closed_form() -> None:
    x = np.array([0.0, 1.0], np.float32)
    result = microkernels.fma_reference(x, np.array([2, 1], np.float32), 3)
    assert result.tolist() == [12 * 7.0, 78 * 8 + 12 * 7.0]


@pytest.mark.parametrize("dtype", throughput.DTYPES)
def test_known_answers_are_exact_in_every_dtype(dtype: str) -> None:
    for multiplier, addend, n in throughput._KNOWN_ANSWERS:
        wide = microkernels.fma_reference(np.arange(2).astype("float64"), np.array([multiplier, addend], "float64"), n)
        narrow = microkernels.fma_reference(np.arange(2).astype(dtype), np.array([multiplier, addend], dtype), n)
        assert narrow.astype("float64").tolist() == wide.tolist()


def test_the_triad_is_larger_than_the_caches_and_smaller_than_the_memory(tmp_path: Path) -> None:
    large = cpu(global_memory_bytes=1 << 40)
    assert triad_bytes(large, 64 << 20) == 256 << 20
    assert triad_bytes(large, 0) == 48 << 20
    assert triad_bytes(cpu(global_memory_bytes=64 << 20), 64 << 20) == 8 << 20
    (tmp_path / "index3").mkdir()
    (tmp_path / "index3" / "size").write_text("36608K\n")
    assert last_level_cache_bytes(tmp_path) == 36608 << 10
    assert last_level_cache_bytes(tmp_path / "none") == 0


def test_half_precision_is_measured_only_where_it_can_be() -> None:
    assert throughput.measurable_dtypes(cpu()) == ("float32", "float64", "int32")
    half = (*cpu().dtypes, "float16")
    assert "float16" in throughput.measurable_dtypes(cpu(dtypes=half))
    assert "float16" not in throughput.measurable_dtypes(cpu(dtypes=half, backend="level_zero"))


def test_overlap_factor() -> None:
    assert overlap.overlap_factor([1.0, 1.0], 1.0) == 0.0
    assert overlap.overlap_factor([1.0, 1.0], 2.0) == 1.0
    assert overlap.overlap_factor([1.0, 3.0], 3.5) == 0.5
    assert overlap.overlap_factor([1.0, 1.0], 0.9) == 0.0


class VirtualDevice:
    """Loads on a virtual clock: each runs alone on a core, or all take turns; every third wait is disturbed."""

    def __init__(self, shared: bool) -> None:
        self.now, self.shared, self.queued, self.waits = 0.0, shared, 0, 0

    def submit(self) -> None:
        self.queued += 1

    def wait(self) -> None:
        self.now += self.queued if self.shared else min(self.queued, 1)
        self.queued = 0
        self.waits += 1
        self.now += 5.0 if self.waits % 3 == 0 else 0.0


@pytest.mark.parametrize(("shared", "factor"), [(True, 1.0), (False, 0.0)])
def test_disturbances_do_not_change_what_overlaps(shared: bool, factor: float) -> None:
    device = VirtualDevice(shared)
    load = overlap.Load(device.submit, device.wait)
    sampler = Sampler(clock=lambda: device.now)
    quantity = overlap.measure_overlap(sampler, [load, load], budget_s=300.0)
    assert quantity.value == factor
    assert quantity.samples > 1


def test_synthetic_matrices_are_well_conditioned() -> None:
    signature = Signature({"a": (32, 32), "out": (4,), "k": (8,)}, {"a": "float64", "out": "float64", "k": "int32"})
    matrix = synthetic_data(Parameter("a", AccessMode.UPDATE), signature)
    lower = np.tril(matrix)
    assert np.linalg.eigvalsh(lower + np.tril(matrix, -1).T).min() > 0
    assert not synthetic_data(Parameter("out", AccessMode.WRITE), signature).any()
    assert set(synthetic_data(Parameter("k", AccessMode.READ), signature)) <= set(range(7))


# --- on the CPU device ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def machine() -> Iterator[tuple[Platform, Any]]:
    from syclsched.devices import discover, open_devices

    platform = discover(selector="cpu")
    # Host functions are timed once, not also with fewer threads, which makes a difference on several cores only.
    devices = tuple(replace(d, most_lanes=0, processor=None) if d.is_host else d for d in platform.devices)
    platform = replace(platform, devices=devices)
    with open_devices(platform) as live:
        yield platform, live


@pytest.mark.sycl
@pytest.mark.usefixtures("small_triad")
def test_a_session_measures_everything_and_its_profile_survives_a_file(machine: tuple[Platform, Any]) -> None:
    from syclsched.model.text.json_serialisation import to_json

    platform, live = machine
    told: list[tuple[str, int, int, str]] = []
    where = MeasurementEnvironment("a processor", {"dpctl": "x"}, {"CL_CONFIG_CPU_TARGET_ARCH": "y"})
    result = profile_platform(platform, live, TINY, progress=lambda *t: told.append(t), where=where)
    assert result.complete
    (profile,) = result.devices
    assert profile.key == platform.compute_devices[0].key
    assert profile.provenance.complete
    assert profile.provenance.host == "a processor"
    assert not [n for n in profile.provenance.notes if "wrong" in n]
    assert set(profile.peak_flops) == set(throughput.measurable_dtypes(platform.compute_devices[0]))
    assert set(profile.transfers) == {"h2d", "d2h", "d2d"}
    assert [size for size, _ in profile.bandwidth_curve] == [3 << 10, 3 << 14]
    assert {"device", "shared", "host"} == set(profile.usm)
    assert profile.usm["host"].read_bandwidth_bytes_per_s is not None
    assert profile.usm["host"].read_bandwidth_bytes_per_s.value > 0
    for quantity in (profile.launch.chain_task_s, profile.launch.cross_queue_s, profile.launch.jit_first_launch_s):
        assert quantity is not None
        assert quantity.value > 0
    assert profile.overlap.kernel_kernel is not None
    assert profile.overlap.copy_kernel is not None
    assert profile.identity.host_accessible
    assert 1 <= profile.identity.lanes <= profile.identity.compute_units
    profiles = ProfileSet(result.devices, result.pairs)
    assert parse_profile_set(to_json(profiles), where="memory") == profiles
    assert told[0][1] == 0
    assert told[-1][1] == told[-1][2]
    assert with_profiles(platform, {profile.key: profile}, ()).submission_s == profile.launch.submission_s.value


@pytest.mark.sycl
@pytest.mark.usefixtures("small_triad")
def test_a_session_builds_the_kernels_it_measures_together(
    machine: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    platform, live = machine
    monkeypatch.setenv(program_cache.VARIABLE, "0")
    monkeypatch.setattr(programs, "_PROGRAMS", BoundedCache(100))
    monkeypatch.setattr(task_compiler, "_EXECUTABLES", BoundedCache(100))
    caplog.set_level(logging.DEBUG, "syclsched")
    profile_platform(platform, live, TINY)
    built = [each for each in caplog.messages if each.startswith("compiling") and "first_launch" not in each]
    # One program without extensions, and one for each of float64 and float16.
    assert 1 <= len(built) <= 3
    assert any("empty" in each and "fma_chain, fma_chain" in each for each in built)


@pytest.mark.sycl
@pytest.mark.usefixtures("small_triad")
@pytest.mark.parametrize(("steps", "kept"), [(1, 0), (6, 1)])
def test_an_interrupted_session_keeps_what_is_done(machine: tuple[Platform, Any], steps: int, kept: int) -> None:
    platform, live = machine
    begun: list[str] = []
    result = profile_platform(
        platform,
        live,
        TINY,
        sampler=Sampler(interrupted=lambda: len(begun) > steps),
        progress=lambda device, done, total, label: begun.append(label),
    )
    assert not result.complete
    assert len(result.devices) == kept
    assert any("interrupted" in note for note in result.notes)
    for profile in result.devices:
        assert not profile.provenance.complete
        assert profile.transfers == {} or "d2d" not in profile.transfers


@pytest.mark.sycl
@pytest.mark.usefixtures("small_triad")
def test_a_wrong_result_is_found_out(machine: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    platform, live = machine
    monkeypatch.setattr(throughput, "fma_reference", lambda x, c, n: x + 1)
    bench = Bench(live, platform.compute_devices[0], Sampler())
    with bench, pytest.raises(MeasurementError, match="wrong float32 results"):
        throughput.FmaChain(bench, "float32")
    result = profile_platform(platform, live, TINY)
    assert result.devices == ()
    assert any("wrong" in note for note in result.notes)


@pytest.mark.sycl
def test_the_triad_counts_three_arrays(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    with Bench(live, platform.compute_devices[0], Sampler()) as bench:
        sample, moved = triad(bench, 1001)
        assert moved == 41 * 24
        assert sample() >= 0


# --- calibration ------------------------------------------------------------------------------------


def scale_operation(fails: bool = False) -> Operation:
    """Scale an array in place: on the host, and as OpenCL C (which may be wrong on purpose)."""
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
def test_what_there_is_no_choice_of_is_not_timed_if_only_choices_are(machine: tuple[Platform, Any]) -> None:
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


#: A machine whose load is not known, and one of which other processes take half.
QUIET = LoadMeter(read=lambda: None)


def busy_machine() -> LoadMeter:
    times = (CpuTimes(0.5 * n, float(n), 0.0) for n in itertools.count())
    return LoadMeter(read=lambda: next(times))


BUSY = busy_machine()


def several_ways(slow_s: float, quick_s: float) -> tuple[Operation, list[str], Sampler]:
    """An operation the host can do slowly, quickly and slowly, in this order of preference; what was called; the time.

    The clock of the sampler is moved by these functions alone.
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
def test_the_fastest_of_several_is_planned_in_every_process_after(
    machine: tuple[Platform, Any], tmp_path: Path
) -> None:
    platform, live = machine
    operation, called, sampler = several_ways(0.002, 1e-6)
    graph = TaskGraph("several")
    graph.kernel(operation, x=graph.array("x", data=np.ones(8, np.float32)))
    with HistoryStore(tmp_path / "history.sqlite3") as history:
        done = calibrate(graph, platform, live, history, sampler=sampler, seconds_each=0.01, meter=QUIET)
        assert (done.measured, done.failures) == (3, ())
    assert called.count("last") == 3  # so much slower than the second that no more samples were worth their time
    with HistoryStore(tmp_path / "history.sqlite3") as history:  # as another process opens it
        again = calibrate(graph, platform, live, history, sampler=sampler, seconds_each=0.01, meter=BUSY)
        assert (again.measured, again.known) == (0, 3)
        task = graph.tasks[0]
        choice = CostModel(platform, history).best(task, platform.device(HOST))
        assert choice is not None
        assert (choice[0].name, choice[1].origin) == ("quick", "measured")


@pytest.mark.sycl
def test_what_cannot_be_much_faster_is_not_even_compiled(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    slow = device_profile(platform.device("cpu").key)
    bandwidth = replace(slow.triad_bandwidth_bytes_per_s, value=1.0)
    slow = replace(slow, triad_bandwidth_bytes_per_s=bandwidth, bandwidth_curve=())  # a byte a second is easily reached
    devices = tuple(replace(d, profile=slow) if d.name == "cpu" else d for d in platform.devices)
    operation = scale_operation()
    first, host = operation.implementations
    operation = replace(operation, implementations=(first, replace(first, name="another"), host))
    still = Sampler(clock=lambda: 0.0)
    with HistoryStore(":memory:") as history:
        done = calibrate(
            scale_graph(operation), replace(platform, devices=devices), live, history, sampler=still, meter=QUIET
        )
    assert done.left_out == 2  # of two sizes, "another" each
    assert done.failures == ()


@pytest.mark.sycl
def test_sample_data_comes_first(machine: tuple[Platform, Any]) -> None:
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
@pytest.mark.sycl
def test_kernels_on_arrays_without_dimensions_are_timed_too(machine: tuple[Platform, Any], tmp_path: Path) -> None:
    """They were given arrays of one dimension, which numba-dpex passes in more arguments than its kernel took."""
    platform, live = machine
    graph = TaskGraph()
    x = graph.array("x", (4, 4), "float32", data=np.ones((4, 4), np.float32))
    graph.kernel(reduce("sum", (0, 1), False), y=graph.array("y", (), "float32"), x=x)
    with HistoryStore(tmp_path / "history.sqlite") as history:
        done = calibrate(graph, platform, live, history, seconds_each=0.01)
    assert not done.failures and done.measured >= 2


def test_what_does_not_compile_is_listed_and_the_rest_measured(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    with HistoryStore(":memory:") as history:
        done = calibrate(scale_graph(scale_operation(fails=True)), platform, live, history, seconds_each=0.0)
    assert done.measured == 2
    assert [label for label, _ in done.failures] == ["scale (opencl-c) on cpu"] * 2


def refusing(error: Exception) -> tuple[Operation, Callable[[], None]]:
    """An operation with a library, first in order, that raises an error wherever it is called; what mends it."""
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
def test_what_a_library_refuses_is_not_planned_until_it_can_be_timed(
    machine: tuple[Platform, Any], tmp_path: Path
) -> None:
    platform, live = machine
    platform = replace(platform, devices=tuple(d for d in platform.devices if not d.is_host))
    operation, mend = refusing(CapabilityError("no engine for this device", where="a library"))
    graph = scale_graph(operation)
    path = tmp_path / "history.sqlite3"
    with HistoryStore(path) as history:
        done = calibrate(graph, platform, live, history, seconds_each=0.0)
    assert done.refused == ("scale (library) on cpu",) * 2
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
        again = calibrate(graph, platform, live, history, seconds_each=0.0)
        assert (again.measured, again.refused) == (2, ())
        assert not history.refusals()


@pytest.mark.sycl
def test_what_may_pass_keeps_nothing_out_of_plans(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    operation, _ = refusing(MemoryLimitError("no memory just now"))
    with HistoryStore(":memory:") as history:
        done = calibrate(scale_graph(operation), platform, live, history, seconds_each=0.0)
        assert [label for label, _ in done.failures] == ["scale (library) on cpu"] * 2
        assert done.refused == () and not history.refusals()


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


def test_what_takes_long_to_compile_and_gains_little_is_not_timed() -> None:
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
    for name, expected in (("numba-dpex", True), ("opencl-c", False)):
        by = operation.implementation(name)
        case = TimedCase(
            task, operation, task.signature, device, by, history_key(device.key, operation, by, task.signature)
        )
        guess_s = costs.task_seconds(task, by, device).seconds
        fastest = replace(slow, value=10 * guess_s)
        assert calibration._is_needless(case, costs, fastest, 20 * guess_s) is expected
        assert not calibration._is_needless(case, costs, fastest, 5 * guess_s)
        assert not calibration._is_needless(case, costs, fastest)
        assert not calibration._is_needless(case, costs, None, 20 * guess_s)
        assert not calibration._is_needless(case, costs, replace(one, value=10 * guess_s), 20 * guess_s)
        assert calibration._is_needless(case, costs, quick)  # faster than the roofline
        disturbed = with_busy_profile(device)
        assert not calibration._is_needless(replace(case, device=disturbed), costs, quick)


def with_busy_profile(device: Device) -> Device:
    assert device.profile is not None
    return replace(device, profile=replace(device.profile, provenance=replace(device.profile.provenance, busy=True)))


# --- measurements that heal ---------------------------------------------------------------------------


class Clock:
    """A clock that the timed functions move, by what each takes at the moment."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.takes_s = {"one": 1e-3, "other": 2e-3}
        self.called: list[str] = []

    def operation(self) -> Operation:
        def way(name: str) -> Implementation:
            def function(x: Any) -> None:
                self.called.append(name)
                self.now_s += self.takes_s[name]

            return Implementation(name, "host", load=lambda s: function)

        return Operation(
            "either",
            (Parameter("x", AccessMode.UPDATE, ndim=1, dtypes=("float32",)),),
            tuple(map(way, self.takes_s)),
            work=lambda s: Work(1.0, 8.0, "float32"),
        )

    def best(self, graph: TaskGraph, platform: Platform, history: HistoryStore) -> tuple[str, float, float]:
        choice = CostModel(platform, history).best(graph.tasks[0], platform.device(HOST))
        assert choice is not None
        return choice[0].name, round(choice[1].seconds, 6), choice[1].uncertainty


@pytest.fixture
def healing(machine: tuple[Platform, Any]) -> Iterator[tuple[Clock, TaskGraph, HistoryStore, Any]]:
    platform, live = machine
    clock, graph = Clock(), TaskGraph("healing")
    graph.kernel(clock.operation(), x=graph.array("x", data=np.ones(8, np.float32)))
    with HistoryStore(":memory:") as history:

        def measure(meter: LoadMeter, **options: Any) -> Calibration:
            sampler = Sampler(clock=lambda: clock.now_s)
            return calibrate(graph, platform, live, history, sampler=sampler, meter=meter, **options)

        yield clock, graph, history, measure


@pytest.mark.sycl
def test_times_of_a_busy_machine_are_used_and_measured_again_when_it_is_quiet(healing, machine) -> None:
    clock, graph, history, measure = healing
    clock.takes_s["one"] = 5e-3  # something else had its core
    assert measure(busy_machine()).provisional == 2
    name, seconds, uncertainty = clock.best(graph, machine[0], history)
    assert (name, seconds) == ("other", 2e-3) and uncertainty >= 0.5
    clock.takes_s["one"] = 1e-3
    still = measure(busy_machine())
    assert (still.measured, still.known, still.provisional) == (0, 2, 2)  # nothing better could be learnt
    healed = measure(QUIET)
    assert (healed.measured, healed.known, healed.provisional) == (2, 0, 0)
    assert clock.best(graph, machine[0], history)[:2] == ("one", 1e-3)
    assert measure(QUIET).measured == 0


@pytest.mark.sycl
def test_a_slow_moment_does_not_reject_an_implementation_for_good(healing, machine) -> None:
    clock, graph, history, measure = healing
    clock.takes_s = {"one": 1e-3, "other": 60e-3}  # truly half a millisecond
    measure(QUIET)
    assert clock.called.count("other") == 3
    assert clock.best(graph, machine[0], history)[0] == "one"
    clock.takes_s["other"] = 0.5e-3
    assert measure(QUIET).measured == 1
    assert clock.best(graph, machine[0], history)[:2] == ("other", 0.5e-3)


@pytest.mark.sycl
def test_what_is_slow_needs_few_samples_to_be_known(healing) -> None:
    clock, _, _, measure = healing
    clock.takes_s["other"] = 60e-3
    provisional = [measure(QUIET).provisional for _ in range(3)]
    assert provisional == [1, 1, 0]
    assert measure(QUIET).measured == 0


@pytest.mark.sycl
def test_timing_again_has_a_time_limit(healing) -> None:
    clock, _, _, measure = healing
    measure(busy_machine())
    clock.takes_s = dict.fromkeys(clock.takes_s, 3.0)
    assert measure(QUIET).measured == 1


@pytest.mark.sycl
def test_everything_is_timed_again_on_request_and_the_old_times_lose(healing, machine) -> None:
    clock, graph, history, measure = healing
    measure(QUIET)
    clock.takes_s = {"one": 4e-3, "other": 3e-3}
    assert measure(QUIET).measured == 0
    assert measure(busy_machine(), again=True).measured == 2
    assert clock.best(graph, machine[0], history)[0] in ("one", "other")
    assert measure(QUIET, again=True).measured == 2
    assert clock.best(graph, machine[0], history)[:2] == ("other", 3e-3)
