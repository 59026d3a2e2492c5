# SPDX-License-Identifier: Apache-2.0
"""ONNX models that classify texts, and that recognise text in images, with seeded weights."""

from __future__ import annotations

from typing import Any

import numpy as np

_INT64, _FLOAT = 7, 1


class _Writer:
    """The nodes and weights of a model, one layer after another."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        self._random = np.random.default_rng(0)

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node, and return the name of its first result."""
        from onnx import helper

        names = [f"{operator.lower()}{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0]

    def constant(self, value: Any) -> str:
        """Add a constant, and return its name."""
        name = f"c{len(self.weights)}"
        self.weights[name] = np.asarray(value)
        return name

    def normal(self, *shape: int, inputs: int) -> str:
        """Add random weights as at the start of training."""
        return self.constant((self._random.standard_normal(shape) * np.sqrt(2.0 / inputs)).astype(np.float32))

    def conv(self, x: str, channels: int, to: int, kernel: tuple[int, ...], **attributes: Any) -> str:
        """Add a convolution with ReLU that keeps extents."""
        pads = [each // 2 for each in kernel] * 2
        weights = self.normal(to, channels, *kernel, inputs=channels * int(np.prod(kernel)))
        bias = self.constant(np.zeros(to, np.float32))
        made = self.add("Conv", x, weights, bias, **{"pads": pads, **attributes})
        return self.add("Relu", made)

    def model(self, name: str, x: tuple[int, ...], dtype: int, output: str) -> Any:
        """Return the model."""
        from onnx import helper, numpy_helper

        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("x", dtype, x)],
            [helper.make_tensor_value_info(output, _FLOAT, None)],
            [numpy_helper.from_array(value, each) for each, value in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def text_classifier(tokens: int = 64, vocabulary: int = 5000, width: int = 64, filters: int = 100) -> Any:
    """Return a convolutional classifier of sentences (Kim 2014, arXiv:1408.5882) of three filter widths."""
    w = _Writer()
    words = w.add("Gather", w.normal(vocabulary, width, inputs=2), "x")
    channels = w.add("Transpose", words, perm=[0, 2, 1])
    found = []
    for size in (3, 4, 5):
        made = w.conv(channels, width, filters, (size,), pads=[0, 0])
        found.append(w.add("ReduceMax", made, axes=[2], keepdims=0))
    joined = w.add("Concat", *found, axis=1)
    scores = w.add("Gemm", joined, w.normal(3 * filters, 5, inputs=3 * filters), w.constant(np.zeros(5, np.float32)))
    return w.model("text", (1, tokens), _INT64, w.add("Softmax", scores, axis=1))


def reader(width: int = 160, characters: int = 97, hidden: int = 256) -> Any:
    """Return a recogniser of a line of text (Shi et al. 2015, arXiv:1507.05717): convolutions, bidirectional LSTMs."""
    w = _Writer()
    x, channels = "x", 1
    for to, pool in ((32, (2, 2)), (64, (2, 2)), (128, None), (128, (2, 1)), (256, None), (256, (2, 1))):
        x = w.conv(x, channels, to, (3, 3))
        if pool:
            x = w.add("MaxPool", x, kernel_shape=pool, strides=pool)
        channels = to
    x = w.add("ReduceMax", w.conv(x, channels, channels, (2, 1), pads=[0, 0, 0, 0]), axes=[2], keepdims=0)
    x, steps = w.add("Transpose", x, perm=[2, 0, 1]), width // 4
    for _ in range(2):
        given = [w.normal(2, 4 * hidden, channels, inputs=channels), w.normal(2, 4 * hidden, hidden, inputs=hidden)]
        bias = w.constant(np.zeros((2, 8 * hidden), np.float32))
        x = w.add("LSTM", x, *given, bias, outputs=3, hidden_size=hidden, direction="bidirectional")
        x = w.add("Transpose", x, perm=[0, 2, 1, 3])
        x, channels = w.add("Reshape", x, w.constant(np.array([steps, 1, 2 * hidden]))), 2 * hidden
    scores = w.add("MatMul", x, w.normal(channels, characters, inputs=channels))
    return w.model("reader", (1, 1, 32, width), _FLOAT, w.add("Softmax", scores, axis=2))
