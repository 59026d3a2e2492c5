# SPDX-License-Identifier: Apache-2.0
"""Integer products found in quantised models: results of the unchanged model."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from support.beside_runtime import session  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.frontends.onnx.model_file.dtypes import NUMBERS  # noqa: E402
from syclsched.frontends.onnx.network import Network  # noqa: E402
from syclsched.frontends.onnx.rewrites import rewrite  # noqa: E402

node = helper.make_node
Constants = dict[str, Any]


def _whole(random: np.random.Generator, dtype: str, *shape: int) -> Any:
    """Return random numbers of a dtype's range, half of them extreme."""
    limits = np.iinfo(dtype)
    drawn = random.integers(limits.min, limits.max, shape, endpoint=True)
    return np.where(random.random(shape) < 0.5, random.choice([limits.min, limits.max], shape), drawn).astype(dtype)


def _layer(kind: str, w: Any, random: np.random.Generator, per_channel: bool, zero: int) -> tuple[list[Any], Constants]:
    """Return nodes from a dequantised ``x`` to ``m`` with dequantised weights, and their constants."""
    axis = {"Conv": 0, "Gemm": 0, "MatMul": 1}[kind]
    count = w.shape[axis] if per_channel else 1
    steps = (random.random(count) * 0.01 + 0.001).astype(np.float32)
    zeros = np.full(count, zero, w.dtype)
    constants = {"w": w, "sw": steps if per_channel else steps[0], "zw": zeros if per_channel else zeros[0]}
    constants["bias"] = random.integers(-4000, 4000, w.shape[axis]).astype(np.int32)
    constants["sb"] = np.float32(0.0004)
    bias = node("DequantizeLinear", ["bias", "sb"], ["b"])
    weights = node("DequantizeLinear", ["w", "sw", "zw"], ["v"], axis=axis)
    if kind == "MatMul":
        return [bias, weights, node("MatMul", ["x", "v"], ["p"]), node("Add", ["p", "b"], ["m"])], constants
    attributes: dict[str, Any] = {"pads": [1, 0, 1, 1], "strides": [1, 2]} if kind == "Conv" else {"transB": 1}
    return [bias, weights, node(kind, ["x", "v", "b"], ["m"], **attributes)], constants


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("activation", ["none", "Relu", "Clip"])
@pytest.mark.parametrize("result", ["uint8", "int8", "float32"])
@pytest.mark.parametrize(("dtype", "weights"), [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("kind", ["Conv", "Gemm", "MatMul"])
def test_dequantised_operands(
    kind: str, dtype: str, weights: str, result: str, activation: str, per_channel: bool
) -> None:
    random = np.random.default_rng(len(activation) + 2 * per_channel + len(kind))
    shapes = {"Conv": ((2, 3, 6, 7), (9, 3, 3, 2)), "Gemm": ((4, 30), (9, 30)), "MatMul": ((2, 3, 30), (30, 9))}
    x, w = (_whole(random, each, *shape) for each, shape in zip((dtype, weights), shapes[kind], strict=True))
    zero, zero_w = (int(random.choice([np.iinfo(each).min, np.iinfo(each).max, 11])) for each in (dtype, weights))
    layer, constants = _layer(kind, w, random, per_channel, zero_w)
    constants |= {"sx": np.float32(0.02), "zx": np.array(zero, dtype), "low": np.float32(-1), "high": np.float32(3)}
    nodes = [node("DequantizeLinear", ["q", "sx", "zx"], ["x"]), *layer]
    given = {"none": ("Identity", ["m"]), "Relu": ("Relu", ["m"]), "Clip": ("Clip", ["m", "low", "high"])}
    nodes.append(node(*given[activation], ["a" if result != "float32" else "y"]))
    if result != "float32":
        constants |= {"sy": np.float32(0.037), "zy": np.array(17, result)}
        nodes.append(node("QuantizeLinear", ["a", "sy", "zy"], ["y"]))
    _compare(nodes, {"q": x}, constants, f"integer_{'conv' if kind == 'Conv' else 'matmul'}")


def _compare(nodes: list[Any], inputs: Constants, constants: Constants, kind: str) -> Network:
    """Compare a rewritten network with the unchanged model, both on the host, and return it."""
    dtypes = {name: NUMBERS[value.dtype.name] for name, value in inputs.items()}
    shapes = {name: value.shape for name, value in inputs.items()}
    model = model_of(nodes, shapes, ["y"], constants, opset=21, dtypes=dtypes)
    model.graph.output[0].type.Clear()
    network = imported(model)
    found = rewrite(network).network
    kinds = {each.kind for each in found.nodes}
    assert kind in kinds and not kinds & {"conv", "matmul"}, kinds
    (wanted,) = ReferenceEvaluator(_typed(model)).run(None, inputs)
    for each in (network, found):
        got = evaluate(each, inputs)["y"]
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        if got.dtype == np.float32:
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
        else:
            apart = np.abs(got.astype(int) - wanted.astype(int))
            assert apart.max() <= 1 and (apart > 0).mean() < 0.02
    return found


def _typed(model: Any) -> Any:
    """Return a copy of a model that the checker accepts."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    return onnx.shape_inference.infer_shapes(copy)


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 3), ("int8", -128)])
def test_scaled_sums_of_integers(dtype: str, zero: int) -> None:
    random = np.random.default_rng(1)
    constants = {"w": _whole(random, "int8", 30, 9), "zx": np.array(zero, dtype), "s": np.float32(0.003)}
    constants["b"] = random.standard_normal(9).astype(np.float32)
    nodes = [
        node("MatMulInteger", ["q", "w", "zx"], ["i"]),
        node("Cast", ["i"], ["f"], to=1),
        node("Mul", ["f", "s"], ["p"]),
        node("Add", ["p", "b"], ["y"]),
    ]
    _compare(nodes, {"q": _whole(random, dtype, 5, 30)}, constants, "integer_matmul")


@pytest.mark.parametrize("per_channel", [False, True])
def test_products_of_values_quantised_by_their_own_range(per_channel: bool) -> None:
    random = np.random.default_rng(7)
    steps = np.asarray(random.random(9 if per_channel else ()) / 50, np.float32)
    constants = {"s": steps, "b": random.standard_normal(9).astype(np.float32)}
    nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "sx", "zx"])]
    for number in range(2):
        constants[f"w{number}"] = _whole(random, "int8", 30, 9)
        nodes += [
            node("MatMulInteger", ["q", f"w{number}", "zx"], [f"i{number}"]),
            node("Cast", [f"i{number}"], [f"f{number}"], to=1),
            node("Mul", ["sx", "s"], [f"s{number}"]),
            node("Mul", [f"f{number}", f"s{number}"], [f"p{number}"]),
            node("Add", [f"p{number}", "b"], [f"d{number}"]),
        ]
    nodes.append(node("Mul", ["d0", "d1"], ["y"]))
    x = random.standard_normal((2, 5, 30)).astype(np.float32)
    found = _compare(nodes, {"x": x}, constants, "integer_matmul")
    assert [each.kind for each in found.nodes] == ["dynamic_quantise", *["integer_matmul"] * 2, "elementwise"]
    (quantised, *products, _) = found.nodes
    _, scale, narrow_zero, zero = quantised.outputs
    assert narrow_zero is None
    for each in products:
        assert each.input(4) == zero and each.input(6) == scale and each.input(5) in found.constants


@pytest.mark.parametrize("activation", [False, True])
@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("int8", -5)])
def test_quantised_values_are_added_where_products_are_made(dtype: str, zero: int, activation: bool) -> None:
    random = np.random.default_rng(3)
    constants = {"w": _whole(random, "int8", 5, 3, 3, 3), "sw": np.float32(0.002), "zw": np.int8(0)}
    constants |= {"sx": np.float32(0.0213), "zx": np.array(zero, dtype), "sc": np.float32(0.0371)}
    constants |= {"sy": np.float32(0.0517), "zy": np.array(zero + 3, dtype)}
    nodes = [
        node("DequantizeLinear", ["q", "sx", "zx"], ["x"]),
        node("DequantizeLinear", ["w", "sw", "zw"], ["v"]),
        node("Conv", ["x", "v"], ["c"], pads=[1] * 4),
        node("QuantizeLinear", ["c", "sc", "zy"], ["d"]),
        node("DequantizeLinear", ["d", "sc", "zy"], ["e"]),
        node("DequantizeLinear", ["r", "sx", "zx"], ["f"]),
        node("Add", ["f", "e"], ["s"]),
        *([node("Relu", ["s"], ["a"])] if activation else []),
        node("QuantizeLinear", ["a" if activation else "s", "sy", "zy"], ["y"]),
    ]
    inputs = {"q": _whole(random, dtype, 2, 3, 6, 7), "r": _whole(random, dtype, 2, 5, 6, 7)}
    found = _compare(nodes, inputs, constants, "integer_conv")
    (made,) = (each for each in found.nodes if each.kind == "integer_conv")
    assert made.attributes["addend"] is not None and made.attributes["quantise"] is not None
    assert (made.input(4) is None) == (zero == 0)
    assert {each.kind for each in found.nodes} <= {"integer_conv", "transpose"}


def test_a_vector_is_added_where_a_quantised_product_is_made() -> None:
    random = np.random.default_rng(3)
    constants = {"w": _whole(random, "int8", 30, 9), "sw": np.float32(0.002), "zw": np.int8(0)}
    constants |= {"sx": np.float32(0.0213), "zx": np.uint8(7), "sc": np.float32(0.0371), "zc": np.uint8(111)}
    constants |= {"b": _whole(random, "uint8", 9), "sb": np.float32(0.0517), "zb": np.uint8(100)}
    nodes = [
        node("DequantizeLinear", ["q", "sx", "zx"], ["x"]),
        node("DequantizeLinear", ["w", "sw", "zw"], ["v"]),
        node("MatMul", ["x", "v"], ["c"]),
        node("QuantizeLinear", ["c", "sc", "zc"], ["d"]),
        node("DequantizeLinear", ["d", "sc", "zc"], ["e"]),
        node("DequantizeLinear", ["b", "sb", "zb"], ["f"]),
        node("Add", ["e", "f"], ["s"]),
        node("QuantizeLinear", ["s", "sc", "zc"], ["y"]),
    ]
    found = _compare(nodes, {"q": _whole(random, "uint8", 2, 5, 30)}, constants, "integer_matmul")
    (made,) = found.nodes
    assert made.attributes["addend"].other is None


def test_a_value_that_is_only_moved_stays_quantised() -> None:
    random = np.random.default_rng(2)
    constants = {"s": np.float32(0.1), "z": np.uint8(7), "shape": np.array([2, 12, 9])}
    nodes = [
        node("DequantizeLinear", ["q", "s", "z"], ["x"]),
        node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Transpose", ["p"], ["t"], perm=[0, 2, 3, 1]),
        node("Reshape", ["t", "shape"], ["r"]),
        node("QuantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    inputs = {"q": _whole(random, "uint8", 2, 9, 4, 6)}
    model = model_of(nodes, {"q": (2, 9, 4, 6)}, ["y"], constants, opset=21, dtypes={"q": NUMBERS["uint8"]})
    model.graph.output[0].type.Clear()
    network = rewrite(imported(model)).network
    assert {network.values[name].dtype for each in network.nodes for name in each.outputs if name} == {"uint8"}
    (wanted,) = ReferenceEvaluator(_typed(model)).run(None, inputs)
    np.testing.assert_array_equal(evaluate(network, inputs)["y"], wanted)


# --- models that ONNX Runtime's quantiser writes ------------------------------------------------------


def _network() -> Any:
    """Return a small network: a convolution, a residual block, a dense layer."""
    random = np.random.default_rng(4)

    def weights(*shape: int) -> Any:
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    constants = {"w0": weights(8, 3, 3, 3), "b0": weights(8), "w1": weights(8, 8, 3, 3), "b1": weights(8)}
    constants |= {"w2": weights(8, 1, 3, 3), "b2": weights(8), "w3": weights(32, 10), "b3": weights(10)}
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], "conv0", pads=[1] * 4),
        node("Relu", ["c0"], ["r0"], "relu0"),
        node("MaxPool", ["r0"], ["m"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["m", "w1", "b1"], ["c1"], "conv1", pads=[1] * 4),
        node("Add", ["c1", "m"], ["s"], "add"),
        node("Conv", ["s", "w2", "b2"], ["c2"], "depthwise", group=8, pads=[1, 1, 0, 0], strides=[2, 2]),
        node("Relu", ["c2"], ["r2"], "relu2"),
        node("Flatten", ["r2"], ["f"], "flatten"),
        node("Gemm", ["f", "w3", "b3"], ["y"], "dense"),
    ]
    return model_of(nodes, {"x": (2, 3, 8, 8)}, ["y"], constants, opset=17)


def _quantised(folder: Path, how: str) -> Any:
    from onnxruntime import quantization

    class Samples(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            random = np.random.default_rng(5)
            self.left = [{"x": random.standard_normal((2, 3, 8, 8)).astype(np.float32)} for _ in range(3)]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    source, made = folder / "float.onnx", folder / "int8.onnx"
    onnx.save(_network(), str(source))
    logging.disable(logging.WARNING)  # of models without pre-processing
    try:
        # Without VNNI, ONNX Runtime saturates sums of two products of uint8 and int8 of all 8 bits.
        if how == "dynamic":
            quantization.quantize_dynamic(
                str(source), str(made), weight_type=quantization.QuantType.QInt8, reduce_range=True
            )
        else:
            quantization.quantize_static(
                str(source), str(made), Samples(), quant_format=quantization.QuantFormat[how],
                weight_type=quantization.QuantType.QInt8, per_channel=how == "QDQ", reduce_range=True,
            )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    return onnx.load(str(made))


@pytest.mark.sycl
@pytest.mark.instruction_sets
@pytest.mark.parametrize("how", ["QDQ", "QOperator", "dynamic"])
def test_models_of_the_quantiser(tmp_path: Path, how: str) -> None:
    model = _quantised(tmp_path, how)
    x = np.random.default_rng(6).standard_normal((2, 3, 8, 8)).astype(np.float32)
    (wanted,) = session(model).run(None, {"x": x})
    with syclsched.compile(model, devices="cpu", autotune=False) as made:
        (got,) = made({"x": x}).values()
        operations = [task.operation.name for task in made.graph.tasks]
    # Values before the last layer may be rounded to the neighbouring step.
    assert np.abs(got - wanted).max() < 0.03 * np.abs(wanted).max()
    integer = [name for name in operations if name.startswith("integer ")]
    assert len(integer) == 4, operations
    assert sum("narrow" in name for name in integer) == 4
    if how != "dynamic":
        assert all("to(" in name for name in integer)


@pytest.mark.sycl
@pytest.mark.instruction_sets
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("largest", [64, 127])
def test_extreme_products_do_not_saturate(largest: int, dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.repeat(np.array([[limits.min], [limits.max]], dtype), 70, axis=1)
    w = np.stack([np.full(70, largest), np.full(70, -largest), np.resize([largest, -largest], 70)], axis=1).astype(
        np.int8
    )
    made = node("MatMulInteger", ["x", "w"], ["y"])
    model = model_of([made], {"x": x.shape}, ["y"], {"w": w}, dtypes={"x": NUMBERS[dtype], "y": NUMBERS["int32"]})
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        (got,) = compiled({"x": x}).values()
    np.testing.assert_array_equal(got, x.astype(np.int64) @ w.astype(np.int64))


@pytest.mark.sycl
def test_weights_of_four_bits_stay_packed() -> None:
    random = np.random.default_rng(7)
    constants = {
        "w": random.integers(0, 256, (48, 3, 16)).astype(np.uint8),
        "s": random.random(48 * 3).astype(np.float32),
        "z": random.integers(0, 256, 48 * 2).astype(np.uint8),
    }
    sizes = {"K": 96, "N": 48, "bits": 4, "block_size": 32}
    made = node("MatMulNBits", ["x", "w", "s", "z"], ["y"], domain="com.microsoft", **sizes)
    for rows in (1, 7):
        model = model_of([made], {"x": (rows, 96)}, ["y"], constants)
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        x = random.standard_normal((rows, 96)).astype(np.float32)
        (wanted,) = session(model).run(None, {"x": x})
        with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
            (got,) = compiled({"x": x}).values()
            (task,) = compiled.graph.tasks
            assert task.operation.name.startswith("block matmul")
            assert sum(compiled.plan.constant_bytes.values()) < 48 * 96
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
