# SPDX-License-Identifier: Apache-2.0
"""Gradients of matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of, no_gradient, sum_to
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode


@gradient_of("matmul")
def _matmul(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    (gradient,) = gradients
    assert gradient is not None
    x, y = node.inputs[0] or "", node.inputs[1] or ""
    at, made = node.attributes, [None] * len(node.inputs)
    tx, ty, alpha = at["transpose_a"], at["transpose_b"], at["alpha"]
    found: list[str | None] = list(made)
    if len(b.shape(x)) > 2 and len(b.shape(y)) == 2 and not tx:
        # One product of all rows instead of one for each matrix.
        gradient_rows = b.reshape(gradient, (math.prod(b.shape(gradient)[:-1]), b.shape(gradient)[-1]))
        x_rows = b.reshape(x, (math.prod(b.shape(x)[:-1]), b.shape(x)[-1]))
    else:
        gradient_rows, x_rows = gradient, x
    if wanted[0]:
        by_x = (
            b.matmul(y, gradient_rows, transpose_a=ty, transpose_b=True, alpha=alpha)
            if tx
            else b.matmul(gradient_rows, y, transpose_b=not ty, alpha=alpha)
        )
        if gradient_rows is not gradient:
            by_x = b.reshape(by_x, (*b.shape(gradient)[:-1], b.shape(x)[-1]))
        found[0] = sum_to(b, by_x, b.shape(x))
    if wanted[1]:
        by_y = (
            b.matmul(gradient_rows, x_rows, transpose_a=True, transpose_b=tx, alpha=alpha)
            if ty
            else b.matmul(x_rows, gradient_rows, transpose_a=not tx, alpha=alpha)
        )
        found[1] = sum_to(b, by_y, b.shape(y))
    for position, factor in ((2, at["beta"]), (3, 1.0)):
        name = node.input(position)
        if name is not None and wanted[position]:
            own = sum_to(b, gradient, b.shape(name))
            found[position] = own if factor == 1 else b.elementwise(("mul", 0, ("const", float(factor))), own)
    return found


def _windows(node: CanonicalNode) -> dict[str, Any]:
    return {name: tuple(node.attributes[name]) for name in ("strides", "pads", "dilations")}


def _bias(b: NetworkBuilder, node: CanonicalNode, gradient: str, wanted: Sequence[bool]) -> str | None:
    if node.input(2) is None or not wanted[2]:
        return None
    axes = [axis for axis in range(len(b.shape(gradient))) if axis != 1]
    return b.reduce("sum", gradient, axes, keepdims=False)


@gradient_of("conv")
def _conv(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    (gradient,) = gradients
    assert gradient is not None
    x, w = node.inputs[0] or "", node.inputs[1] or ""
    if node.input(3) is not None or node.attributes["channels_last"]:
        raise no_gradient(node, "a convolution is differentiated before it is optimised")
    windows, groups = _windows(node), node.attributes["groups"]
    kernel = b.shape(w)[2:]
    found: list[str | None] = [None] * len(node.inputs)
    if wanted[0]:
        found[0] = b.emit(
            "conv_transpose",
            [gradient, w],
            **windows,
            output_padding=_output_padding(b.shape(x)[2:], b.shape(gradient)[2:], kernel, windows),
            groups=groups,
            channels_last=False,
            activation=(),
        )
    if wanted[1]:
        found[1] = b.emit("conv_weights", [x, gradient], **windows, kernel=kernel, groups=groups, channels_last=False)
    if len(found) > 2:
        found[2] = _bias(b, node, gradient, wanted)
    return found


def _output_padding(
    extents: tuple[int, ...], counts: tuple[int, ...], kernel: tuple[int, ...], windows: dict[str, Any]
) -> tuple[int, ...]:
    """Return how many elements at the end no window reaches."""
    rank, pads = len(extents), windows["pads"]
    return tuple(
        extents[i]
        + pads[i]
        + pads[i + rank]
        - (counts[i] - 1) * windows["strides"][i]
        - windows["dilations"][i] * (kernel[i] - 1)
        - 1
        for i in range(rank)
    )


@gradient_of("conv_transpose")
def _conv_transpose(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    (gradient,) = gradients
    assert gradient is not None
    x, w = node.inputs[0] or "", node.inputs[1] or ""
    windows, groups, rank = _windows(node), node.attributes["groups"], len(b.shape(w)) - 2
    # A convolution leaves out fewer elements at the end than its stride; more of them are cut off.
    pads = windows["pads"]
    cut = (
        extra // stride * stride
        for extra, stride in zip(node.attributes["output_padding"], windows["strides"], strict=True)
    )
    windows["pads"] = (*pads[:rank], *(end - n for end, n in zip(pads[rank:], cut, strict=True)))
    found: list[str | None] = [None] * len(node.inputs)
    if wanted[0]:
        found[0] = b.conv(gradient, w, groups=groups, **windows)
    if wanted[1]:
        kernel = b.shape(w)[2:]
        found[1] = b.emit("conv_weights", [gradient, x], **windows, kernel=kernel, groups=groups, channels_last=False)
    if len(found) > 2:
        found[2] = _bias(b, node, gradient, wanted)
    return found
