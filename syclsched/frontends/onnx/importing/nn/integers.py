# SPDX-License-Identifier: Apache-2.0
"""Importers of integer matrix products and convolutions.

With constant weights and one zero point of the other operand these are integer products of their own kinds. Others are
computed in double precision, which is exact for sums of fewer than 2^36 products of 8-bit numbers: the results equal
those of 32-bit integers unless these overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.convolutions import convolution, windows_and_input
from syclsched.frontends.onnx.importing.nn.quantisation import spread
from syclsched.frontends.onnx.integer_weights import centred_weights, integer_attributes
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

_WIDE = "float64"
#: A value of 8 bits, its scale if the result is in float32, and its zero point if it has one.
Quantised = tuple[str, str | None, str | None]


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


def combined_scale(
    b: NetworkBuilder, first: str, second: str, result: str | None = None, *, divided: bool = False
) -> str:
    """Return the scale factor from products to results, ``first * second / result``; ``first / second`` if divided."""
    parts = [b.cast(each, "float32") for each in (first, second, result) if each is not None]
    parts = [b.reshape(each, ()) if b.shape(each) == (1,) else each for each in parts]
    if divided:
        return b.elementwise(("div", 0, 1), *parts)
    return b.elementwise(("mul", 0, 1) if result is None else ("div", ("mul", 0, 1), 2), *parts)


def integer_matmul(
    b: NetworkBuilder,
    left: Quantised,
    right: Quantised,
    bias: str | None = None,
    *,
    transpose_b: bool = False,
) -> str | None:
    """Return the product of quantised matrices, in float32 if they have scales, or None if it is no integer product.

    The right one is constant; it may have one scale and one zero point for each column. So has a bias of floats.
    """
    (x, x_scale, x_zero), (w, w_scale, w_zero) = left, right
    if len(b.shape(x)) < 2 or len(b.shape(w)) != 2:
        return None
    columns = b.shape(w)[0 if transpose_b else 1]
    if bias is not None and b.shape(bias) != (columns,):
        return None
    weights = _integer_weights(b, x, x_zero, w, w_zero, 0 if transpose_b else 1)
    if weights is None:
        return None
    weights = b.transpose(weights, (1, 0)) if transpose_b else weights
    scale = None if x_scale is None or w_scale is None else combined_scale(b, x_scale, w_scale)
    if scale is not None and b.shape(scale) not in ((), (1,), (columns,)):
        return None
    return _integer_sums(b, "integer_matmul", (x, weights, bias), x_zero, scale)


def _integer_sums(
    b: NetworkBuilder,
    kind: str,
    operands: tuple[str, str, str | None],
    x_zero: str | None,
    scale: str | None,
    **attributes: Any,
) -> str:
    zero = b.constant(0, "int32") if x_zero is None else b.cast(x_zero, "int32")  # as oneDNN takes it
    result = "int32" if scale is None else "float32"
    attributes |= integer_attributes(b.constants[operands[1]], result)
    return b.emit(kind, [*operands, None, zero, scale], **attributes)


def _integer_weights(
    b: NetworkBuilder, x: str, x_zero: str | None, w: str, w_zero: str | None, axis: int
) -> str | None:
    """Return constant weights around zero; None if the operands are not those of an integer product."""
    one_zero = x_zero is None or b.shape(x_zero) in ((), (1,))
    of_bytes = all(np.dtype(b.dtype(each)).itemsize == 1 for each in (x, w))
    if not one_zero or not of_bytes or w not in b.constants or (w_zero is not None and w_zero not in b.constants):
        return None
    weights = b.constants[w]
    zero = np.zeros((), np.int16) if w_zero is None else b.constants[w_zero]
    if zero.size not in (1, weights.shape[axis]) or zero.ndim > 1:
        return None
    return b.constant(centred_weights(weights, zero.reshape(-1, *[1] * (weights.ndim - 1 - axis))))


def quantised_again(b: NetworkBuilder, x: str, zero: str) -> str:
    """Return numbers rounded to even, with the zero point added, saturated."""
    limits = np.iinfo(b.dtype(zero))
    moved: Any = ("add", ("round", 0), 1)
    cut = ("cast", b.dtype(zero), ("clip", float(limits.min), float(limits.max), moved))
    return b.elementwise(cut, x, b.cast(b.reshape(zero, ()), "float32"), shape=b.shape(x))


def _product(b: NetworkBuilder, x: str, y: str) -> str:
    if len(b.shape(x)) < 2 or len(b.shape(y)) < 2:
        raise b.wrong(f"{b.shape(x)} and {b.shape(y)} are no matrices")
    return b.matmul(x, y)


def _integer_conv(
    b: NetworkBuilder, node: ModelNode, left: Quantised, right: Quantised, bias: str | None
) -> str | None:
    """Return a convolution of quantised values as `integer_matmul`; the bias is one of integers."""
    (x, x_scale, x_zero), (w, w_scale, w_zero) = left, right
    scale = None if x_scale is None or w_scale is None else combined_scale(b, x_scale, w_scale)
    if len(b.shape(w)) < 3 or (scale is not None and b.shape(scale) not in ((), (1,), b.shape(w)[:1])):
        return None
    weights = _integer_weights(b, x, x_zero, w, w_zero, 0)
    if weights is None or any(each.axis > 1 for each in b.lengths.get(x, ())):
        return None
    opened, windows = windows_and_input(b, node, x, w)
    if bias is not None and scale is not None:
        bias = b.elementwise(("mul", ("cast", "float32", 0), 1), bias, scale)
    return _integer_sums(b, "integer_conv", (opened.x, weights, bias), x_zero, scale, **windows, channels_last=False)


@imports("MatMulInteger")
def _matmul_integer(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, y = inputs.first("A", "B")
    found = integer_matmul(b, (x, None, inputs.optional(2)), (y, None, inputs.optional(3)))
    if found is not None:
        return [found]
    made = _product(b, centred(b, x, inputs.optional(2), -2), centred(b, y, inputs.optional(3), -1))
    return [b.cast(made, "int32")]


@imports("QLinearMatMul")
def _qlinear_matmul(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    names = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point")
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = inputs.first(*names)
    if b.shape(scale) in ((), (1,)):
        found = integer_matmul(b, (x, combined_scale(b, x_scale, scale, divided=True), x_zero), (y, y_scale, y_zero))
        if found is not None:
            return [quantised_again(b, found, zero)]
    made = _product(b, centred(b, x, x_zero, -2), centred(b, y, y_zero, -1))
    return [requantised(b, made, combined_scale(b, x_scale, y_scale, scale), zero, -1)]


@imports("ConvInteger")
def _conv_integer(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, w = inputs.first("x", "w")
    found = _integer_conv(b, node, (x, None, inputs.optional(2)), (w, None, inputs.optional(3)), None)
    if found is not None:
        return [found]
    factors = centred(b, x, inputs.optional(2), 1), centred(b, w, inputs.optional(3), 0)
    return [b.cast(convolution(b, node, *factors, None), "int32")]


@imports("QLinearConv")
def _qlinear_conv(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import QLinearConv; the weights may have one scale per output channel."""
    names = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point")
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = inputs.first(*names)
    bias = inputs.optional(8)
    if b.shape(scale) in ((), (1,)):
        step = combined_scale(b, x_scale, scale, divided=True)
        found = _integer_conv(b, node, (x, step, x_zero), (w, w_scale, w_zero), bias)
        if found is not None:
            return [quantised_again(b, found, zero)]
    wide = None if bias is None else b.cast(bias, _WIDE)
    made = convolution(b, node, centred(b, x, x_zero, 1), centred(b, w, w_zero, 0), wide)
    return [requantised(b, made, combined_scale(b, x_scale, w_scale, scale), zero, 1)]
