# SPDX-License-Identifier: Apache-2.0
"""Networks of common layers, by which kernels are compared with the library: of pictures, of texts, and with int8.

Their kernels are stored, and take extents as arguments: models with such layers need not compile them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from syclsched.kernels.common import ceil_div
from syclsched.onnx.tuning.network_layers import ZERO, Layers

#: Rows and columns of pictures, as most models of them have it.
PICTURE_SIZE = 224
#: The same of a wider network, whose lines and channels need other blocks, and its share of the channels.
_OTHER_SIZE, _OTHER_WIDTH = 208, 1.25
#: Channels and extent of convolutions by channel, of inverted residuals and of smooth ones.
_RESIDUALS = (24, 3), (32, 3), (64, 3), (160, 3)
_SMOOTH_RESIDUALS = (24, 3), (40, 5), (112, 3), (192, 5)
#: Channels of a detector's stages, and rows of its pictures.
_DETECTED, _DETECTED_SIZE = (16, 32, 64, 128, 256), 320
#: Convolutions by channel of networks for lines of text: channels behind them, extent, stride, slope of shares.
_LINE_RESIDUALS = (32, 3, 1, 0.2), (64, 3, (2, 1), 1 / 6), (128, 5, 2, 0.2), (256, 5, 1, 1 / 6)
_LINE_SIZE = 48, 320
#: Tokens, width and heads of the encoder of texts.
_TOKENS, _WIDTH, _HEADS = 128, 512, 8


def networks() -> Iterator[Any]:
    """Yield the networks to compare, as ONNX models."""
    yield of_pictures()
    yield of_texts()
    yield of_bytes()


def further_networks() -> Iterator[Any]:
    """Yield networks whose kernels are built, too, but not compared."""
    yield of_pictures(_OTHER_SIZE, _OTHER_WIDTH)
    yield of_small_pictures()
    yield of_inverted_residuals(is_smooth=False)
    yield of_inverted_residuals(is_smooth=True)
    yield of_detectors()
    yield of_lines_of_text()
    yield of_quantised_texts()


def of_pictures(size: int | None = None, width: float = 1.0) -> Any:
    """Return a network with layers of usual models of pictures, each of several sizes.

    ``size`` is the rows of a picture, by default `PICTURE_SIZE`, and ``width`` the share of the usual channels.
    """
    size, layers = size or PICTURE_SIZE, Layers("x", 3)

    def channels(usual: int) -> int:
        return int(usual * width)

    for rows in _stages(layers, size, channels):
        layers.branches(*((channels(usual), extent) for usual, extent in ((64, 1), (96, 3), (32, 5), (32, 1))))
        layers.convolution(channels(128), 1)
        layers.residual_of_groups(4, rows)
        layers.residual(3)
        layers.convolution(channels(48), 1)
        layers.convolution(layers.channels, 5, groups=layers.channels)
        layers.excitation(layers.channels // 4)
        layers.convolution(channels(192), 3)
        layers.residual(1)
        layers.linear_convolution(channels(64), 1)
    layers.add("GlobalAveragePool")
    layers.add("Flatten")
    layers.add("Gemm", layers.weight(1024, layers.channels), layers.weight(1024), transB=1)
    layers.add("Gemm", layers.weight(1024, 1000), layers.weight(1000))
    layers.add("Softmax")
    return layers.model({"x": [1, 3, size, size]}, {layers.value: [1, 1000]})


def _stages(layers: Layers, size: int, channels: Callable[[int], int]) -> Iterator[int]:
    """Add what halves the pictures, before each stage of the network, and yield their rows."""
    layers.convolution(channels(64), 7, stride=2)
    layers.add("LRN", size=5)
    layers.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    yield (rows := size // 4)
    layers.halve_by_sum(channels(128))
    layers.pooling("MaxPool")
    yield (rows := ceil_div(rows, 2))
    layers.convolution(layers.channels, 3, stride=2, groups=layers.channels)
    layers.pooling("AveragePool")
    layers.convolution(channels(256), 1)
    yield (rows := ceil_div(rows, 2))
    layers.halve_by_parts(channels(64))
    yield ceil_div(rows, 2)


def of_small_pictures() -> Any:
    """Return a network whose values have 14 to 4 rows: their lines and tiles need blocks of other heights."""
    size, layers = 28, Layers("x", 3)
    layers.convolution(24, 3, stride=2)
    for rows in range(size // 2, 2, -2):
        layers.branches((128, 3), (96, 3), (128, 5), (32, 5))
        layers.branches((32, 1), (32, 3))
        layers.residual_of_groups(4, rows)
        layers.add("MaxPool", kernel_shape=[3, 3])
    return layers.model({"x": [1, 3, size, size]}, {layers.value: [1, 64, 2, 2]})


def of_inverted_residuals(*, is_smooth: bool) -> Any:
    """Return a network of inverted residuals, as models for telephones have them.

    The smooth one has x * sigmoid(x) and shares of channels, the other one results between bounds.
    """
    layers, activation = Layers("x", 3), "Silu" if is_smooth else "Relu6"
    layers.convolution(24 if is_smooth else 32, 3, stride=2, activation=activation)
    layers.pooling("MaxPool")
    layers.pooling("AveragePool")
    layers.linear_convolution(24, 1)
    for channels, extent in _SMOOTH_RESIDUALS if is_smooth else _RESIDUALS:
        layers.inverted_residual(channels, extent, stride=2, is_smooth=is_smooth)
        layers.inverted_residual(channels, extent, is_smooth=is_smooth)
    layers.convolution(1280, 1, activation=activation)
    layers.add("GlobalAveragePool")
    layers.linear_convolution(1000, 1)
    return layers.model({"x": [1, 3, PICTURE_SIZE, PICTURE_SIZE]}, {layers.value: [1, 1000, 1, 1]})


def of_detectors() -> Any:
    """Return a network with x * sigmoid(x), whose last, small values are joined with earlier ones, as detectors do."""
    layers, stages = Layers("x", 3), []
    layers.convolution(_DETECTED[0], 3, stride=2, activation="Silu")
    for channels in _DETECTED[1:]:
        layers.convolution(channels, 3, stride=2, activation="Silu")
        layers.convolution(channels // 2, 1, activation="Silu")
        before = layers.value
        for _ in range(2):
            layers.convolution(channels // 2, 3, activation="Silu")
        layers.add("Add", before)
        layers.add("Concat", before, axis=1)
        layers.channels = channels
        layers.convolution(channels, 1, activation="Silu")
        stages.append((layers.value, channels))
    before = layers.value
    pooled = [layers.add("MaxPool", kernel_shape=[5, 5], pads=[2, 2, 2, 2]) for _ in range(3)]
    layers.add("Concat", *pooled[:-1], before, axis=1)
    layers.channels *= 1 + len(pooled)
    layers.convolution(_DETECTED[-1], 1, activation="Silu")
    for earlier, channels in reversed(stages[:-1]):
        layers.doubled()
        layers.add("Concat", earlier, axis=1)
        layers.channels += channels
        layers.convolution(channels, 1, activation="Silu")
    layers.linear_convolution(64, 1)
    size, fewer = _DETECTED_SIZE, _DETECTED_SIZE // 4
    return layers.model({"x": [1, 3, size, size]}, {layers.value: [1, 64, fewer, fewer]})


def of_lines_of_text() -> Any:
    """Return a network that finds or reads lines of text, with convolutions by channel, and shares of channels."""
    layers, (rows, columns) = Layers("x", 3), _LINE_SIZE
    layers.convolution(16, 3, stride=2)
    layers.add("MaxPool", kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    before = layers.value
    layers.convolution(32, 1, activation="HardSwish")
    for channels, extent, stride, slope in _LINE_RESIDUALS:
        layers.convolution(layers.channels, extent, stride=stride, groups=layers.channels, activation="HardSwish")
        layers.excitation(max(8, layers.channels // 4), slope=slope)
        layers.convolution(channels, 1, activation="HardSwish")
    layers.convolution(2 * layers.channels, 1, activation="Gelu")
    layers.linear_convolution(layers.channels // 2, 1)
    read, layers.value, layers.channels = layers.value, before, 16
    layers.upsampled(16, "Relu")
    layers.upsampled(1, "Sigmoid")
    # The rows become fewer in two of the strides, the columns in one.
    shape = [1, _LINE_RESIDUALS[-1][0], rows // 8, columns // 4]
    return layers.model({"x": [1, 3, rows, columns]}, {read: shape, layers.value: [1, 1, 2 * rows, 2 * columns]})


def of_texts() -> Any:
    """Return an encoder layer of a transformer."""
    layers = Layers("x", _WIDTH)
    layers.attention(_TOKENS, _HEADS)
    before = layers.added_to("x")
    layers.dense(4 * _WIDTH)
    layers.add("Relu")
    layers.dense(_WIDTH)
    layers.added_to(before)
    return layers.model({"x": [1, _TOKENS, _WIDTH]}, {layers.value: [1, _TOKENS, _WIDTH]})


def of_quantised_texts() -> Any:
    """Return an encoder layer of a transformer, with all values rounded to 8 bits, and dense layers that round theirs.

    The first have constant scales, the others those of each value, as tools quantise models statically and dynamically.
    """
    layers = Layers("x", _WIDTH)

    def rounded_sum(before: str) -> str:
        made, layers.value = layers.value, before
        layers.add("Add", made)
        return layers.quantised(zero=ZERO)

    def normalised() -> None:
        layers.add("LayerNormalization", layers.weight(_WIDTH), layers.weight(_WIDTH))
        layers.quantised(zero=ZERO)

    start = layers.quantised(zero=ZERO)
    normalised()
    layers.attention(_TOKENS, _HEADS, is_quantised=True)
    before = rounded_sum(start)
    normalised()
    layers.quantised_dense(4 * _WIDTH, zero=ZERO)
    layers.gaussian_unit(is_quantised=True)
    layers.quantised_dense(_WIDTH, zero=ZERO)
    encoded = rounded_sum(before)
    layers.dynamically_quantised_dense(_WIDTH)
    layers.add("LayerNormalization", layers.weight(_WIDTH), layers.weight(_WIDTH))
    layers.dynamically_quantised_dense(4 * _WIDTH)
    layers.gaussian_unit()
    layers.dynamically_quantised_dense(_WIDTH)
    layers.add("Add", encoded)
    shape = [1, _TOKENS, _WIDTH]
    return layers.model({"x": shape}, {encoded: shape, layers.value: shape})


def of_bytes() -> Any:
    """Return a network of convolutions, and dense layers, of 8-bit values."""
    import numpy as np

    layers = Layers("x", 3)
    layers.quantised(zero=ZERO)
    layers.quantised_convolution(64, 7, stride=2)
    layers.pooling("MaxPool", stride=2)
    layers.quantised_residual(3)
    layers.quantised_convolution(128, 3, stride=2)
    layers.quantised_convolution(128, 1)
    layers.quantised_convolution(256, 1, stride=2)
    layers.add("GlobalAveragePool")
    layers.quantised()
    layers.add("Flatten")
    layers.quantised_gemm(1000)
    picture = layers.value
    layers.value, layers.channels = "text", _WIDTH
    layers.quantised()
    layers.quantised_dense(_WIDTH, np.int8)
    return layers.model(
        {"x": [1, 3, PICTURE_SIZE, PICTURE_SIZE], "text": [1, _TOKENS, _WIDTH]},
        {picture: [1, 1000], layers.value: [1, _TOKENS, _WIDTH]},
    )
