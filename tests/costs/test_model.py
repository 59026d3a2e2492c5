# SPDX-License-Identifier: Apache-2.0
"""The cost model: measured durations first, modelled ones otherwise, computed once for equal tasks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.profiles import profile

from syclsched.costs import CostModel, HistoryKey, MemoryHistory
from syclsched.costs.history import history_key, in_run_key
from syclsched.errors import CapabilityError, EmptyPlatformError, PlatformError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, Operation, Parameter, Requirements, Signature, Work
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.model.profile import Quantity
from syclsched.model.task import Task

CPU = Device(
    "cpu", "c", "cpu", "opencl", "a CPU", "cpu", ("cpu",),
    aspects=("fp64",), dtypes=("float32", "float64"), compute_units=4, profile=profile(),
)  # fmt: skip
GPU = Device("gpu", "g", "gpu", "level_zero", "a GPU", "gpu", ("gpu",), dtypes=("float32",))
HOST_DEVICE = Device(HOST, HOST, HOST, HOST, "the host", HOST, (HOST, "cpu"))
PLATFORM = Platform(
    "p",
    (CPU, GPU, HOST_DEVICE),
    (MemorySpace("cpu", 0, True), MemorySpace("gpu", 0), MemorySpace(HOST, 0, True)),
    (
        Link(HOST, "cpu", 1e-6, 1e9), Link("cpu", HOST, 1e-6, 1e9),
        Link(HOST, "gpu", 1e-5, 1e8), Link("gpu", HOST, 2e-5, 1e8),
    ),
)  # fmt: skip


def kernel(name: str, efficiency: float = 1.0, requires: Requirements | None = None) -> Implementation:
    return Implementation(
        name, "opencl-c", lambda _: None, lambda s, d: Launch((1,)), requires or Requirements(), efficiency
    )


class Counting:
    """A work function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, signature: Signature) -> Work:
        self.calls += 1
        return Work(1e9 * signature.shapes["x"][0], 0.0)


def operation(*implementations: Implementation, work: Counting | None = None) -> Operation:
    return Operation(
        "op", (Parameter("x", AccessMode.UPDATE), Parameter("k")), implementations, work=work or Counting()
    )


def tasks(op: Operation, *sizes: int, dtype: str = "float64", k: float = 0) -> list[Task]:
    graph = TaskGraph()
    return [graph.kernel(op, x=graph.array(f"x{i}", (n,), dtype), k=k) for i, n in enumerate(sizes)]


def test_best_is_the_fastest_supported_implementation() -> None:
    op = operation(
        kernel("slow", 0.5), kernel("fast"), kernel("gpu only", requires=Requirements(device_kinds=("gpu",)))
    )
    best = CostModel(PLATFORM).best(tasks(op, 100)[0], CPU)
    assert best is not None
    assert best[0].name == "fast"
    assert math.isclose(best[1].seconds, 1e-5 + 1.0)
    assert best[1].origin == "modelled"


def test_the_earlier_of_equals_is_kept() -> None:
    best = CostModel(PLATFORM).best(tasks(operation(kernel("first"), kernel("second")), 1)[0], CPU)
    assert best is not None
    assert best[0].name == "first"


def test_measured_times_override_modelled_times_and_the_choice() -> None:
    op = operation(kernel("a"), kernel("b", 0.1))
    task = tasks(op, 100)[0]
    assert task.signature is not None
    history = MemoryHistory({history_key("c", op, op.implementations[1], task.signature): Quantity(0.25, mad=0.01)})
    best = CostModel(PLATFORM, history).best(task, CPU)
    assert best is not None
    assert best[0].name == "b"
    launch = CPU.profile.launch.chain_task_s if CPU.profile is not None else None
    between = 0.0 if launch is None else launch.value
    assert best[1].seconds == pytest.approx(0.25 + between)
    assert best[1].origin == "measured"


def test_times_in_runs_count_until_a_task_is_timed_alone() -> None:
    op = operation(kernel("a"), kernel("b", 0.1))
    task = tasks(op, 100)[0]
    assert task.signature is not None
    key = history_key("c", op, op.implementations[1], task.signature)
    in_run = CostModel(PLATFORM, MemoryHistory({in_run_key(key): Quantity(0.25)})).best(task, CPU)
    alone = CostModel(PLATFORM, MemoryHistory({in_run_key(key): Quantity(0.25), key: Quantity(0.125)})).best(task, CPU)
    assert in_run is not None and alone is not None
    assert in_run[1].origin == alone[1].origin == "measured"
    assert in_run[1].seconds - alone[1].seconds == pytest.approx(0.125)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_invalid_durations_are_ignored(value: float) -> None:
    class Broken:
        def lookup(self, key: HistoryKey) -> Quantity:
            return Quantity(value)

    task = tasks(operation(kernel("a")), 1)[0]
    assert CostModel(PLATFORM, Broken()).task_seconds(task, kernel("a"), CPU).origin == "modelled"


def test_costs_of_equal_tasks_are_computed_once() -> None:
    work = Counting()
    model = CostModel(PLATFORM)
    alike = tasks(operation(kernel("a"), work=work), *[64] * 500)
    assert len({id(model.best(task, CPU)) for task in alike}) == 1
    assert work.calls == 1


def test_sizes_scalars_and_their_types_are_distinguished() -> None:
    work = Counting()
    op = operation(kernel("a"), work=work)
    model = CostModel(PLATFORM)
    for task in [*tasks(op, 1, 2), *tasks(op, 1, k=1), *tasks(op, 1, k=1.0), *tasks(op, 1, dtype="float32")]:
        model.best(task, CPU)
    assert work.calls == 5


def test_operations_of_one_name_are_distinguished() -> None:
    model = CostModel(PLATFORM)
    first, second = tasks(operation(kernel("a")), 1)[0], tasks(operation(kernel("b")), 1)[0]
    names = [choice[0].name for task in (first, second) if (choice := model.best(task, CPU)) is not None]
    assert names == ["a", "b"]


def test_a_device_without_profile_is_assumed() -> None:
    task = tasks(operation(kernel("a")), 1, dtype="float32")[0]
    choice = CostModel(PLATFORM).best(task, GPU)
    assert choice is not None
    assert choice[1].origin == "assumed"


def test_require_names_every_device_and_its_missing_aspect() -> None:
    op = operation(kernel("k", requires=Requirements(aspects=("usm_device_allocations",))))
    with pytest.raises(CapabilityError) as caught:
        CostModel(PLATFORM).require(tasks(op, 1)[0])
    text = str(caught.value)
    assert "task 'op_0'" in text
    assert "cpu: k: no aspect usm_device_allocations" in text
    assert "gpu: k: no aspect usm_device_allocations" in text
    assert "host: k: runs host implementations only" in text


def test_require_can_be_restricted_to_some_devices() -> None:
    model, task = CostModel(PLATFORM), tasks(operation(kernel("k")), 1)[0]
    model.require(task)
    model.require(task, [CPU])
    with pytest.raises(CapabilityError, match=r"gpu: k: no aspect fp64 \(array 'x' is float64\)"):
        model.require(task, [GPU, HOST_DEVICE])


def test_require_of_no_devices_and_of_a_barrier() -> None:
    barrier = TaskGraph().barrier()
    model = CostModel(PLATFORM)
    model.require(barrier)
    assert model.best(barrier, CPU) is None
    assert model.task_seconds(barrier, kernel("k"), CPU).seconds == 0.0
    with pytest.raises(EmptyPlatformError):
        CostModel(Platform("empty", (), ())).require(barrier)


def test_copies_go_along_the_route() -> None:
    model = CostModel(PLATFORM)

    def copy_s(nbytes: int, source: str, destination: str) -> float:
        latency_s, s_per_byte = model.copy_latency_and_slope(source, destination)
        return latency_s + nbytes * s_per_byte

    assert math.isclose(copy_s(1000, "cpu", HOST), 2e-6)
    assert math.isclose(copy_s(1000, "cpu", "gpu"), 1e-6 + 1e-6 + 1e-5 + 1e-5)
    assert copy_s(1000, "gpu", "gpu") == 0.0
    with pytest.raises(PlatformError):
        copy_s(1, HOST, "nowhere")


def test_times_of_lanes_with_fewer_threads() -> None:
    op = operation(Implementation("blas", "host", lambda _: None))
    task = tasks(op, 100)[0]
    assert task.signature is not None
    whole = replace(HOST_DEVICE, compute_units=4)
    half = replace(whole, lanes=2)
    key = history_key(whole.timing_key, op, op.implementations[0], task.signature)
    history = MemoryHistory({key: Quantity(0.25)})
    model = CostModel(PLATFORM, history)
    assert model.task_seconds(task, op.implementations[0], whole).seconds == 0.25
    scaled = model.task_seconds(task, op.implementations[0], half)
    assert (scaled.seconds, scaled.origin) == (0.5, "scaled")
    history[history_key(half.timing_key, op, op.implementations[0], task.signature)] = Quantity(0.375)
    measured = CostModel(PLATFORM, history).task_seconds(task, op.implementations[0], half)
    assert (measured.seconds, measured.origin) == (0.375, "measured")


def test_same_code_in_another_language_takes_as_long() -> None:
    """Otherwise it would be compiled whenever a kernel turned out to be slower than modelled."""
    op = operation(replace(kernel("a"), same_code_as="b"), replace(kernel("b"), same_code_as="a"), kernel("c", 0.1))
    task = tasks(op, 100)[0]
    assert task.signature is not None
    for measured in op.implementations[:2]:
        history = MemoryHistory({history_key("c", op, measured, task.signature): Quantity(3.0, mad=0.01)})
        model = CostModel(PLATFORM, history)
        first, second, third = (model.task_seconds(task, each, CPU) for each in op.implementations)
        assert first.seconds == second.seconds
        assert {first.origin, second.origin} == {"measured", "scaled"}
        assert third.origin == "modelled"
        best = model.best(task, CPU)
        assert best is not None
        assert best[0].name == "a"
