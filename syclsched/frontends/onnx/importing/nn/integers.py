# SPDX-License-Identifier: Apache-2.0
"""Importers of integer matrix products and convolutions.

MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv are computed in double precision, which is exact for sums of
fewer than 2^36 products of 8-bit numbers: the results equal those of 32-bit integers unless these overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.convolutions import convolution
from syclsched.frontends.onnx.importing.nn.quantisation import spread
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

_WIDE = "float64"


def centred(b: NetworkBuilder, x: str, zero: str | None, axis: int) -> str:
    """Return a value minus its zero point, which is one number or one per position along an axis."""
    wide = b.cast(x, _WIDE)
    if zero is None:
        return wide
    return b.elementwise(("sub", 0, 1), wide, b.cast(spread(b, x, zero, axis), _WIDE), shape=b.shape(x))


def requantised(b: NetworkBuilder, total: str, scale: str, zero: str, axis: int) -> str:
    """Requantise sums: multiply by the scale, round to even, add the zero point, clip to the dtype."""
    limits = np.iinfo(b.dtype(zero))
    moved: Any = ("add", ("round", ("mul", ("cast", "float32", 0), 1)), ("cast", "float32", 2))
    cut = ("cast", b.dtype(zero), ("clip", float(limits.min), float(limits.max), moved))
    values = [total, spread(b, total, scale, axis), spread(b, total, zero, axis)]
    return b.elementwise(cut, *values, shape=b.shape(total))


def combined_scale(b: NetworkBuilder, first: str, second: str, result: str | None = None) -> str:
    """Return the scale factor from products to results: ``first * second / result``."""
    parts = [b.cast(each, "float32") for each in (first, second, result) if each is not None]
    parts = [b.reshape(each, ()) if b.shape(each) == (1,) else each for each in parts]
    return b.elementwise(("mul", 0, 1) if result is None else ("div", ("mul", 0, 1), 2), *parts)


def _product(b: NetworkBuilder, x: str, y: str) -> str:
    if len(b.shape(x)) < 2 or len(b.shape(y)) < 2:
        raise b.wrong(f"{b.shape(x)} and {b.shape(y)} are no matrices")
    return b.matmul(x, y)


@imports("MatMulInteger")
def _matmul_integer(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, y = inputs.first("A", "B")
    made = _product(b, centred(b, x, inputs.optional(2), -2), centred(b, y, inputs.optional(3), -1))
    return [b.cast(made, "int32")]


@imports("QLinearMatMul")
def _qlinear_matmul(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    names = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point")
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = inputs.first(*names)
    made = _product(b, centred(b, x, x_zero, -2), centred(b, y, y_zero, -1))
    return [requantised(b, made, combined_scale(b, x_scale, y_scale, scale), zero, -1)]


@imports("ConvInteger")
def _conv_integer(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, w = inputs.first("x", "w")
    factors = centred(b, x, inputs.optional(2), 1), centred(b, w, inputs.optional(3), 0)
    return [b.cast(convolution(b, node, *factors, None), "int32")]


@imports("QLinearConv")
def _qlinear_conv(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import QLinearConv; the weights may have one scale per output channel."""
    names = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point")
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = inputs.first(*names)
    bias = inputs.optional(8)
    wide = None if bias is None else b.cast(bias, _WIDE)
    made = convolution(b, node, centred(b, x, x_zero, 1), centred(b, w, w_zero, 0), wide)
    return [requantised(b, made, combined_scale(b, x_scale, w_scale, scale), zero, 1)]
