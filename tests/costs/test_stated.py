# SPDX-License-Identifier: Apache-2.0
"""Stated costs of tasks on devices: by device name, by kind, scaled, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.profiles import profile

from syclsched.costs import CostModel, MemoryHistory
from syclsched.errors import CapabilityError
from syclsched.model.cost_only import REFERENCE_CORE_FLOPS, StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Device, MemorySpace, Partition, Platform
from syclsched.model.task import Task

CPU = Device("cpu", "c", "cpu", "opencl", "", "cpu", ("cpu",), profile=profile(), compute_units=4)
GPU = replace(CPU, name="max1550.1", key="g", kind="gpu")
HOST_DEVICE = Device(HOST, HOST, "host", "host", "", HOST, (HOST,))
PLATFORM = Platform("p", (CPU, GPU, HOST_DEVICE), (MemorySpace("cpu", 1 << 30), MemorySpace(HOST, 1 << 30)))

#: The profile's 1e11 FLOP/s are those of 4 compute units.
SPEED = 1e11 / 4 / REFERENCE_CORE_FLOPS


def task_of(cost: StatedCost) -> Task:
    return add_cost_only(TaskGraph(), "t", cost)


def seconds(cost: StatedCost, device: Device) -> tuple[float, str] | None:
    best = CostModel(PLATFORM).best(task_of(cost), device)
    return None if best is None else (best[1].seconds, best[1].origin)


def test_seconds_are_scaled_from_the_reference_core() -> None:
    assert seconds(StatedCost(3.0), CPU) == (pytest.approx(3.0 / SPEED), "scaled")


def test_a_stated_cost_of_zero_takes_no_time() -> None:
    assert seconds(StatedCost(0.0), CPU) == (0.0, "scaled")


@pytest.mark.parametrize(("cores", "slower"), [(1.0, 1.0), (2.0, 1.0), (4.0, 1.0), (8.0, 2.0), (400.0, 100.0)])
def test_a_device_with_fewer_cores_takes_longer(cores: float, slower: float) -> None:
    assert seconds(StatedCost(3.0, cores=cores), CPU) == (pytest.approx(3.0 / SPEED * slower), "scaled")


def test_the_cost_stated_for_a_device_is_preferred() -> None:
    cost = StatedCost(3.0, {"cpu": 5.0})
    assert seconds(cost, CPU) == (5.0, "stated")
    assert seconds(cost, GPU) == (pytest.approx(3.0 / SPEED), "scaled")


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ({"max1550.1": 1.0, "max1550": 2.0, "gpu": 3.0, "any": 4.0}, 1.0),
        ({"max1550": 2.0, "gpu": 3.0, "any": 4.0}, 2.0),
        ({"gpu": 3.0, "any": 4.0}, 3.0),
        ({"any": 4.0}, 4.0),
    ],
)
def test_a_device_is_named_by_name_kind_or_any(on: dict[str, float], expected: float) -> None:
    assert seconds(StatedCost(None, on), GPU) == (expected, "stated")


def test_a_part_of_a_device_is_not_the_device() -> None:
    part = replace(CPU, name="max1550.0", key="p", partition=Partition("count", "2", 0))
    assert seconds(StatedCost(None, {"max1550": 2.0}), part) is None


def test_devices_that_are_not_named_have_no_cost() -> None:
    task = task_of(StatedCost(None, {"a770": 1.0, "b580": 1.0}))
    model = CostModel(PLATFORM)
    assert model.best(task, CPU) is None
    with pytest.raises(CapabilityError, match="costs are stated for a770, b580 only"):
        model.require(task)


def test_the_host_runs_none() -> None:
    assert seconds(StatedCost(1.0, {"any": 1.0}), HOST_DEVICE) is None


def test_the_history_is_not_looked_up_for_stated_costs() -> None:
    class Closed(MemoryHistory):
        def lookup(self, key: object) -> None:
            raise AssertionError("there is nothing measured of a task without code")

    assert CostModel(PLATFORM, Closed()).best(task_of(StatedCost(1.0)), CPU) is not None


def test_tasks_of_equal_costs_share_their_answer() -> None:
    model = CostModel(PLATFORM)
    graph = TaskGraph()
    one, same, other = (add_cost_only(graph, n, StatedCost(c)) for n, c in (("a", 1.0), ("b", 1.0), ("c", 2.0)))
    assert model.best(one, CPU) is model.best(same, CPU)
    assert model.best(other, CPU) != model.best(one, CPU)
