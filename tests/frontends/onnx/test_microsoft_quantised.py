# SPDX-License-Identifier: Apache-2.0
"""Quantised operators of the domain com.microsoft, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from support.beside_runtime import array
from support.microsoft_nodes import RANDOM, same, scale, whole


def scales(*names: str, dtype: str = "uint8") -> dict[str, Any]:
    """Return a scale and a zero point for each name."""
    numbers: dict[str, Any] = {}
    for at, name in enumerate(names):
        numbers[f"s{name}"] = scale(0.02 + 0.013 * at)
        numbers[f"z{name}"] = np.array(7 + 20 * at if dtype == "uint8" else 7 - 5 * at, dtype)
    return numbers


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantised_element_wise_operators(dtype: str) -> None:
    inputs = {"a": whole(2, 3, 8, dtype=dtype), "b": whole(3, 1, dtype=dtype)}
    order = "a sa za b sb zb sc zc"
    for operator in ("QLinearAdd", "QLinearMul"):
        same(operator, inputs, constants=scales("a", "b", "c", dtype=dtype), order=order, units=1)
    one = {"a": inputs["a"]}
    more: dict[str, Any] = {"constants": scales("a", "c", dtype=dtype), "order": "a sa za sc zc", "units": 1}
    same("QLinearSigmoid", one, **more | {"constants": more["constants"] | {"sc": scale(1 / 200)}})
    same("QLinearLeakyRelu", one, alpha=0.3, **more)
    constants = more["constants"] | {"sc": scale(1 / 256)}
    same("QLinearSoftmax", one, opset=13, axis=1, **more | {"constants": constants})


def test_a_quantised_softmax_over_several_axes_and_a_selection() -> None:
    constants = scales("a", "c") | {"sc": scale(1 / 256)}
    same("QLinearSoftmax", {"a": whole(2, 3, 8)}, constants=constants, order="a sa za sc zc", opset=12, axis=1, units=1)
    inputs = {"c": RANDOM.random((2, 3)) < 0.5, "a": whole(2, 3), "b": whole(2, 3)}
    same("QLinearWhere", inputs, constants=scales("a", "b", "d"), order="c a sa za b sb zb sd zd", units=1)


@pytest.mark.parametrize("last", [0, 1])
def test_quantised_poolings_and_concatenations(last: int) -> None:
    shape = (2, 8, 8, 3) if last else (2, 3, 8, 8)
    more: dict[str, Any] = {"constants": scales("x", "y"), "order": "x sx zx sy zy", "units": 1, "channels_last": last}
    same("QLinearAveragePool", {"x": whole(*shape)}, kernel_shape=[3, 3], pads=[1, 1, 0, 0], **more)
    same("QLinearGlobalAveragePool", {"x": whole(*shape)}, **more)
    inputs = {"a": whole(2, 3, 4), "b": whole(2, 1, 4)}
    order = "sy zy a sa za b sb zb"
    same("QLinearConcat", inputs, constants=scales("a", "b", "y"), order=order, axis=1 - 3 * last, units=1)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [2, 1, 1, 0], [0, 0, 2, 2]])
def test_windows_of_quantised_means_that_reach_beyond_the_pads(pads: list[int], counted: int, last: int) -> None:
    x = whole(2, 5, 6, 3) if last else whole(2, 3, 5, 6)
    more: dict[str, Any] = {"constants": scales("x", "y"), "order": "x sx zx sy zy", "units": 1, "channels_last": last}
    windows = {"kernel_shape": [3, 3], "strides": [2, 3], "pads": pads, "ceil_mode": 1, "count_include_pad": counted}
    same("QLinearAveragePool", {"x": x}, **windows, **more)


@pytest.mark.parametrize("quantised", [False, True])
def test_quantised_dense_layers(quantised: bool) -> None:
    constants = scales("a", "b") | {"b": whole(5, 20, dtype="int8") // 2, "c": whole(5, dtype="int16").astype(np.int32)}
    constants |= {"sb": RANDOM.random(5).astype(np.float32) / 50, "zb": np.zeros(5, np.int8)}
    order = "a sa za b sb zb c"
    if quantised:
        constants |= {"sy": scale(0.2), "zy": np.uint8(120)}
        order += " sy zy"
    same(
        "QGemm", {"a": whole(4, 20)}, constants=constants, order=order, transB=1, alpha=0.5, units=1 if quantised else 0
    )


def test_products_that_are_quantised_when_they_are_computed() -> None:
    weights = {"b": whole(20, 5, dtype="int8") // 2, "s": RANDOM.random(5).astype(np.float32) / 50}
    bias = {"bias": array(5)}
    same("DynamicQuantizeMatMul", {"a": array(2, 3, 20)}, constants=weights)
    full = weights | {"z": np.zeros(5, np.int8)} | bias
    same("DynamicQuantizeMatMul", {"a": array(3, 20) + 3}, constants=full)
    constants = weights | bias | {"sa": scale(0.01), "za": np.uint8(100), "z": np.zeros(5, np.int8)}
    same("MatMulIntegerToFloat", {"a": whole(2, 3, 20)}, constants=constants, order="a b sa s za z bias")
    same("MatMulIntegerToFloat", {"a": whole(3, 20)}, constants=constants, order="a b sa s")


def test_quantize_and_dequantize() -> None:
    for dtype in ("uint8", "int8", "uint16", "int16"):
        constants = {"s": scale(0.05), "z": np.array(20, dtype)}
        same("QuantizeLinear", {"x": array(3, 4)}, constants=constants)
        same("DequantizeLinear", {"x": whole(3, 4, dtype=dtype)}, constants=constants)
    constants = {"s": np.array([0.1, 0.2, 0.3], np.float32), "z": np.array([3, 0, -4], np.int8)}
    same("QuantizeLinear", {"x": array(3, 4)}, constants=constants, axis=0)
    same("DequantizeLinear", {"x": whole(3, 4, dtype="int8")}, constants=constants, axis=0)


@pytest.mark.parametrize(
    ("bits", "zeros"), [(4, "none"), (4, "packed"), (4, "plain"), (8, "none"), (8, "packed"), (2, "packed")]
)
def test_products_with_blocks_of_few_bits(bits: int, zeros: str) -> None:
    columns, rows, block = 40, 6, 16
    blocks = -(-columns // block)
    constants = {"b": whole(rows, blocks, block * bits // 8), "s": RANDOM.random((rows, blocks)).astype(np.float32)}
    order = "x b s"
    if zeros != "none":
        packed = whole(rows, -(-blocks * bits // 8))
        constants["z"] = packed if zeros == "packed" else (RANDOM.random((rows, blocks)) * 8).astype(np.float32)
        order += " z"
    more = {"K": columns, "N": rows, "bits": bits, "block_size": block}
    same("MatMulNBits", {"x": array(2, 3, columns)}, constants=constants, order=order, **more)
    if zeros == "none":
        given = constants | {"bias": array(rows)}
        same("MatMulNBits", {"x": array(3, columns)}, constants=given, order="x b s _ _ bias", **more)


@pytest.mark.parametrize(("bits", "zeros"), [(4, False), (8, True), (4, True)])
def test_rows_of_tables_of_few_bits(bits: int, zeros: bool) -> None:
    constants = {"t": whole(10, 64 * bits // 8), "s": RANDOM.random((10, 4)).astype(np.float32)}
    if zeros:
        constants["z"] = whole(10, 4 * bits // 8)
    inputs = {"i": RANDOM.integers(0, 10, (2, 5))}
    order = "t i s z" if zeros else "t i s"
    same("GatherBlockQuantized", inputs, constants=constants, order=order, bits=bits, block_size=16)
