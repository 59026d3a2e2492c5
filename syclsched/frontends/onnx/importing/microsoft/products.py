# SPDX-License-Identifier: Apache-2.0
"""Importers of matrix products of matrices of 8 bits."""

from __future__ import annotations

from typing import Any

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.integers import (
    centred,
    combined_scale,
    integer_matmul,
    quantised_again,
    requantised,
)
from syclsched.frontends.onnx.importing.nn.quantisation import dynamically_quantised, spread
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode

#: A quantised value, its scale, and its zero point if it has one.
Quantised = tuple[str, str, str | None]


def product_of_integers(b: NetworkBuilder, left: Quantised, right: Quantised, bias: str | None) -> str:
    """Return the product of two quantised matrices in float32, plus a bias; the right one may have scales by column."""
    found = integer_matmul(b, left, right, bias)
    if found is not None:
        return found
    (x, x_scale, x_zero), (y, y_scale, y_zero) = left, right
    total = b.matmul(centred(b, x, x_zero, -2), centred(b, y, y_zero, -1))
    return _scaled(b, total, combined_scale(b, x_scale, y_scale), bias)


def _scaled(b: NetworkBuilder, total: str, scale: str, bias: str | None) -> str:
    value: Any = ("mul", ("cast", "float32", 0), 1)
    values = [total, spread(b, total, scale, -1)]
    if bias is not None:
        value = ("add", value, 2)
        values.append(bias)
    return b.elementwise(value, *values, shape=b.shape(total))


@imports("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_integer_to_float(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, y, x_scale, y_scale = inputs.first("A", "B", "a_scale", "b_scale")
    left, right = (x, x_scale, inputs.optional(4)), (y, y_scale, inputs.optional(5))
    return [product_of_integers(b, left, right, inputs.optional(6))]


@imports("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_quantize_matmul(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import a product with a quantised matrix, for which the other one is quantised to 8 bits when it is computed."""
    x, y, scale = inputs.first("A", "B", "b_scale")
    right = (y, scale, inputs.optional(3))
    return [product_of_integers(b, dynamically_quantised(b, x), right, inputs.optional(4))]


@imports("QGemm", domain=MICROSOFT)
def _qgemm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import a product of quantised matrices, quantised again if it has a scale, else in float32."""
    x, x_scale, x_zero, y, y_scale, y_zero = inputs.first(
        "A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point"
    )
    bias, scale, zero = (inputs.optional(position) for position in (6, 7, 8))
    transpose_a, transpose_b = node.flag("transA"), node.flag("transB")
    alpha = node.number("alpha", 1.0)
    if alpha != 1.0:
        x_scale = b.elementwise(("mul", 0, ("const", alpha, "float32")), x_scale)
    if zero is None and scale is not None:
        zero = b.constant(0, "uint8")
    found = _integer_gemm(b, (x, x_scale, x_zero), (y, y_scale, y_zero), bias, scale, transpose_a, transpose_b)
    if found is not None:
        return [found if scale is None or zero is None else quantised_again(b, found, zero)]
    factors = centred(b, x, x_zero, -2), centred(b, y, y_zero, 0 if transpose_b else -1)
    wide = None if bias is None else b.cast(bias, "float64")
    total = b.matmul(*factors, wide, transpose_a=transpose_a, transpose_b=transpose_b)
    if scale is None:
        return [_scaled(b, total, combined_scale(b, x_scale, y_scale), None)]
    assert zero is not None
    return [requantised(b, total, combined_scale(b, x_scale, y_scale, scale), zero, -1)]


def _integer_gemm(
    b: NetworkBuilder,
    left: Quantised,
    right: Quantised,
    bias: str | None,
    scale: str | None,
    transpose_a: bool,
    transpose_b: bool,
) -> str | None:
    """Return the integer product, divided by the scale of the result if there is one; None if it is none."""
    (x, x_scale, x_zero), (_, y_scale, _) = left, right
    one = scale is None or b.shape(scale) in ((), (1,))
    if transpose_a or not one or (bias is not None and len(b.shape(bias)) != 1):
        return None
    step = x_scale if scale is None else combined_scale(b, x_scale, scale, divided=True)
    if bias is not None:
        bias = b.elementwise(("mul", ("cast", "float32", 0), 1), bias, combined_scale(b, step, y_scale))
    return integer_matmul(b, (x, step, x_zero), right, bias, transpose_b=transpose_b)
