# SPDX-License-Identifier: Apache-2.0
"""Implementations under a memory limit: tasks beyond it run on the host, with equal results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import syclsched
from syclsched.costs import CostModel, MemoryHistory
from syclsched.costs.history import history_key
from syclsched.kernels.nn import matmul
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Platform
from syclsched.model.profile import Quantity
from syclsched.model.task import Task
from syclsched.onnx.tuning.implementations import for_other_shapes, oversized_tasks, without_dominated, without_untimed

MODEL = Path(__file__).parents[3] / "examples" / "data" / "digits.onnx"


def products() -> TaskGraph:
    """Return three products of 4 KiB arrays in sequence, with weights of 4 KiB, 4 KiB (shared) and 16 KiB."""
    graph = TaskGraph()
    small = syclsched.constant(np.zeros((32, 32), np.float32))
    large = syclsched.constant(np.zeros((32, 128), np.float32))
    arrays = [graph.array(name, (32, 32), "float32") for name in "abc"]
    graph.kernel(matmul(), name="first", y=arrays[1], a=arrays[0], b=small)
    graph.kernel(matmul(), name="second", y=arrays[2], a=arrays[1], b=small)
    graph.kernel(matmul(), name="wide", y=graph.array("d", (32, 128), "float32"), a=arrays[2], b=large)
    return graph


def platform_of(kib: int) -> Platform:
    platform = syclsched.describe(["max1550"])
    spaces = (s if s.name == HOST else replace(s, capacity_bytes=kib << 10) for s in platform.spaces)
    return replace(platform, spaces=tuple(spaces))


@pytest.mark.parametrize(
    ("kib", "left_out"),
    [
        (0, set()),  # not known
        (40, set()),  # 20 KiB of weights beside the 20 KiB that the last product touches
        (39, {"wide"}),
        (12, {"wide"}),  # the shared weights count once
        (11, {"first", "second", "wide"}),
    ],
)
def test_weights_count_once_and_arrays_of_a_task_together(kib: int, left_out: set[str]) -> None:
    assert oversized_tasks(products(), platform_of(kib)) == left_out


def test_only_inputs_and_weights_must_fit_in_shared_memory() -> None:
    platform = syclsched.describe(["cpu"])

    def left_out(kib: int) -> set[str]:
        spaces = (s if s.name == HOST else replace(s, capacity_bytes=kib << 10) for s in platform.spaces)
        return set(oversized_tasks(products(), replace(platform, spaces=tuple(spaces))))

    # 4 KiB of the input and of the shared weights, and 16 KiB more of weights.
    assert left_out(24) == set()
    assert left_out(23) == left_out(8) == {"wide"}
    assert left_out(3) == {"first", "second", "wide"}


@pytest.mark.parametrize(
    ("opencl_us", "taken"), [(100.0, "opencl-c"), (101.0, "opencl-c"), (120.0, "python"), (None, "python")]
)
def test_python_kernels_for_other_shapes_only_if_faster(opencl_us: float | None, taken: str) -> None:
    """Before, each new shape of a BERT model compiled three kernels in Python that were no faster than OpenCL C."""
    graph = TaskGraph()
    x, y, z = (graph.array(name, (256,), "float32") for name in "xyz")
    first = graph.kernel(elementwise(("relu", 0), 1), name="first", y=y, x0=x)
    second = graph.kernel(elementwise(("exp", 0), 1), name="second", y=z, x0=y)
    platform, history = syclsched.describe(["cpu"]), MemoryHistory()
    (device,) = platform.compute_devices

    def set_time(task: Task, implementation: str, us: float) -> None:
        assert task.operation is not None and task.signature is not None
        chosen = task.operation.implementation(implementation)
        key = history_key(device.key, task.operation, chosen, task.signature)
        history[key] = Quantity(us * 1e-6, samples=9)

    set_time(first, "python", 100.0)
    set_time(second, "opencl-c", 100.0)
    if opencl_us is not None:
        set_time(first, "opencl-c", opencl_us)
    costs = CostModel(platform, history)
    chosen = {"first": "python", "second": "opencl-c"}
    planned = graph.with_implementations(lambda task, each: each.name == chosen[task.name])
    plan = syclsched.plan(planned, platform, history=history, policy="heft")
    assert for_other_shapes(graph, plan, costs) == {**chosen, "first": taken}


@pytest.mark.parametrize("is_timed", [False, True])
def test_untimed_python_kernels_are_not_chosen_beside_others(is_timed: bool) -> None:
    """Before, they were compiled because their estimates were better than measured times."""
    graph = TaskGraph()
    y = graph.array("y", (256,), "float32")
    task = graph.kernel(elementwise(("relu", 0), 1), y=y, x0=graph.array("x", (256,), "float32"))
    platform, history = syclsched.describe(["cpu"]), MemoryHistory()
    (device,) = platform.compute_devices
    assert task.operation is not None and task.signature is not None
    if is_timed:
        by = task.operation.implementation("python")
        history[history_key(device.key, task.operation, by, task.signature)] = Quantity(1e-6, samples=9)
    (left,) = without_untimed(graph, CostModel(platform, history)).tasks
    assert left.operation is not None
    assert any(each.is_python_kernel for each in left.operation.implementations) == is_timed
    only = graph.with_implementations(lambda _, each: each.name == "python")
    (kept,) = without_untimed(only, CostModel(platform, history)).tasks
    assert kept.operation is not None and kept.operation.implementations


@pytest.mark.parametrize("is_timed", [False, True])
@pytest.mark.parametrize(
    ("efficiencies", "left"),
    [
        ({"opencl-c": 0.5, "other": 1.5, "python": 0.5}, {"other"}),
        ({"opencl-c": 0.8, "other": 1.5, "python": 1.6}, {"opencl-c", "other", "python"}),
        ({"opencl-c": 0.5, "python": 0.5}, {"opencl-c"}),
        ({"python": 0.5}, {"python"}),
    ],
)
def test_kernels_stated_to_be_slower_than_another_are_not_built(
    efficiencies: dict[str, float], left: set[str], is_timed: bool
) -> None:
    """Before, a model of 66 operators compiled 64 kernels to keep a few: the first call took twice the time."""
    graph = TaskGraph()
    y = graph.array("y", (256,), "float32")
    task = graph.kernel(elementwise(("relu", 0), 1), y=y, x0=graph.array("x", (256,), "float32"))
    assert task.operation is not None and task.signature is not None
    offered = {each.name: each for each in task.operation.implementations}
    made = tuple(
        replace(offered[name if name in offered else "opencl-c"], name=name, efficiency=efficiency)
        for name, efficiency in efficiencies.items()
    )
    operation = replace(task.operation, implementations=(*made, offered["numpy"]))
    graph = TaskGraph()
    graph.kernel(operation, y=graph.array("y", (256,), "float32"), x0=graph.array("x", (256,), "float32"))
    platform, history = syclsched.describe(["cpu"]), MemoryHistory()
    (device,) = platform.compute_devices
    for each in made if is_timed else ():
        history[history_key(device.key, operation, each, task.signature)] = Quantity(1e-6, samples=9)
    (found,) = without_dominated(graph, CostModel(platform, history)).tasks
    assert found.operation is not None
    names = {each.name for each in found.operation.implementations}
    assert names == {"numpy", *(efficiencies if is_timed else left)}


@pytest.mark.sycl
@pytest.mark.parametrize("share", [2, 8, 10_000])
def test_a_model_runs_under_any_limit(share: int) -> None:
    image = np.random.default_rng(0).random((4, 1, 8, 8), dtype=np.float32)
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as free:
        wanted = free(image)["probabilities"]
        needed = free.peak_bytes + sum(free.plan.constant_bytes.values())
    limit = max(needed // share, 1)
    with syclsched.compile(MODEL, devices="cpu", autotune=False, memory_limit={"cpu": limit}) as short:
        np.testing.assert_allclose(short(image)["probabilities"], wanted, atol=1e-5)
        taken = short.plan.peak_bytes.get("cpu", 0) + short.plan.constant_bytes.get("cpu", 0)
        assert taken <= limit
        assert any(lane.kind == "host" and lane.instructions for lane in short.plan.lanes)
