# SPDX-License-Identifier: Apache-2.0
"""Gradients of normalisation and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from syclsched.frontends.onnx.importing.gradients.movement import contracted
from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode

#: Least and most parts in which the gradients of a scale and a bias are summed, if there are enough rows; and rows of
#: a part in between. Each part is computed by one line, and its sums are small compared with its rows.
_PARTS: Final = 256, 4096
_ROWS_OF_PART: Final = 16


def _const(value: float) -> tuple[str, float]:
    return ("const", float(value))


@gradient_of("softmax")
def _softmax(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient, y, axis = gradients[0] or "", node.outputs[0] or "", node.attributes["axis"]
    if node.attributes["log"]:
        total = b.reduce("sum", gradient, (axis,))
        return [b.elementwise(("sub", 0, ("mul", ("exp", 1), 2)), gradient, y, total)]
    total = b.reduce("sum", b.elementwise(("mul", 0, 1), gradient, y), (axis,))
    return [b.elementwise(("mul", 1, ("sub", 0, 2)), gradient, y, total)]


def emit_moments(b: NetworkBuilder, x: str, axes: Sequence[int], *, keepdims: bool) -> tuple[str, str]:
    """Add the mean and the variance of a value along axes."""
    mean = b.reduce("mean", x, axes)
    variance = b.reduce("mean", b.elementwise(("square", ("sub", 0, 1)), x, mean), axes)
    if keepdims:
        return mean, variance
    shape = tuple(n for axis, n in enumerate(b.shape(x)) if axis not in axes)
    return b.reshape(mean, shape), b.reshape(variance, shape)


@gradient_of("moments")
def _moments(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    x, axes = node.inputs[0] or "", node.attributes["axes"]
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(b.shape(x)))
    share = _const(1 / max(1, math.prod(b.shape(x)[axis] for axis in axes)))
    by_mean, by_variance = (None if each is None else b.reshape(each, kept) for each in gradients)
    if by_variance is None:
        return [b.elementwise(("mul", 0, share), by_mean or "", shape=b.shape(x))]
    mean = b.reshape(node.outputs[0] or "", kept)
    part = ("mul", 0, ("const", 2 * share[1]), ("sub", 1, 2))
    if by_mean is None:
        return [b.elementwise(part, by_variance, x, mean)]
    return [b.elementwise(("add", part, ("mul", 3, share)), by_variance, x, mean, by_mean)]


@gradient_of("batch_norm")
def _batch_norm(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient = gradients[0] or ""
    x, scale, _, mean, variance = (name or "" for name in node.inputs)
    shape, epsilon = b.shape(x), _const(node.attributes["epsilon"])
    channels = (shape[1], *(1,) * (len(shape) - 2))
    axes = [axis for axis in range(len(shape)) if axis != 1]
    wide_mean, wide_scale, wide_variance = (b.reshape(each, channels) for each in (mean, scale, variance))
    total = b.reduce("sum", gradient, axes, keepdims=False)
    spread = b.reduce("sum", b.elementwise(("mul", 0, ("sub", 1, 2)), gradient, x, wide_mean), axes, keepdims=False)
    inverse = ("rsqrt", ("add", 1, epsilon))
    found: list[str | None] = [None] * 5
    if wanted[0]:
        found[0] = b.elementwise(("mul", 0, 2, inverse), gradient, wide_variance, wide_scale)
    if wanted[1]:
        found[1] = b.elementwise(("mul", 0, inverse), spread, variance)
    found[2] = total if wanted[2] else None
    if wanted[3]:
        found[3] = b.elementwise(("neg", ("mul", 0, 2, inverse)), total, variance, scale)
    if wanted[4]:
        cube = ("mul", inverse, inverse, inverse)
        found[4] = b.elementwise(("mul", _const(-0.5), 0, 2, cube), spread, variance, scale)
    return found


def _by_normalised(b: NetworkBuilder, x: str, mean: str, inverse: str, by_normalised: str, axes: Sequence[int]) -> str:
    """Return the gradient by x of (x - mean) * inverse, where these are moments of x along axes."""
    normalised = ("mul", ("sub", 1, 3), 2)
    projected = b.reduce("mean", b.elementwise(("mul", 0, normalised), by_normalised, x, inverse, mean), axes)
    average = b.reduce("mean", by_normalised, axes)
    inner = ("sub", ("sub", 0, 5), ("mul", normalised, 4))
    return b.elementwise(("mul", 2, inner), by_normalised, x, inverse, mean, projected, average)


@gradient_of("layer_norm")
def _layer_norm(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    x, at = node.inputs[0] or "", node.attributes
    given = {"axis": at["axis"], "epsilon": at["epsilon"], "centred": at.get("centred", True)}
    rows = math.prod(b.shape(x)[: at["axis"]])
    parts = max(1, min(rows, max(_PARTS[0], min(_PARTS[1], rows // _ROWS_OF_PART))))
    dx, *sums = b.emit_all("layer_norm_gradient", [x, node.inputs[1], gradients[0]], parts=parts, **given)
    added = [b.reduce("sum", each or "", (0,), keepdims=False) for each in sums]
    return [dx, *added][: len(node.inputs)]


@gradient_of("group_norm")
def _group_norm(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient, x, scale = gradients[0] or "", node.inputs[0] or "", node.inputs[1] or ""
    shape, groups = b.shape(x), node.attributes["groups"]
    channels = (shape[1], *(1,) * (len(shape) - 2))
    rows = (shape[0], groups, math.prod(shape[1:]) // groups)
    given = b.reshape(x, rows)
    mean, variance = emit_moments(b, given, (2,), keepdims=True)
    inverse = b.elementwise(("rsqrt", ("add", 0, _const(node.attributes["epsilon"]))), variance)
    axes = [axis for axis in range(len(shape)) if axis != 1]
    found: list[str | None] = [None] * len(node.inputs)
    if wanted[0]:
        by_normalised = b.elementwise(("mul", 0, 1), gradient, b.reshape(scale, channels))
        made = _by_normalised(b, given, mean, inverse, b.reshape(by_normalised, rows), (2,))
        found[0] = b.reshape(made, shape)
    if wanted[1]:
        normalised = b.elementwise(("mul", ("sub", 0, 1), 2), given, mean, inverse)
        product = b.elementwise(("mul", 0, 1), gradient, b.reshape(normalised, shape))
        found[1] = b.reduce("sum", product, axes, keepdims=False)
    if wanted[2]:
        found[2] = b.reduce("sum", gradient, axes, keepdims=False)
    return found


@gradient_of("lrn")
def _lrn(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient, x, at = gradients[0] or "", node.inputs[0] or "", node.attributes
    count, size, beta = b.shape(x)[1], at["size"], at["beta"]
    offsets = np.arange(count)[None, :] - np.arange(count)[:, None]  # of the summed channel from the result's
    window = ((offsets >= -((size - 1) // 2)) & (offsets <= size // 2)).astype(float)
    squares = contracted(b, b.elementwise(("square", 0), x), 1, window.T)
    scale = _const(at["alpha"] / size)
    total = b.elementwise(("add", _const(at["bias"]), ("mul", scale, 0)), squares)
    spread = b.elementwise(("mul", 0, 1, ("pow", 2, _const(-beta - 1))), gradient, x, total)
    back = contracted(b, spread, 1, window)
    factor = _const(-2 * beta * at["alpha"] / size)
    return [
        b.elementwise(("add", ("mul", 0, ("pow", 1, _const(-beta))), ("mul", factor, 2, 3)), gradient, total, x, back)
    ]
