# SPDX-License-Identifier: Apache-2.0
"""Comparison of kernels with the library on this machine, by a network of common layers.

First calls of models choose kernels by it, without runs by the library and by kernels of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.model import load
from syclsched.onnx.model_build import ModelBuilder
from syclsched.onnx.tuning.autotune import VariantBuilder, compare_all_kernels
from syclsched.onnx.tuning.implementations import on_devices
from syclsched.onnx.tuning.kernel_selection import is_worth_mixing
from syclsched.planner import PlanRequest

if TYPE_CHECKING:
    from syclsched.model.graph import TaskGraph
    from syclsched.model.platform import Platform
    from syclsched.onnx.specialised import Array

#: As models are compiled by default on one lane.
_REQUEST = PlanRequest(minimize="latency", rewrite="none")
_SIZE = 224  # of the network's picture, as most models of pictures have it


def can_compare(platform: Platform) -> bool:
    """Return whether models on a platform choose between kernels and the library, and ONNX models can be read."""
    return find_spec("onnx") is not None and is_worth_mixing(platform, _REQUEST)


def compare_kernels(platform: Platform) -> bool:
    """Run a network by the library and by kernels, and store how they compare; False if the machine is busy.

    Raises
    ------
    CapabilityError
        The library does not run on the device.
    """
    builder = _Comparison(platform)
    try:
        builder.make({}, {}).close()
    finally:
        builder.close()
    return builder.is_quiet


class _Comparison(ModelBuilder):
    """A builder of a plan of the network, which times its tasks by the library and by kernels."""

    def __init__(self, platform: Platform) -> None:
        super().__init__(
            load(_network()),
            platform,
            _REQUEST,
            memory_limit=None,
            autotune=True,
            reuse=False,
            deterministic=False,
            without=frozenset({"python"}),  # compiling them takes longer than all else
            progress=False,
            trace=False,
            carried={},
        )
        #: Whether no other processes used the machine.
        self.is_quiet = False

    def _bound(
        self, variants: VariantBuilder, graph: TaskGraph, values: Mapping[str, Array], *, is_known: bool
    ) -> BoundModel:
        bound = variants.plan_and_bind(on_devices(graph, self.platform))
        try:
            self.is_quiet = compare_all_kernels(bound, graph, values, variants)
        except BaseException:
            bound.close()
            raise
        return bound


class _Layers:
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

        name = f"weights{len(self.weights)}"
        fan_in = max(1, int(np.prod(shape[1:])))
        drawn = np.random.default_rng(len(self.weights)).standard_normal(shape) / np.sqrt(fan_in)
        self.weights[name] = drawn.astype(np.float32)
        return name

    def convolution(self, channels: int, extent: int, *, stride: int = 1, groups: int = 1) -> str:
        """Add a convolution, with bias, and a rectifier."""
        weights = self.weight(channels, self.channels // groups, extent, extent), self.weight(channels)
        options = {"strides": [stride] * 2, "pads": [extent // 2] * 4, "group": groups}
        self.add("Conv", *weights, kernel_shape=[extent] * 2, **options)
        self.channels = channels
        return self.add("Relu")

    def residual(self, extent: int) -> None:
        """Add a convolution whose result is added to the last value, and a rectifier."""
        before = self.value
        self.convolution(self.channels, extent)
        self.nodes.pop()
        self.value = self.nodes[-1].output[0]
        self.add("Add", before)
        self.add("Relu")

    def pooling(self, kind: str, stride: int) -> str:
        """Add a pooling of windows of three by three."""
        return self.add(kind, kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4)

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


def _network() -> Any:
    """Return an ONNX model with layers of usual models of pictures, each of several sizes."""
    from onnx import TensorProto, helper, numpy_helper

    layers = _Layers("x", 3)
    for _ in _stages(layers):
        layers.branches((64, 1), (96, 3), (32, 5))
        layers.convolution(layers.channels, 3, groups=layers.channels)
        layers.convolution(128, 1)
        layers.convolution(128, 1, groups=4)
        layers.residual(3)
        layers.convolution(16, 1)
        layers.convolution(64, 3)
        layers.residual(1)
    layers.add("GlobalAveragePool")
    layers.add("Flatten")
    layers.add("Gemm", layers.weight(1024, layers.channels), layers.weight(1024), transB=1)
    layers.add("Gemm", layers.weight(1024, 1000), layers.weight(1000))
    layers.add("Softmax")
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, _SIZE, _SIZE])
    result = helper.make_tensor_value_info(layers.value, TensorProto.FLOAT, [1, 1000])
    weights = [numpy_helper.from_array(value, name) for name, value in layers.weights.items()]
    graph = helper.make_graph(layers.nodes, "comparison of kernels", [given], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def _stages(layers: _Layers) -> Iterator[None]:
    """Add what halves the pictures, before each stage of the network: to extents of 56, 28 and 14."""
    layers.convolution(64, 7, stride=2)
    layers.pooling("MaxPool", 2)
    yield
    layers.convolution(128, 3, stride=2)
    layers.pooling("MaxPool", 1)
    yield
    layers.convolution(layers.channels, 3, stride=2, groups=layers.channels)
    layers.pooling("AveragePool", 1)
    layers.convolution(256, 1)
    yield
