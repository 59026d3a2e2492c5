# SPDX-License-Identifier: Apache-2.0
"""Convolutions with variable weights, with arrays for transformed filters and for sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.onednn_calls import needs_onednn

import syclsched
from syclsched.costs import CostModel
from syclsched.kernels.nn import conv, conv_transpose
from syclsched.kernels.nn.gradients.conv_weights import conv_weights
from syclsched.model.graph import TaskGraph
from syclsched.onnx.tuning.implementations import chosen_before, on_devices, without_dominated
from syclsched.onnx.tuning.variable_weights import with_scratch_arrays

NAME = "opencl-c-winograd"
PLATFORM = syclsched.describe(["cpu"])
(CPU,) = PLATFORM.compute_devices


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def network() -> TaskGraph:
    """Return a convolution with constant bias, its gradients by input and by weights, and one with constant weights."""
    graph, pads = TaskGraph("network"), (1,) * 4
    x, w = graph.array("x", data=numbers(2, 14, 14, 32)), graph.array("w", data=numbers(48, 32, 3, 3))
    y = graph.array("y", (2, 14, 14, 48), "float32")
    z, known = (graph.array(name, (2, 14, 14, 32), "float32") for name in ("z", "known"))
    gradient = graph.array("gradient", (48, 32, 3, 3), "float32")
    constant, bias = syclsched.constant(numbers(32, 32, 3, 3, seed=1)), syclsched.constant(numbers(48, seed=2))
    forward = graph.kernel(conv(2, pads=pads, channels_last=True, bias=True), name="forward", y=y, x=x, w=w, b=bias)
    graph.kernel(conv_transpose(2, pads=pads, channels_last=True), name="backward", y=z, x=y, w=w)
    graph.kernel(conv_weights(2, pads=pads, channels_last=True), name="weights", y=gradient, x=x, dy=y)
    other = graph.kernel(conv(2, pads=pads, channels_last=True), name="constant", y=known, x=x, w=constant)
    graph.edge(forward, other)
    return graph


def test_convolutions_by_variable_weights_have_own_arrays() -> None:
    graph = network()
    changed = with_scratch_arrays(graph, CPU)
    assert {name for name in changed.arrays if name not in graph.arrays} == {
        *("forward filters", "backward filters", "weights sums")
    }
    assert changed.edges == graph.edges
    for task, before in zip(changed.tasks, graph.tasks, strict=True):
        assert len(task.arguments) - len(before.arguments) == (task.name != "constant")
        assert {name: task.arguments[name] for name in before.arguments} == before.arguments


def test_a_scratch_array_gets_an_unused_name() -> None:
    graph = TaskGraph()
    x, w = graph.array("x", (2, 14, 14, 32), "float32"), graph.array("w", (48, 32, 3, 3), "float32")
    y = graph.array("task filters", (2, 14, 14, 48), "float32")
    graph.kernel(conv(2, pads=(1,) * 4, channels_last=True), name="task", y=y, x=x, w=w)
    (task,) = with_scratch_arrays(graph, CPU).tasks
    assert task.arguments["y"] == "task filters" != task.arguments["filters"]


def test_a_graph_without_variable_weights_is_returned_unchanged() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", (1, 14, 14, 32), "float32"), graph.array("y", (1, 14, 14, 32), "float32")
    graph.kernel(conv(2, pads=(1,) * 4, channels_last=True), y=y, x=x, w=syclsched.constant(numbers(32, 32, 3, 3)))
    assert with_scratch_arrays(graph, CPU) is graph


def test_only_minimal_filtering_is_compiled_beside_the_library() -> None:
    """Other kernels are stated to be slower; before, ten of them and those in Python took four seconds."""
    offered = with_scratch_arrays(network(), CPU)
    kept = without_dominated(offered, CostModel(PLATFORM))
    for name in ("forward", "backward", "weights"):
        whole, left = (graph.find_task(name).operation for graph in (offered, kept))
        assert whole is not None and left is not None
        assert "python" not in {each.name for each in whole.implementations}
        assert {each.name for each in left.implementations} == {"onednn", NAME, "numpy"}


def test_filtering_kernels_can_replace_the_library() -> None:
    graph = on_devices(with_scratch_arrays(network(), CPU), PLATFORM, {"forward", "weights"})
    offered = {task.name: {each.name for each in task.operation.implementations} for task in graph.tasks}  # type: ignore[union-attr]
    assert NAME in offered["forward"] & offered["weights"]
    assert "onednn" not in offered["forward"] | offered["weights"]
    assert offered["backward"] == {"onednn"}


@needs_onednn
@pytest.mark.parametrize(("extent", "taken"), [(14, NAME), (2, "onednn")])
def test_shapes_without_chosen_kernel_use_the_library(extent: int, taken: str) -> None:
    graph = TaskGraph()
    x, y = (graph.array(name, (2, extent, extent, 32), "float32") for name in "xy")
    w = graph.array("w", (32, 32, 3, 3), "float32")
    graph.kernel(conv(2, pads=(1,) * 4, channels_last=True), name="task", y=y, x=x, w=w)
    (task,) = chosen_before(with_scratch_arrays(graph, CPU), PLATFORM, {"task": NAME}).tasks
    assert task.operation is not None
    assert [each.name for each in task.operation.implementations] == [taken]


@pytest.mark.sycl
@pytest.mark.parametrize("names", [{NAME}, {"opencl-c"}, {"onednn"}, {"numpy"}])
def test_every_implementation_gives_the_results_of_the_host(names: set[str]) -> None:
    def results(graph: TaskGraph, kept: set[str]) -> list[Any]:
        chosen = graph.with_implementations(lambda _, each: each.name in kept)
        with syclsched.run(chosen) as run:
            return [run.result(name) for name in ("y", "z", "gradient", "known")]

    for got, wanted in zip(
        results(with_scratch_arrays(network(), CPU), names), results(network(), {"numpy"}), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
