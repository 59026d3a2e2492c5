# SPDX-License-Identifier: Apache-2.0
"""Importers of integer matrix products and convolutions.

MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv are computed in double precision, which is exact for sums of
fewer than 2^36 products of 8-bit numbers: the results equal those of 32-bit integers unless these overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import given, imports, optional
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.matrices import product
from syclsched.frontends.onnx.importing.nn.window_parameters import windows_of
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

_WIDE = "float64"


def _centred(b: NetworkBuilder, x: str, zero: str | None, axis: int) -> str:
    """Return a value minus its zero point, which is one number or one per position along an axis."""
    wide = b.cast(x, _WIDE)
    if zero is None:
        return wide
    return b.elementwise(("sub", 0, 1), wide, b.cast(_spread(b, x, zero, axis), _WIDE), shape=b.shape(x))


def _spread(b: NetworkBuilder, x: str, numbers: str, axis: int) -> str:
    """Reshape numbers so that they broadcast along an axis of another value."""
    extents, rank = b.shape(numbers), len(b.shape(x))
    if extents in ((), (1,)):
        return b.reshape(numbers, ())
    if len(extents) > 1:
        return numbers
    at = b.axis(axis, rank)
    return b.reshape(numbers, (*extents, *(1,) * (rank - at - 1)))


def _requantised(b: NetworkBuilder, total: str, scale: str, zero: str, axis: int) -> str:
    """Requantise sums: multiply by the scale, round to even, add the zero point, clip to the dtype."""
    limits = np.iinfo(b.dtype(zero))
    moved: Any = ("add", ("round", ("mul", ("cast", "float32", 0), 1)), ("cast", "float32", 2))
    cut = ("cast", b.dtype(zero), ("clip", float(limits.min), float(limits.max), moved))
    values = [total, _spread(b, total, scale, axis), _spread(b, total, zero, axis)]
    return b.elementwise(cut, *values, shape=b.shape(total))


def _scale(b: NetworkBuilder, first: str, second: str, result: str) -> str:
    """Return the scale factor from products to results: ``first * second / result``."""
    parts = [b.cast(each, "float32") for each in (first, second, result)]
    parts = [b.reshape(each, ()) if b.shape(each) == (1,) else each for each in parts]
    return b.elementwise(("div", ("mul", 0, 1), 2), *parts)


@imports("MatMulInteger")
def matmul_integer(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import MatMulInteger."""
    x, y = given(b, inputs, 0, "A"), given(b, inputs, 1, "B")
    made = _stacked(b, _centred(b, x, optional(inputs, 2), -2), _centred(b, y, optional(inputs, 3), -1))
    return [b.cast(made, "int32")]


def _stacked(b: NetworkBuilder, x: str, y: str) -> str:
    if len(b.shape(x)) < 2 or len(b.shape(y)) < 2:
        raise b.wrong(f"{b.shape(x)} and {b.shape(y)} are no matrices")
    return product(b, x, y)


@imports("QLinearMatMul")
def qlinear_matmul(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import QLinearMatMul."""
    names = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point")
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = (given(b, inputs, i, name) for i, name in enumerate(names))
    made = _stacked(b, _centred(b, x, x_zero, -2), _centred(b, y, y_zero, -1))
    return [_requantised(b, made, _scale(b, x_scale, y_scale, scale), zero, -1)]


def _convolved(b: NetworkBuilder, node: ModelNode, x: str, w: str, bias: str | None) -> str:
    x_shape, w_shape = b.shape(x), b.shape(w)
    if len(x_shape) != len(w_shape) or len(x_shape) < 3:
        raise b.wrong(f"weights of shape {w_shape} do not fit an input of shape {x_shape}")
    windows = windows_of(b, node, w_shape[2:], x_shape[2:])
    return b.emit(
        "conv",
        [x, w, bias],
        strides=windows.strides,
        pads=windows.pads,
        dilations=windows.dilations,
        groups=node.integer("group", 1),
        channels_last=False,
        activation=(),
    )


@imports("ConvInteger")
def conv_integer(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import ConvInteger."""
    x, w = given(b, inputs, 0, "x"), given(b, inputs, 1, "w")
    centred = _centred(b, x, optional(inputs, 2), 1), _centred(b, w, optional(inputs, 3), 0)
    return [b.cast(_convolved(b, node, *centred, None), "int32")]


@imports("QLinearConv")
def qlinear_conv(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import QLinearConv; the weights may have one scale per output channel."""
    names = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point")
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = (given(b, inputs, i, name) for i, name in enumerate(names))
    bias = optional(inputs, 8)
    wide = None if bias is None else b.cast(bias, _WIDE)
    made = _convolved(b, node, _centred(b, x, x_zero, 1), _centred(b, w, w_zero, 0), wide)
    return [_requantised(b, made, _scale(b, x_scale, w_scale, scale), zero, 1)]
