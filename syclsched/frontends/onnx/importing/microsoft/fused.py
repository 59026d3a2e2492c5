# SPDX-License-Identifier: Apache-2.0
"""Importers of convolutions, poolings and matrix products with other layouts and fused activations, and of GELUs."""

from __future__ import annotations

from typing import Any

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.microsoft.standard_operators import (
    activated,
    channels_first,
    channels_last,
    first,
    standard,
)
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode

# --- convolutions and poolings ------------------------------------------------------------------------


@imports("FusedConv", domain=MICROSOFT)
def _fused_conv(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import a convolution plus a residual Z, and an activation of the sum."""
    (x, w), residual = inputs.first("X", "W"), inputs.optional(3)
    y = first(standard(b, node, "Conv", [x, w, inputs.optional(2)]))
    if residual is not None:
        y = b.elementwise(("add", 0, 1), y, residual, shape=b.shape(y))
    parameters = node.attributes.get("activation_params", ())
    return [activated(b, node, y, parameters)]


@imports("NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def _nhwc_conv(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    (x, w), residual = inputs.first("X", "W"), inputs.optional(3)
    turned = [channels_first(b, x), w, inputs.optional(2), None if residual is None else channels_first(b, residual)]
    return [channels_last(b, first(_fused_conv(b, node, Inputs(b, turned))))]


@imports("NhwcMaxPool", domain=MICROSOFT)
def _nhwc_max_pool(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = channels_first(b, inputs.required(0, "x"))
    return [channels_last(b, first(standard(b, node, "MaxPool", [x])))]


# --- matrix products ----------------------------------------------------------------------------------


@imports("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import a product of matrices with transpositions; vectors are not transposed."""
    x, y = inputs.first("A", "B")
    alpha = node.number("alpha", 1.0)
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    if min(len(b.shape(x)), len(b.shape(y))) < 2:
        made = first(standard(b, node, "MatMul", [x, y]))
        return [b.elementwise(("mul", 0, ("const", alpha, b.dtype(made))), made)]
    x, y = (
        _rows_inwards(b, each) if node.integer(name) else each
        for each, name in ((x, "transBatchA"), (y, "transBatchB"))
    )
    transpose_a, transpose_b = node.flag("transA"), node.flag("transB")
    return [b.matmul(x, y, alpha=alpha, transpose_a=transpose_a, transpose_b=transpose_b)]


def _rows_inwards(b: NetworkBuilder, x: str) -> str:
    """Return (rows, batches..., columns) as (batches..., rows, columns)."""
    last = len(b.shape(x)) - 1
    return b.transpose(x, (*range(1, last), 0, last))


@imports("FusedGemm", domain=MICROSOFT)
def _fused_gemm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    y = first(standard(b, node, "Gemm", [*inputs.first("A", "B"), inputs.optional(2)]))
    return [activated(b, node, y)]


# --- element-wise -------------------------------------------------------------------------------------


@imports("Gelu", "BiasGelu", "FastGelu", domain=MICROSOFT)
def _gelu(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import GELU, of which FastGelu is the tanh approximation, of a sum of input and bias."""
    x, bias = inputs.required(0, "X"), inputs.optional(1)
    if node.operator == "BiasGelu":
        bias = inputs.required(1, "B")
    name = "gelu_tanh" if node.operator == "FastGelu" else "gelu"
    if bias is None:
        return [b.elementwise((name, 0), x)]
    return [b.elementwise((name, ("add", 0, 1)), x, bias)]


@imports("QuickGelu", domain=MICROSOFT)
def _quick_gelu(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, alpha = inputs.required(0, "X"), node.number("alpha", 1.702)
    if alpha == 1.0:
        return [b.elementwise(("silu", 0), x)]
    return [b.elementwise(("mul", 0, ("sigmoid", ("mul", 0, ("const", alpha, b.dtype(x))))), x)]


@imports("BiasSplitGelu", domain=MICROSOFT)
def _bias_split_gelu(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import the product of the left half of the channels and the GELU of the right half, after a bias."""
    x, bias = inputs.first("X", "bias")
    *_, channels = shape = b.shape(x)
    if len(shape) != 3 or channels % 2 or b.shape(bias) != (channels,):
        raise b.wrong(f"a bias of {b.shape(bias)} and an input of {shape} do not fit two halves of channels")
    half = channels // 2
    parts = [b.part(each, -1, start, half) for each in (x, bias) for start in (0, half)]
    value: Any = ("mul", ("add", 0, 2), ("gelu", ("add", 1, 3)))
    return [b.elementwise(value, *parts)]


@imports("BiasAdd", domain=MICROSOFT)
def _bias_add(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    return [b.elementwise(("add", 0, 1, 2), *inputs.first("X", "bias", "skip"))]
