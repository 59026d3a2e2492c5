# SPDX-License-Identifier: Apache-2.0
"""Models for training, with seeded weights: each as ONNX, and as a function of PyTorch's tensors by the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TrainingModel:
    """A model in both forms."""

    onnx: Any  # onnx.ModelProto, of one input and one output
    weights: Mapping[str, Array]  # the initialisers, by name
    #: Function of PyTorch, tensors by name, and an input.
    forward: Callable[[Any, Mapping[str, Any], Any], Any]
    input_shape: tuple[int, ...]  # of one sample
    classes: int
    vocabulary: int = 0  # of inputs that are tokens; else they are numbers

    def batch(self, samples: int, seed: int = 0) -> tuple[Array, Array]:
        """Return random samples and labels."""
        random = np.random.default_rng(seed)
        shape = (samples, *self.input_shape)
        if self.vocabulary:
            x: Array = random.integers(0, self.vocabulary, shape)
        else:
            x = random.standard_normal(shape, np.float32)
        return x, random.integers(0, self.classes, samples)


class _Graph:
    """An ONNX graph under construction."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}
        self.settings: dict[str, Array] = {}

    def weight(self, name: str, *shape: int, fan_in: int = 1, value: float | None = None) -> str:
        if value is None:
            self.weights[name] = (self._random.standard_normal(shape) / sqrt(fan_in)).astype(np.float32)
        else:
            self.weights[name] = np.full(shape, value, np.float32)
        return name

    def setting(self, name: str, value: Any) -> str:
        self.settings[name] = np.asarray(value)
        return name

    def add(self, operator: str, *inputs: str, output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=output, **attributes))
        return output

    def model(self, shape: Sequence[int], output: str, classes: int, *, tokens: bool = False) -> Any:
        from onnx import TensorProto, helper, numpy_helper

        kind = TensorProto.INT64 if tokens else TensorProto.FLOAT
        held = {**self.weights, **self.settings}
        graph = helper.make_graph(
            self.nodes,
            "model",
            [helper.make_tensor_value_info("x", kind, ["samples", *shape])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["samples", classes])],
            [numpy_helper.from_array(array, name) for name, array in held.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def perceptron(sizes: Sequence[int] = (784, 512, 512, 10), seed: int = 0) -> TrainingModel:
    """Return a multi-layer perceptron with rectifiers."""
    g, last, y = _Graph(seed), len(sizes) - 2, "x"
    for i, (features, units) in enumerate(pairwise(sizes)):
        weights = (
            g.weight(f"layer{i}.weight", units, features, fan_in=features),
            g.weight(f"layer{i}.bias", units, value=0),
        )
        y = g.add("Gemm", y, *weights, output=f"dense{i}", transB=1)
        if i < last:
            y = g.add("Relu", y, output=f"relu{i}")

    def forward(torch: Any, w: Mapping[str, Any], x: Any) -> Any:
        for i in range(last + 1):
            x = torch.nn.functional.linear(x, w[f"layer{i}.weight"], w[f"layer{i}.bias"])
            x = torch.relu(x) if i < last else x
        return x

    return TrainingModel(g.model(sizes[:1], y, sizes[-1]), g.weights, forward, (sizes[0],), sizes[-1])


def convolutional(
    channels: Sequence[int] = (32, 32, 64, 64, 128, 128), size: int = 32, classes: int = 10, seed: int = 0
) -> TrainingModel:
    """Return a network of convolutions with batch normalisation, of which every second is followed by pooling."""
    g, y, depth = _Graph(seed), "x", 3
    for i, count in enumerate(channels):
        y = g.add(
            "Conv",
            y,
            g.weight(f"conv{i}.weight", count, depth, 3, 3, fan_in=9 * depth),
            output=f"conv{i}",
            pads=[1, 1, 1, 1],
        )
        moments = [g.weight(f"norm{i}.{name}", count, value=value) for name, value in _NORMALISATION.items()]
        y = g.add("BatchNormalization", y, *moments, output=f"norm{i}")
        y = g.add("Relu", y, output=f"relu{i}")
        if i % 2:
            y = g.add("MaxPool", y, output=f"pool{i}", kernel_shape=[2, 2], strides=[2, 2])
        depth = count
    y = g.add("GlobalAveragePool", y, output="average")
    y = g.add("Flatten", y, output="features")
    weights = g.weight("dense.weight", classes, depth, fan_in=depth), g.weight("dense.bias", classes, value=0)
    y = g.add("Gemm", y, *weights, output="scores", transB=1)

    def forward(torch: Any, w: Mapping[str, Any], x: Any) -> Any:
        f = torch.nn.functional
        for i in range(len(channels)):
            x = f.conv2d(x, w[f"conv{i}.weight"], padding=1)
            mean, variance, scale, bias = (w[f"norm{i}.{name}"] for name in ("mean", "var", "weight", "bias"))
            x = torch.relu(f.batch_norm(x, mean, variance, scale, bias, training=True))
            x = f.max_pool2d(x, 2) if i % 2 else x
        return f.linear(x.mean((2, 3)), w["dense.weight"], w["dense.bias"])

    return TrainingModel(g.model((3, size, size), y, classes), g.weights, forward, (3, size, size), classes)


_NORMALISATION = {"weight": 1.0, "bias": 0.0, "mean": 0.0, "var": 1.0}


def recurrent(
    features: int = 32, hidden: int = 128, *, steps: int = 32, classes: int = 10, seed: int = 0
) -> TrainingModel:
    """Return a classifier of sequences: an LSTM, and a product of its last state."""
    g = _Graph(seed)
    weights = (
        g.weight("lstm.w", 1, 4 * hidden, features, fan_in=features),
        g.weight("lstm.r", 1, 4 * hidden, hidden, fan_in=hidden),
        g.weight("lstm.b", 1, 8 * hidden, value=0),
    )
    y = g.add("Transpose", "x", output="steps", perm=[1, 0, 2])
    g.add("LSTM", y, *weights, output="states", hidden_size=hidden)
    g.nodes[-1].output[:] = ["", "last"]
    y = g.add("Squeeze", "last", g.setting("first", np.array([0])), output="state")
    dense = g.weight("dense.weight", classes, hidden, fan_in=hidden), g.weight("dense.bias", classes, value=0)
    y = g.add("Gemm", y, *dense, output="scores", transB=1)

    def forward(torch: Any, w: Mapping[str, Any], x: Any) -> Any:
        def gates(given: Any) -> Any:  # input, output, forget, cell -> input, forget, cell, output
            i, o, f, c = given.chunk(4)
            return torch.cat([i, f, c, o])

        (first, second) = w["lstm.b"][0].chunk(2)
        layer = torch.nn.LSTM(features, hidden, batch_first=True)
        given = {
            "weight_ih_l0": gates(w["lstm.w"][0]),
            "weight_hh_l0": gates(w["lstm.r"][0]),
            "bias_ih_l0": gates(first),
            "bias_hh_l0": gates(second),
        }
        _, (last, _) = torch.func.functional_call(layer, given, x)
        return torch.nn.functional.linear(last[0], w["dense.weight"], w["dense.bias"])

    return TrainingModel(g.model((steps, features), y, classes), g.weights, forward, (steps, features), classes)


def transformer(
    layers: int = 4,
    width: int = 256,
    heads: int = 4,
    *,
    length: int = 64,
    vocabulary: int = 1000,
    classes: int = 10,
    seed: int = 0,
) -> TrainingModel:
    """Return an encoder of tokens: layers with pre-normalisation, and a classifier of the mean state."""
    g, per_head = _Graph(seed), width // heads
    g.setting("split", [0, length, heads, per_head])
    g.setting("merged", [0, length, width])
    g.setting("scale", np.float32(1 / sqrt(per_head)))

    def dense(x: str, name: str, features: int, units: int) -> str:
        made = g.add(
            "MatMul", x, g.weight(f"{name}.weight", features, units, fan_in=features), output=f"{name}.product"
        )
        return g.add("Add", made, g.weight(f"{name}.bias", units, value=0), output=name)

    def normalised(x: str, name: str) -> str:
        weights = g.weight(f"{name}.weight", width, value=1), g.weight(f"{name}.bias", width, value=0)
        return g.add("LayerNormalization", x, *weights, output=name)

    def split(x: str, order: list[int]) -> str:
        return g.add("Transpose", g.add("Reshape", x, "split", output=f"{x}.split"), output=f"{x}.heads", perm=order)

    y = g.add("Gather", g.weight("tokens", vocabulary, width, fan_in=width), "x", output="embedded")
    y = g.add("Add", y, g.weight("positions", length, width, fan_in=width), output="placed")
    for i in range(layers):
        z = normalised(y, f"norm{i}a")
        q, k, v = (dense(z, f"{name}{i}", width, width) for name in "qkv")
        q = g.add("Mul", q, "scale", output=f"scaled{i}")
        scores = g.add("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]), output=f"scores{i}")
        parts = g.add("Softmax", scores, output=f"parts{i}", axis=-1)
        mixed = g.add("MatMul", parts, split(v, [0, 2, 1, 3]), output=f"mixed{i}")
        joined = g.add("Transpose", mixed, output=f"joined{i}", perm=[0, 2, 1, 3])
        z = dense(g.add("Reshape", joined, "merged", output=f"merged{i}"), f"out{i}", width, width)
        y = g.add("Add", y, z, output=f"attended{i}")
        z = dense(normalised(y, f"norm{i}b"), f"up{i}", width, 4 * width)
        half = g.setting("half", np.float32(0.5))
        root, one = (g.setting(name, np.float32(n)) for name, n in (("root", sqrt(2)), ("one", 1)))
        bent = g.add("Add", g.add("Erf", g.add("Div", z, root, output=f"g{i}a"), output=f"g{i}b"), one, output=f"g{i}c")
        z = g.add("Mul", g.add("Mul", z, bent, output=f"g{i}d"), half, output=f"gelu{i}")
        y = g.add("Add", y, dense(z, f"down{i}", 4 * width, width), output=f"layer{i}")
    y = g.add("ReduceMean", normalised(y, "norm"), output="mean", axes=[1], keepdims=0)
    y = dense(y, "classes", width, classes)

    def forward(torch: Any, w: Mapping[str, Any], x: Any) -> Any:
        def dense(x: Any, name: str) -> Any:
            return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

        def normalised(x: Any, name: str) -> Any:
            return torch.nn.functional.layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"])

        x = w["tokens"][x] + w["positions"]
        for i in range(layers):
            z = normalised(x, f"norm{i}a")
            q, k, v = (dense(z, f"{name}{i}").unflatten(-1, (heads, per_head)).transpose(1, 2) for name in "qkv")
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + dense(mixed.transpose(1, 2).flatten(2), f"out{i}")
            x = x + dense(torch.nn.functional.gelu(dense(normalised(x, f"norm{i}b"), f"up{i}")), f"down{i}")
        return dense(normalised(x, "norm").mean(1), "classes")

    made = g.model((length,), y, classes, tokens=True)
    return TrainingModel(made, g.weights, forward, (length,), classes, vocabulary)
