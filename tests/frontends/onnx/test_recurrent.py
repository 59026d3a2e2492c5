# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks of every form, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from beside_runtime import array, same_as_runtime  # noqa: E402
from onnx import helper  # noqa: E402

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("opset", [7, 14])
def test_recurrent(operator: str, direction: str, full: bool, opset: int) -> None:
    steps, batch, features, hidden = 4, 2, 3, 5
    count, gates = (2 if direction == "bidirectional" else 1), GATES[operator]
    inputs: dict[str, Any] = {"x": array(steps, batch, features)}
    constants = {"w": array(count, gates * hidden, features), "r": array(count, gates * hidden, hidden)}
    names = ["x", "w", "r"]
    if full:
        constants["b"] = array(count, 2 * gates * hidden)
        inputs["h"] = array(count, batch, hidden)
        names += ["b", "", "h"]
        if operator == "LSTM":
            inputs["c"] = array(count, batch, hidden)
            constants["p"] = array(count, 3 * hidden)
            names += ["c", "p"]
    outputs = ["y", "yh", "yc"] if operator == "LSTM" else ["y", "yh"]
    more = {"linear_before_reset": int(full)} if operator == "GRU" else {}
    made = helper.make_node(operator, names, outputs, hidden_size=hidden, direction=direction, **more)
    same_as_runtime([made], inputs, outputs, opset, constants)
