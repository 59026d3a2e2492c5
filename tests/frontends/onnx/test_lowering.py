# SPDX-License-Identifier: Apache-2.0
"""Networks as task graphs: names, outputs of every kind, and shared constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched import api  # noqa: E402
from syclsched.errors import ModelError  # noqa: E402
from syclsched.frontends.onnx.importing import import_model  # noqa: E402
from syclsched.frontends.onnx.lowering import LoweredNetwork, lower  # noqa: E402
from syclsched.frontends.onnx.model_file.model_reader import read_model  # noqa: E402
from syclsched.frontends.onnx.rewrites import rewrite  # noqa: E402

node = helper.make_node


def results(lowered: LoweredNetwork, inputs: dict[str, Any]) -> dict[str, Any]:
    arrays = {lowered.inputs[name]: value for name, value in inputs.items()}
    with api.run(lowered.graph, policy="heft", rewrite="none", inputs=arrays, calibrate=False) as run:
        return {name: run.result(array) for name, array in lowered.outputs.items()}


@pytest.mark.sycl
def test_outputs_may_be_anything() -> None:
    constants = {"c": np.arange(2, dtype=np.float32), "s": np.array([1, 2]), "t": np.array([2, 1])}
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Identity", ["x"], ["same"]),
        node("Reshape", ["x", "t"], ["column"]),
        node("Reshape", ["a", "s"], ["row"]),
        node("Reshape", ["row", "t"], ["turned"]),
        node("Neg", ["turned"], ["n"]),
        node("Identity", ["c"], ["k"]),
        node("Reshape", ["c", "t"], ["kt"]),
        node("Identity", ["a"], ["b"]),
    ]
    outputs = ["same", "column", "row", "turned", "n", "k", "kt", "b", "a", "x"]
    x = np.array([-1.0, 2.0], np.float32)
    got = results(lower(imported(model_of(nodes, {"x": (2,)}, outputs, constants))), {"x": x})
    a, c = np.maximum(x, 0), constants["c"]
    expected = {
        "same": x, "column": x[:, None], "row": a[None], "turned": a[:, None], "n": -a[:, None], "k": c,
        "kt": c[:, None], "b": a, "a": a, "x": x,
    }  # fmt: skip
    assert got.keys() == expected.keys()
    for name, want in expected.items():
        assert np.array_equal(got[name], want), name


def test_refusals_of_operations_name_the_node() -> None:
    resize = node("Resize", ["x", "", "s"], ["y"], name="larger", coordinate_transformation_mode="sideways")
    network = imported(model_of([resize], {"x": (1, 4)}, ["y"], {"s": np.array([1, 2], np.float32)}))
    with pytest.raises(ModelError, match=r"node Resize 'larger'.*there is no coordinates 'sideways'"):
        lower(network)


def test_values_reshaped_to_outputs_are_written_in_place() -> None:
    model = model_of([node("Relu", ["x"], ["a"]), node("Flatten", ["a"], ["y"])], {"x": (2, 3, 4)}, ["y"])
    lowered = lower(imported(model))
    assert len(lowered.graph.tasks) == 1
    assert lowered.graph.arrays[lowered.outputs["y"]].shape == (2, 12)


@pytest.mark.sycl
def test_a_reshaped_output_with_another_reader_is_correct() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Flatten", ["a"], ["y"]), node("Neg", ["a"], ["z"])]
    x = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 4)
    got = results(lower(imported(model_of(nodes, {"x": (2, 3, 4)}, ["y", "z"]))), {"x": x})
    assert np.array_equal(got["y"], np.maximum(x, 0).reshape(2, 12))
    assert np.array_equal(got["z"], -np.maximum(x, 0))


@pytest.mark.sycl
def test_large_arrays_become_one_number_by_all_units() -> None:
    nodes = [node("ReduceMean", ["x"], ["m"], keepdims=1), node("ReduceMax", ["x"], ["y"], keepdims=0)]
    nodes += [node("Sub", ["x", "m"], ["z"])]
    lowered = lower(imported(model_of(nodes, {"x": (1, 512, 300)}, ["m", "y", "z"])))
    assert sum(len(task.operation.steps) for task in lowered.graph.tasks if task.operation is not None) == 4
    x = np.random.default_rng(0).random((1, 512, 300), np.float32)
    got = results(lowered, {"x": x})
    assert got["y"] == x.max()
    np.testing.assert_allclose(got["m"], x.mean(keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(got["z"], x - got["m"], rtol=1e-5, atol=1e-6)


def test_a_weight_used_twice_is_one_constant() -> None:
    constants = {"w": np.ones((3, 3), np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    graph = lower(imported(model_of(nodes, {"x": (2, 3)}, ["y"], constants))).graph
    first, second = (task.constants["b"] for task in graph.tasks)
    assert first is second


@pytest.mark.parametrize("extent", [3, 64])
def test_graphs_for_several_shapes_share_their_weights(extent: int) -> None:
    random = np.random.default_rng(0)
    constants = {"w": random.standard_normal((extent, extent)).astype(np.float32), "s": np.float32(2)}
    nodes = [node("Mul", ["w", "s"], ["v"]), node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "v"], ["y"])]
    model = read_model(model_of(nodes, {"x": ("n", extent)}, ["y"], constants))
    graphs = [lower(import_model(model, {"x": (n, extent)})).graph for n in (1, 2)]
    for one, two in zip(*(graph.tasks for graph in graphs), strict=True):
        assert one.constants["b"] is two.constants["b"]
    first, second = graphs[0].tasks
    assert first.constants["b"] is not second.constants["b"]


def test_odd_names_become_names_that_can_be() -> None:
    long = "n" * 5000
    nodes = [
        node("Relu", ["in[0:1]"], [long], name="a\nb"),
        node("Neg", [long], [long + "x"], name="a\tb"),
        node("Abs", [long + "x"], ["out[]"], name=long),
    ]
    lowered = lower(imported(model_of(nodes, {"in[0:1]": (2,)}, ["out[]"])))
    assert lowered.inputs == {"in[0:1]": "in_0:1_"}
    assert [task.name for task in lowered.graph.tasks][:2] == ["a_b", "a_b#2"]
    assert all(len(name) <= 400 for name in lowered.graph.arrays)


def test_an_operator_with_an_unused_result_is_one_task() -> None:
    nodes = [node("TopK", ["x", "k"], ["", "i"])]
    graph = lower(imported(model_of(nodes, {"x": (5,)}, ["i"], {"k": np.array([2])}, dtypes={"i": 7}))).graph
    assert len(graph.tasks) == 1


@pytest.mark.sycl
def test_unused_results_of_a_loop_are_dropped() -> None:
    carried = (("v", 1, (3,)), ("n", 6, ()), ("w", 7, (2, 1)))
    body = helper.make_graph(
        [
            node("Add", ["n", "one"], ["n1"]),
            node("Less", ["n1", "most"], ["go1"]),
            node("Tanh", ["v"], ["v1"]),
            node("Add", ["w", "w"], ["w1"]),
        ],
        "body",
        [helper.make_tensor_value_info(*each) for each in (("i", 7, ()), ("go", 9, ()), *carried)],
        [helper.make_tensor_value_info(name + "1", *rest) for name, *rest in (("go", 9, ()), *carried)],
    )
    loop = node("Loop", ["", "go0", "x", "zero", "wide"], ["y", "n2", "w2"], body=body)
    constants = {"zero": np.int32(0), "one": np.int32(1), "wide": np.zeros((2, 1), np.int64)}
    model = model_of(
        [node("Less", ["zero", "most"], ["go0"]), loop, node("Cast", ["n2"], ["z"], to=1)],
        {"x": (3,), "most": ()},
        ["z"],
        constants,
        dtypes={"most": 6},
    )
    network = rewrite(imported(model)).network
    assert [each.outputs for each in network.nodes if each.kind == "loop"] == [(None, "n2", None, None)]
    x = np.arange(3, dtype=np.float32)
    assert results(lower(network), {"x": x, "most": np.int32(4)})["z"] == 4
