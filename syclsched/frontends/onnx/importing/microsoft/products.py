# SPDX-License-Identifier: Apache-2.0
"""Importers of matrix products of quantised matrices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.microsoft.standard_operators import refuse
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.integers import centred, combined_scale, requantised
from syclsched.frontends.onnx.importing.nn.quantisation import spread
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode

#: A quantised value, its scale, and its zero point if it has one.
Quantised = tuple[str, str, str | None]

# --- 8 bits -------------------------------------------------------------------------------------------


def product_of_integers(b: NetworkBuilder, left: Quantised, right: Quantised, bias: str | None) -> str:
    """Return the product of two quantised matrices in float32, plus a bias; the right one may have scales by column."""
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
    return [product_of_integers(b, _dynamically_quantised(b, x), right, inputs.optional(4))]


def _dynamically_quantised(b: NetworkBuilder, x: str) -> Quantised:
    """Quantise a value to 8 bits as DynamicQuantizeLinear: by its range, which includes 0."""
    low, high = (b.reduce(mode, x, range(len(b.shape(x))), keepdims=False) for mode in ("min", "max"))
    zero: Any = ("const", 0.0, "float32")
    width = ("sub", ("max", 1, zero), ("min", 0, zero))
    step = ("where", ("equal", width, zero), ("const", 1.0, "float32"), ("div", width, ("const", 255.0, "float32")))
    scale = b.elementwise(step, low, high)
    place = b.elementwise(("clip", 0.0, 255.0, ("round", ("div", ("neg", ("min", 0, zero)), 1))), low, scale)
    quantised = ("cast", "uint8", ("clip", 0.0, 255.0, ("add", ("round", ("div", 0, 1)), 2)))
    return b.elementwise(quantised, x, scale, place, shape=b.shape(x)), scale, b.cast(place, "uint8")


@imports("QGemm", domain=MICROSOFT)
def _qgemm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import a product of quantised matrices, quantised again if it has a scale, else in float32."""
    x, x_scale, x_zero, y, y_scale, y_zero = inputs.first(
        "A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point"
    )
    bias, scale, zero = (inputs.optional(position) for position in (6, 7, 8))
    transpose_a, transpose_b = bool(node.integer("transA")), bool(node.integer("transB"))
    factors = centred(b, x, x_zero, -2), centred(b, y, y_zero, 0 if transpose_b else -1)
    wide = None if bias is None else b.cast(bias, "float64")
    total = b.matmul(*factors, wide, transpose_a=transpose_a, transpose_b=transpose_b)
    alpha = node.number("alpha", 1.0)
    if alpha != 1.0:
        x_scale = b.elementwise(("mul", 0, ("const", alpha, "float32")), x_scale)
    if scale is None:
        return [_scaled(b, total, combined_scale(b, x_scale, y_scale), None)]
    if zero is None:
        zero = b.constant(0, "uint8")
    return [requantised(b, total, combined_scale(b, x_scale, y_scale, scale), zero, -1)]


# --- blocks of few bits -------------------------------------------------------------------------------

_BITS: Final = (2, 4, 8)


@imports("MatMulNBits", domain=MICROSOFT)
def _matmul_n_bits(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import a product with constant weights of few bits, which are unpacked now."""
    x, packed, scales = inputs.first("A", "B", "scales")
    refuse(b, node, inputs=[(4, "g_idx")], attributes=("weight_prepacked",))
    bits, block = node.integer("bits", 4), node.integer("block_size")
    rows, columns = node.integer("N"), node.integer("K")
    if bits not in _BITS or block < 8 // bits:
        raise b.wrong(f"{bits} bits in blocks of {block}", hint=f"Supported: {', '.join(map(str, _BITS))} bits")
    blocks = -(-columns // block)
    expected = (rows, blocks, block * bits // 8)
    if b.shape(packed) != expected:
        raise b.wrong(f"weights of shape {b.shape(packed)}, expected {expected}")
    weights = _unpacked(b.require(packed, "its weights"), bits).reshape(rows, blocks, block)
    factors = np.asarray(b.require(scales, "its scales"), np.float32).reshape(rows, blocks, 1)
    zeros = _zeros(b, inputs.optional(3), bits, rows, blocks)
    full = ((weights.astype(np.float32) - zeros) * factors).reshape(rows, blocks * block)[:, :columns]
    dense = b.constant(np.ascontiguousarray(full.astype(b.dtype(x))))
    return [b.matmul(x, dense, inputs.optional(5), transpose_b=True)]


def _unpacked(packed: Any, bits: int) -> Any:
    """Return the numbers in bytes, along the last axis; the first one is in the lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*packed.shape[:-1], -1)


def _zeros(b: NetworkBuilder, name: str | None, bits: int, rows: int, blocks: int) -> Any:
    """Return the zero points of all blocks, which may be packed as the weights are."""
    if name is None:
        return np.float32(1 << (bits - 1))
    given = b.require(name, "its zero points")
    if given.dtype == np.uint8:
        given = _unpacked(given.reshape(rows, -1), bits)[:, :blocks]
    return np.asarray(given, np.float32).reshape(rows, blocks, 1)
