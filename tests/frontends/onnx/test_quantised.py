# SPDX-License-Identifier: Apache-2.0
"""Operators of quantised models, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import array, same_as_runtime  # noqa: E402
from support.repeatable import generator  # noqa: E402

node = helper.make_node
RANDOM = generator(11)


def whole(*shape: int, dtype: str = "uint8") -> Any:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def test_products_of_whole_numbers() -> None:
    inputs = {"a": whole(2, 3, 40), "b": whole(40, 5)}
    constants = {"za": np.uint8(7), "zb": np.uint8(9)}
    same_as_runtime([node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])], inputs, ["y"], 10, constants)
    same_as_runtime([node("MatMulInteger", ["a", "b"], ["y"])], inputs, ["y"], 10)


def test_convolutions_of_whole_numbers() -> None:
    inputs = {"x": whole(1, 4, 6, 6), "w": whole(6, 2, 3, 3)}
    made = node("ConvInteger", ["x", "w", "zx"], ["y"], pads=[1, 0, 0, 1], group=2)
    same_as_runtime([made], inputs, ["y"], 10, {"zx": np.uint8(12)})


@pytest.mark.parametrize("channels", [1, 6])
def test_quantised_convolutions(channels: int) -> None:
    constants = {
        "sx": np.float32(0.02),
        "zx": np.uint8(120),
        # Weights of 7 bits: without VNNI, ONNX Runtime saturates sums of two products of uint8 and int8 to 16 bits.
        "w": whole(6, 4, 3, 3, dtype="int8") // 2,
        "sw": np.linspace(0.01, 0.02, channels, dtype=np.float32),
        "zw": np.zeros(channels, np.int8),
        "sy": np.float32(0.7),
        "zy": np.uint8(128),
        "b": whole(6, dtype="int16").astype(np.int32),
    }
    if channels == 1:
        constants |= {"sw": constants["sw"].reshape(()), "zw": constants["zw"].reshape(())}
    made = node("QLinearConv", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"], ["y"], strides=[2, 1])
    same_as_runtime([made], {"x": whole(2, 4, 7, 6)}, ["y"], 10, constants)


def test_a_quantised_dense_layer() -> None:
    constants = {
        "sx": np.float32(0.02), "zx": np.uint8(120), "w": whole(40, 5), "sw": np.float32(0.01), "zw": np.uint8(100),
        "sy": np.float32(0.3), "zy": np.uint8(128),
    }  # fmt: skip
    made = node("QLinearMatMul", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"], ["y"])
    same_as_runtime([made], {"x": whole(3, 40)}, ["y"], 10, constants)


def test_quantize_and_dequantize() -> None:
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    same_as_runtime(nodes, {"x": array(3, 40)}, ["q", "s", "z", "y"], 11)
    for x in (np.zeros((3, 4), np.float32), np.abs(array(3, 4)), -np.abs(array(3, 4)), np.full((2, 70_000), 2.5, "f")):
        same_as_runtime(nodes, {"x": x}, ["q", "s", "z", "y"], 11)
    by_channel = {"s": np.array([0.1, 0.2, 0.4], np.float32), "z": np.array([3, 0, -4], np.int8)}
    made = [node("DequantizeLinear", ["x", "s", "z"], ["y"], axis=0)]
    same_as_runtime(made, {"x": whole(3, 4, dtype="int8")}, ["y"], 13, by_channel)
    made = [node("DequantizeLinear", ["x", "s"], ["y"])]
    same_as_runtime(made, {"x": whole(3, 4, dtype="int32")}, ["y"], 13, {"s": np.float32(0.001)})
