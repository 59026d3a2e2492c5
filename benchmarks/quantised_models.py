# SPDX-License-Identifier: Apache-2.0
"""Quantised ONNX models with seeded weights, made by ONNX Runtime's quantiser: 8-bit networks, 4-bit dense layers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

_FLOAT = 1


def _model(nodes: list[Any], x: tuple[int, ...], weights: Mapping[str, Any]) -> Any:
    """Return a model of x and y."""
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", _FLOAT, x)],
        [helper.make_tensor_value_info("y", _FLOAT, None)],
        [numpy_helper.from_array(value, each) for each, value in weights.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def convolutional(size: int, widths: tuple[int, ...]) -> Any:
    """Return residual stages of convolutions and ReLU, with batch normalisation in their weights."""
    from onnx import helper

    random = np.random.default_rng(0)
    nodes: list[Any] = []
    weights: dict[str, Any] = {}

    def conv(before: str, name: str, outside: int, inside: int, kernel: int, stride: int = 1) -> str:
        scale = np.sqrt(2 / (inside * kernel * kernel))
        weights[f"w{name}"] = (scale * random.standard_normal((outside, inside, kernel, kernel))).astype(np.float32)
        weights[f"b{name}"] = (0.1 * random.standard_normal(outside)).astype(np.float32)
        given = {"strides": [stride] * 2, "pads": [kernel // 2] * 4}
        nodes.append(helper.make_node("Conv", [before, f"w{name}", f"b{name}"], [f"c{name}"], f"conv{name}", **given))
        return f"c{name}"

    def relu(before: str, name: str) -> str:
        nodes.append(helper.make_node("Relu", [before], [f"r{name}"], f"relu{name}"))
        return f"r{name}"

    before, inside = relu(conv("x", "stem", widths[0], 3, 7, 2), "stem"), widths[0]
    nodes.append(
        helper.make_node("MaxPool", [before], ["pool"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    )
    before = "pool"
    for stage, width in enumerate(widths):
        stride = 1 if width == inside else 2
        short = before if width == inside else conv(before, f"{stage}s", width, inside, 1, stride)
        made = relu(conv(before, f"{stage}a", width, inside, 3, stride), f"{stage}a")
        made = conv(made, f"{stage}b", width, width, 3)
        nodes.append(helper.make_node("Add", [made, short], [f"sum{stage}"], f"add{stage}"))
        before, inside = relu(f"sum{stage}", f"{stage}b"), width
    nodes.append(helper.make_node("GlobalAveragePool", [before], ["average"], "average"))
    nodes.append(helper.make_node("Flatten", ["average"], ["flat"], "flatten"))
    weights["wd"] = (random.standard_normal((inside, 1000)) / np.sqrt(inside)).astype(np.float32)
    weights["bd"] = np.zeros(1000, np.float32)
    nodes.append(helper.make_node("Gemm", ["flat", "wd", "bd"], ["y"], "dense"))
    return _model(nodes, (1, 3, size, size), weights)


def encoder(layers: int, tokens: int, width: int, heads: int) -> Any:
    """Return layers of a transformer's encoder."""
    from onnx import helper

    random = np.random.default_rng(0)
    nodes: list[Any] = []
    weights: dict[str, Any] = {
        "split": np.array([1, tokens, heads, width // heads], np.int64),
        "joined": np.array([1, tokens, width], np.int64),
        "root": np.array((width // heads) ** -0.5, np.float32),
    }

    def add(operator: str, inputs: list[str], name: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [name], f"{operator}_{name}", **attributes))
        return name

    def dense(before: str, name: str, inputs: int, outputs: int) -> str:
        weights[f"w{name}"] = (random.standard_normal((inputs, outputs)) / np.sqrt(inputs)).astype(np.float32)
        weights[f"b{name}"] = (0.1 * random.standard_normal(outputs)).astype(np.float32)
        return add("Add", [add("MatMul", [before, f"w{name}"], f"m{name}"), f"b{name}"], f"d{name}")

    def norm(before: str, name: str) -> str:
        weights[f"g{name}"], weights[f"h{name}"] = np.ones(width, np.float32), np.zeros(width, np.float32)
        return add("LayerNormalization", [before, f"g{name}", f"h{name}"], f"n{name}", axis=-1)

    before = "x"
    for i in range(layers):
        seen = norm(before, f"{i}a")
        parts = {}
        for each, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            made = add("Reshape", [dense(seen, f"{i}{each}", width, width), "split"], f"s{i}{each}")
            parts[each] = add("Transpose", [made], f"t{i}{each}", perm=order)
        scores = add("Mul", [add("MatMul", [parts["q"], parts["k"]], f"qk{i}"), "root"], f"scores{i}")
        mixed = add("MatMul", [add("Softmax", [scores], f"p{i}", axis=-1), parts["v"]], f"mixed{i}")
        mixed = add("Reshape", [add("Transpose", [mixed], f"back{i}", perm=[0, 2, 1, 3]), "joined"], f"flat{i}")
        before = add("Add", [before, dense(mixed, f"{i}o", width, width)], f"first{i}")
        inner = dense(norm(before, f"{i}b"), f"{i}u", width, 4 * width)
        weights["half"], weights["one"] = np.array(0.5, np.float32), np.array(1, np.float32)
        weights["two"] = np.array(2**0.5, np.float32)
        error = add("Erf", [add("Div", [inner, "two"], f"g1{i}")], f"g2{i}")
        inner = add("Mul", [add("Mul", [inner, add("Add", [error, "one"], f"g3{i}")], f"g4{i}"), "half"], f"g5{i}")
        last = i + 1 == layers
        before = add("Add", [before, dense(inner, f"{i}d", 4 * width, width)], "y" if last else f"second{i}")
    return _model(nodes, (1, tokens, width), weights)


def quantised(make: Callable[[], Any], *, static: bool) -> Any:
    """Return a model quantised to 8 bits, its activations by their measured range or by each value's own."""
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType

    model = make()
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]

    class Samples(CalibrationDataReader):
        """Calibration inputs."""

        def __init__(self) -> None:
            random = np.random.default_rng(1)
            self.left = [{"x": random.standard_normal(shape).astype(np.float32)} for _ in range(4)]

        def get_next(self) -> Any:
            """Return the next inputs, None after the last."""
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, str(given))
        if static:
            quantization.quantize_static(
                str(given), str(made), Samples(), quant_format=QuantFormat.QDQ, weight_type=QuantType.QInt8,
                activation_type=QuantType.QUInt8, per_channel=True, reduce_range=True,
            )  # fmt: skip
        else:
            quantization.quantize_dynamic(str(given), str(made), weight_type=QuantType.QInt8, reduce_range=True)
        return onnx.load(str(made))


def four_bits(rows: int, layers: int, width: int, block: int) -> Any:
    """Return dense layers with 4-bit weights in blocks that have a scale and a zero point each."""
    from onnx import helper

    random, nodes, weights, before = np.random.default_rng(0), [], {}, "x"
    blocks = width // block
    for layer in range(layers):
        weights |= {
            f"w{layer}": random.integers(0, 256, (width, blocks, block // 2), np.uint8),
            f"s{layer}": (random.random(width * blocks) * 0.2 / np.sqrt(width)).astype(np.float32),
            f"z{layer}": random.integers(0, 256, width * blocks // 2, np.uint8),
        }
        made = "y" if layer + 1 == layers else f"y{layer}"
        given = [before, f"w{layer}", f"s{layer}", f"z{layer}"]
        sizes = {"K": width, "N": width, "bits": 4, "block_size": block}
        nodes.append(helper.make_node("MatMulNBits", given, [made], domain="com.microsoft", **sizes))
        before = made
    return _model(nodes, (rows, width), weights)


_NETWORK = partial(convolutional, 224, (64, 64, 128, 128, 256, 256))
_ENCODER = partial(encoder, 4, 128, 384, 6)

#: Name -> function that makes the model, and the target ratio to ONNX Runtime's time.
QUANTISED: Mapping[str, tuple[Callable[[], Any], float]] = {
    "int8 convolutions": (partial(quantised, _NETWORK, static=True), 1.0),
    "int8 encoder, dynamic": (partial(quantised, _ENCODER, static=False), 1.0),
    "int8 encoder, static": (partial(quantised, _ENCODER, static=True), 1.0),
    "4 bits, 1 row": (partial(four_bits, 1, 3, 4096, 32), 1.0),
    "4 bits, 32 rows": (partial(four_bits, 32, 3, 2048, 32), 1.0),
}
