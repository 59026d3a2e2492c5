# SPDX-License-Identifier: Apache-2.0
"""Models of any length whose kernels share their code between lengths: each length has its own results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

pytestmark = pytest.mark.sycl

#: Operator, other inputs, attributes; the input is (2, length, 6).
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "backwards": ("Slice", {"s": [-1], "e": [-1000], "a": [1], "t": [-2]}, {}),
    "pad": ("Pad", {"p": [0, 3, 0, 0, 2, 1], "v": np.float32(0.5)}, {}),
    "places": ("Gather", {"i": [[0, -1], [2, 1]]}, {"axis": 1}),
    "mean": ("ReduceMean", {}, {"axes": [1], "keepdims": 0}),
    "maximum": ("ReduceMax", {}, {"axes": [0, 1]}),
    "logarithm": ("ReduceLogSumExp", {}, {"axes": [1]}),
    "mean of places": ("ReduceMean", {}, {"axes": [2]}),
    "greatest": ("ArgMax", {}, {"axis": 1, "keepdims": 0}),
    "sums": ("CumSum", {"a": np.int64(1)}, {"reverse": 1, "exclusive": 1}),
    "turned": ("Transpose", {}, {"perm": [1, 0, 2]}),
    "product": ("MatMul", {"w": np.arange(48, dtype=np.float32).reshape(6, 8)}, {}),
    "sum with a line": ("Add", {"w": np.arange(6, dtype=np.float32)}, {}),
    "normalised": ("InstanceNormalization", {"s": np.ones(6, np.float32), "b": np.ones(6, np.float32)}, {}),
}


def model(kind: str, others: dict[str, Any], attributes: dict[str, Any]) -> Any:
    """Return a model of one operator; a normalisation has channels second."""
    turned = kind == "InstanceNormalization"
    nodes = [onnx.helper.make_node("Transpose", ["x"], ["u"], perm=[0, 2, 1])] if turned else []
    nodes.append(onnx.helper.make_node(kind, ["u" if turned else "x", *others], ["y"], **attributes))
    held = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in others.items()]
    x = onnx.helper.make_tensor_value_info("x", 1, [2, "length", 6])
    y = onnx.helper.make_tensor_value_info("y", 7 if kind == "ArgMax" else 1, None)
    graph = onnx.helper.make_graph(nodes, "of any length", [x], [y], held)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("name", CASES)
def test_each_length_has_its_results(name: str) -> None:
    from onnx.reference import ReferenceEvaluator

    made = model(*CASES[name])
    reference, random = ReferenceEvaluator(made), np.random.default_rng(0)
    with syclsched.compile(made, devices="cpu", autotune=False, without=["onednn"]) as compiled:
        for length in (5, 19, 32, 7, 48):
            x = random.standard_normal((2, length, 6)).astype(np.float32)
            found, (wanted,) = compiled(x)["y"], reference.run(None, {"x": x})
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
