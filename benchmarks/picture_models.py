# SPDX-License-Identifier: Apache-2.0
"""ONNX models for pictures on telephones, with seeded weights: inverted residuals, as MobileNetV2 and EfficientNet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

#: Times as many channels inside, channels, blocks, stride of the first one, and extent of filters, for each stage.
Stages = Sequence[tuple[int, int, int, int, int]]
#: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018, table 2.
MOBILENET_V2: Stages = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
)
#: Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", 2019, table 1.
EFFICIENTNET_B0: Stages = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


class _Network:
    """A network in the making."""

    def __init__(self, *, is_smooth: bool) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {} if is_smooth else {"zero": np.float32(0), "six": np.float32(6)}
        self._is_smooth = is_smooth
        self._random = np.random.default_rng(0)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return its result."""
        from onnx import helper

        made = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [made], **attributes))
        return made

    def conv(self, x: str, inside: int, outside: int, extent: int = 1, stride: int = 1, groups: int = 1) -> str:
        """Add a convolution with bias, as after the normalisation is part of it."""
        fan_in, name = inside // groups * extent * extent, f"w{len(self.nodes)}"
        drawn = self._random.standard_normal((outside, inside // groups, extent, extent)) * np.sqrt(2 / fan_in)
        self.weights[name] = drawn.astype(np.float32)
        self.weights[f"{name}.bias"] = (0.1 * self._random.standard_normal(outside)).astype(np.float32)
        window = {"strides": [stride] * 2, "pads": [extent // 2] * 4, "group": groups}
        return self.add("Conv", x, name, f"{name}.bias", **window)

    def activated(self, x: str) -> str:
        """Add the network's activation: x * sigmoid(x), or the numbers from 0 to 6."""
        if self._is_smooth:
            return self.add("Mul", x, self.add("Sigmoid", x))
        return self.add("Clip", x, "zero", "six")

    def excited(self, x: str, channels: int, inside: int) -> str:
        """Add the multiplication of all channels by shares that follow from their means."""
        mean = self.activated(self.conv(self.add("GlobalAveragePool", x), channels, inside))
        return self.add("Mul", x, self.add("Sigmoid", self.conv(mean, inside, channels)))


def inverted_residuals(size: int, stages: Stages, *, is_smooth: bool) -> Any:
    """Return a network of inverted residuals; the smooth one has channels excited, and x * sigmoid(x)."""
    from onnx import TensorProto, helper, numpy_helper

    network = _Network(is_smooth=is_smooth)
    value, channels = network.activated(network.conv("x", 3, 32, 3, 2)), 32
    for times, width, count, first, extent in stages:
        for stride in [first] + [1] * (count - 1):
            before, wide = value, times * channels
            if times > 1:
                value = network.activated(network.conv(value, channels, wide))
            value = network.activated(network.conv(value, wide, wide, extent, stride, wide))
            if is_smooth:
                value = network.excited(value, wide, channels // 4)
            value = network.conv(value, wide, width)
            if stride == 1 and width == channels:
                value = network.add("Add", value, before)
            channels = width
    value = network.add("GlobalAveragePool", network.activated(network.conv(value, channels, 1280)))
    result = network.conv(value, 1280, 1000)
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in (("x", (1, 3, size, size)), (result, (1, 1000, 1, 1)))
    )
    weights = [numpy_helper.from_array(value, name) for name, value in network.weights.items()]
    graph = helper.make_graph(network.nodes, "inverted residuals", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


#: Name -> function that makes the model, and the target ratio to ONNX Runtime's time.
PICTURES: Mapping[str, tuple[Callable[[], Any], float]] = {
    "mobilenet v2": (partial(inverted_residuals, 224, MOBILENET_V2, is_smooth=False), 1.0),
    "efficientnet b0": (partial(inverted_residuals, 224, EFFICIENTNET_B0, is_smooth=True), 1.0),
}
