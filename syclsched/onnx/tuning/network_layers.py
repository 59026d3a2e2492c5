# SPDX-License-Identifier: Apache-2.0
"""Layers of ONNX networks in the making, with seeded weights: each reads the last value and becomes it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

#: The 8-bit number that stands for 0 where values have a sign.
ZERO = 120


class Layers:
    """A network in the making: its nodes, its weights, and its last value, with as many channels."""

    def __init__(self, value: str, channels: int) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        self.value, self.channels = value, channels

    def add(self, kind: str, *others: str, **attributes: Any) -> str:
        """Add a node that reads the last value and others, and return its own."""
        from onnx import helper

        made = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.value, *others], [made], **attributes))
        self.value = made
        return made

    def weight(self, *shape: int) -> str:
        """Add seeded weights, and return their name."""
        import numpy as np

        fan_in = max(1, int(np.prod(shape[1:])))
        drawn = np.random.default_rng(len(self.weights)).standard_normal(shape) / np.sqrt(fan_in)
        return self.constant(drawn.astype(np.float32))

    def constant(self, value: Any) -> str:
        """Add a constant, and return its name."""
        name = f"weights{len(self.weights)}"
        self.weights[name] = value
        return name

    def linear_convolution(
        self, channels: int, extent: int, *, stride: int | tuple[int, int] = 1, groups: int = 1
    ) -> str:
        """Add a convolution, with bias."""
        weights = self.weight(channels, self.channels // groups, extent, extent), self.weight(channels)
        self.channels = channels
        return self.add("Conv", *weights, **_window(extent, stride), group=groups)

    def convolution(
        self,
        channels: int,
        extent: int,
        *,
        stride: int | tuple[int, int] = 1,
        groups: int = 1,
        activation: str = "Relu",
    ) -> str:
        """Add a convolution, with bias, and an activation: an operator, ``"Relu6"``, ``"Silu"`` or ``"Gelu"``."""
        import numpy as np

        made = self.linear_convolution(channels, extent, stride=stride, groups=groups)
        if activation == "Relu6":
            return self.add("Clip", self.constant(np.float32(0)), self.constant(np.float32(6)))
        if activation == "Silu":
            self.add("Sigmoid")
            return self.add("Mul", made)
        return self.gaussian_unit() if activation == "Gelu" else self.add(activation)

    def inverted_residual(self, channels: int, extent: int, *, stride: int = 1, is_smooth: bool = False) -> None:
        """Add a convolution by channel between two of all channels, the last one without an activation.

        The smooth one has x * sigmoid(x), not a rectifier, and shares of the channels.
        """
        before, narrow, activation = self.value, self.channels, "Silu" if is_smooth else "Relu6"
        wide = 6 * narrow
        self.convolution(wide, 1, activation=activation)
        self.convolution(wide, extent, stride=stride, groups=wide, activation=activation)
        if is_smooth:
            self.excitation(narrow // 4, activation)
        self.linear_convolution(channels, 1)
        if stride == 1 and channels == narrow:
            self.add("Add", before)

    def residual(self, extent: int) -> None:
        """Add two convolutions, whose result is added to the last value, and a rectifier."""
        before, channels = self.value, self.channels
        self.convolution(channels, 1)
        self.linear_convolution(channels, extent)
        self._sum_with(before)

    def excitation(self, inside: int, activation: str = "Relu", *, slope: float | None = None) -> None:
        """Add the product of the last value's channels and shares, which follow from the channels' means.

        Shares are sigmoids, or straight lines of a slope between 0 and 1.
        """
        value, channels = self.value, self.channels
        self.add("GlobalAveragePool")
        self.convolution(inside, 1, activation=activation)
        self.linear_convolution(channels, 1)
        share = self.add("Sigmoid") if slope is None else self.add("HardSigmoid", alpha=slope)
        self.value = value
        self.add("Mul", share)

    def residual_of_groups(self, groups: int, size: int) -> None:
        """Add convolutions of groups, whose channels are shuffled in between, to the last value of so many rows."""
        import numpy as np

        before, channels = self.value, self.channels
        self.convolution(channels, 1, groups=groups)
        self.add("Reshape", self.constant(np.array([1, groups, channels // groups, size * size])))
        self.add("Transpose", perm=(0, 2, 1, 3))
        self.add("Reshape", self.constant(np.array([1, channels, size, size])))
        self.linear_convolution(channels, 3, groups=channels)
        self.linear_convolution(channels, 1, groups=groups)
        self._sum_with(before)

    def _sum_with(self, before: str) -> None:
        """Add the sum with an earlier value, and a rectifier."""
        self.add("Add", before)
        self.add("Relu")

    def pooling(self, kind: str, stride: int = 1) -> str:
        """Add a pooling of windows of three by three."""
        return self.add(kind, **_window(3, stride))

    def doubled(self) -> str:
        """Add twice as many rows and columns of the last value."""
        import numpy as np

        factors, way = self.constant(np.array([1, 1, 2, 2], np.float32)), "asymmetric"
        return self.add("Resize", "", factors, mode="nearest", coordinate_transformation_mode=way, nearest_mode="floor")

    def upsampled(self, channels: int, activation: str) -> str:
        """Add a transposed convolution whose kernels do not overlap, with bias, and an activation."""
        self.add("ConvTranspose", self.weight(self.channels, channels, 2, 2), self.weight(channels), strides=[2, 2])
        self.channels = channels
        return self.add(activation)

    def halve_by_sum(self, channels: int) -> None:
        """Add two convolutions of the last value with strides, and add their results."""
        value, before = self.value, self.channels
        made = self.linear_convolution(channels, 3, stride=2)
        self.value, self.channels = value, before
        self.linear_convolution(channels, 1, stride=2)
        self._sum_with(made)

    def halve_by_parts(self, channels: int) -> None:
        """Add convolutions and a pooling of the last value, all with strides, and join their results."""
        value, before = self.value, self.channels
        made = []
        for extent in (1, 3):
            self.value, self.channels = value, before
            made.append(self.convolution(channels, extent, stride=2))
        self.value = value
        self.add("MaxPool", **_window(3, 2))
        self.add("Concat", *made, axis=1)
        self.channels = before + 2 * channels

    def branches(self, *layers: tuple[int, int]) -> None:
        """Add convolutions of the last value, of so many channels and such an extent, and join their results."""
        value, channels = self.value, self.channels
        made = []
        for each in layers:
            self.value, self.channels = value, channels
            made.append(self.convolution(*each))
        self.value = made[0]
        self.add("Concat", *made[1:], axis=1)
        self.channels = sum(each for each, _ in layers)

    def dense(self, outputs: int) -> str:
        """Add a product of the last axis with weights, and a bias."""
        self.add("MatMul", self.weight(self.channels, outputs))
        self.channels = outputs
        return self.add("Add", self.weight(outputs))

    def attention(self, tokens: int, heads: int, *, is_quantised: bool = False) -> str:
        """Add attention to the last value, maybe with all values rounded to 8 bits."""
        import numpy as np

        def rounded() -> None:
            if is_quantised:
                self.quantised(zero=ZERO)

        dense = partial(self.quantised_dense, zero=ZERO) if is_quantised else self.dense
        before, width = self.value, self.channels
        made = []
        for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
            self.value = before
            dense(width)
            self.add("Reshape", self.constant(np.array([1, tokens, heads, width // heads])))
            rounded()
            self.add("Transpose", perm=order)
            rounded()
            made.append(self.value)
        query, key, value = made
        self.value = query
        self.add("MatMul", key)
        rounded()
        self.add("Mul", self.constant(np.float32((width // heads) ** -0.5)))
        rounded()
        self.add("Softmax", axis=-1)
        if is_quantised:
            self.quantised()
        self.add("MatMul", value)
        rounded()
        self.add("Transpose", perm=(0, 2, 1, 3))
        rounded()
        self.add("Reshape", self.constant(np.array([1, tokens, width])))
        rounded()
        return dense(width)

    def added_to(self, before: str) -> str:
        """Add the last value to an earlier one, and layer normalisation."""
        self.add("Add", before)
        return self.add("LayerNormalization", self.weight(self.channels), self.weight(self.channels))

    def quantised(self, type_: Any = None, zero: int = 0) -> str:
        """Round the last value to 8 bits, by a scale of its own; ``zero`` stands for 0."""
        import numpy as np

        scale = np.float32(0.02 + len(self.weights) / 65536)
        parameters = self.constant(scale), self.constant(np.array(zero, type_ or np.uint8))
        self.add("QuantizeLinear", *parameters)
        return self.add("DequantizeLinear", *parameters)

    def quantised_weight(self, *shape: int) -> str:
        """Add seeded weights of 8 bits, and return the name of their values."""
        import numpy as np

        value, drawn = self.value, np.random.default_rng(len(self.weights)).integers(-64, 64, shape, np.int8)
        self.value = self.constant(drawn)
        scale = self.constant(np.float32(0.02 / np.sqrt(np.prod(shape[1:]))))
        made, self.value = self.add("DequantizeLinear", scale, self.constant(np.array(0, np.int8))), value
        return made

    def quantised_convolution(self, channels: int, extent: int, *, stride: int = 1) -> str:
        """Add a convolution of 8-bit values, with bias, and a rectifier."""
        weights = self.quantised_weight(channels, self.channels, extent, extent), self.weight(channels)
        self.add("Conv", *weights, **_window(extent, stride))
        self.channels = channels
        self.add("Relu")
        return self.quantised()

    def quantised_residual(self, extent: int) -> None:
        """Add two convolutions of 8-bit values, whose result is added to the last value, and a rectifier."""
        before, channels = self.value, self.channels
        self.quantised_convolution(channels, extent)
        weights = self.quantised_weight(channels, channels, extent, extent), self.weight(channels)
        self.add("Conv", *weights, **_window(extent, 1))
        self.quantised(zero=ZERO)
        self._sum_with(before)
        self.quantised()

    def quantised_dense(self, outputs: int, type_: Any = None, zero: int = 0) -> str:
        """Add a product of 8-bit values with weights, and a bias."""
        self.add("MatMul", self.quantised_weight(self.channels, outputs))
        self.channels = outputs
        self.quantised(type_, zero)
        self.add("Add", self.weight(outputs))
        return self.quantised(type_, zero)

    def quantised_gemm(self, outputs: int) -> str:
        """Add a product of 8-bit values of two axes with transposed weights, and a bias."""
        self.add("Gemm", self.quantised_weight(outputs, self.channels), self.weight(outputs), transB=1)
        self.channels = outputs
        return self.quantised(zero=ZERO)

    def dynamically_quantised_dense(self, outputs: int) -> str:
        """Add a product of the last value, rounded to 8 bits by a scale of its own, with weights, and a bias."""
        import numpy as np

        drawn = np.random.default_rng(len(self.weights)).integers(-64, 64, (self.channels, outputs), np.int8)
        weights, zero, own = (self.constant(each) for each in (drawn, np.array(0, np.int8), np.float32(0.001)))
        rounded = self.add("DynamicQuantizeLinear")
        scale, its_zero = f"{rounded}.scale", f"{rounded}.zero"
        self.nodes[-1].output.extend([scale, its_zero])
        self.add("MatMulInteger", weights, its_zero, zero)
        sums, self.value = self.add("Cast", to=1), scale
        self.value, factor = sums, self.add("Mul", own)
        self.add("Mul", factor)
        self.channels = outputs
        return self.add("Add", self.weight(outputs))

    def gaussian_unit(self, *, is_quantised: bool = False) -> str:
        """Add x (1 + erf(x / sqrt 2)) / 2 of the last value, maybe with all values rounded to 8 bits."""
        import numpy as np

        value = self.value
        for kind, number in (("Div", 2**0.5), ("Erf", None), ("Add", 1.0), ("Mul", None), ("Mul", 0.5)):
            others = () if kind == "Erf" else (value,) if number is None else (self.constant(np.float32(number)),)
            self.add(kind, *others)
            if is_quantised:
                self.quantised(zero=ZERO)
        return self.value

    def model(self, inputs: dict[str, Sequence[int]], results: dict[str, Sequence[int]]) -> Any:
        """Return the network as an ONNX model."""
        from onnx import TensorProto, helper, numpy_helper

        given, found = (
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in each.items()]
            for each in (inputs, results)
        )
        weights = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        graph = helper.make_graph(self.nodes, "comparison of kernels", given, found, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _window(extent: int, stride: int | tuple[int, int]) -> dict[str, Any]:
    """Return the attributes of a window with padding; the stride is that of rows and columns, or of each."""
    strides = [stride] * 2 if isinstance(stride, int) else [*stride]
    return {"kernel_shape": [extent] * 2, "strides": strides, "pads": [extent // 2] * 4}
