# SPDX-License-Identifier: Apache-2.0
"""Importers of QuantizeLinear and DequantizeLinear, per tensor or per axis, and of DynamicQuantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, NARROW_FLOATS, NARROW_INTEGERS, carrier
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


def spread(b: NetworkBuilder, x: str, numbers: str, axis: int) -> str:
    """Reshape numbers, one or one per position along an axis of another value, so that they broadcast to it."""
    extents, rank = b.shape(numbers), len(b.shape(x))
    if extents in ((), (1,)):
        return b.reshape(numbers, ())
    if len(extents) > 1:
        return numbers
    return b.reshape(numbers, (*extents, *(1,) * (rank - b.axis(axis, rank) - 1)))


def _along(b: NetworkBuilder, node: ModelNode, x: str, parameter: str) -> str:
    """Reshape a scale or zero point so that it broadcasts along its axis."""
    shape, extents, axis = b.shape(x), b.shape(parameter), node.integer("axis", 1)
    if node.integer("block_size"):
        raise UnsupportedFormError
    if extents not in ((), (1,)) and extents != (shape[b.axis(axis, len(shape))],):
        raise b.wrong(f"{extents} numbers for axis {axis} of {shape}")
    return spread(b, x, parameter, axis)


@imports("QuantizeLinear")
def _quantize(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import QuantizeLinear: round to even and clip to the range of the dtype."""
    (x, scale), zero = inputs.first("x", "y_scale"), inputs.optional(2)
    number = node.integer("output_dtype")
    if number:
        b.element_dtype(number)
    target = b.element(zero) if zero is not None else DTYPES.get(number, "uint8")
    x = b.cast(x, "float32")
    scale = b.cast(_along(b, node, x, scale), "float32")
    if target in NARROW_FLOATS:
        quotient = b.elementwise(("div", 0, 1), x, scale, shape=b.shape(x))
        return [b.narrowed(quotient, target, cut=node.flag("saturate", 1))]
    if np.dtype(carrier(target)).kind not in "iu":
        raise b.wrong(f"elements of type {target}, expected whole numbers")
    rounded: Any = ("round", ("div", 0, 1))
    values = [x, scale]
    if zero is not None:
        values.append(b.cast(_along(b, node, x, zero), "float32"))
        rounded = ("add", rounded, 2)
    held = carrier(target)
    bits = NARROW_INTEGERS.get(target, np.iinfo(held).bits)
    if bits > 16:
        raise UnsupportedFormError  # float32 cannot represent all its values
    least, most = (0, (1 << bits) - 1) if target[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    cut = ("clip", float(least), float(most), rounded)
    made = b.elementwise(("cast", held, cut), *values, shape=b.shape(x), dtype=held)
    if target in NARROW_INTEGERS:
        b.elements[made] = target
    return [made]


@imports("DynamicQuantizeLinear")
def _dynamic_quantize(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    return dynamically_quantised(b, *inputs.first("x"))


def dynamically_quantised(b: NetworkBuilder, x: str) -> tuple[str, str, str]:
    """Return a value quantised to 8 bits by its range, its scale and its zero point."""
    y, scale, zero, _ = b.emit_all("dynamic_quantise", [x])
    assert y is not None and scale is not None and zero is not None
    return y, scale, zero


@imports("DequantizeLinear")
def _dequantize(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    (x, scale), zero = inputs.first("x", "x_scale"), inputs.optional(2)
    dtype, number = b.dtype(scale), node.integer("output_dtype")
    result = b.element_dtype(number) if number else dtype
    scales = _along(b, node, x, scale)
    if np.dtype(b.dtype(x)).itemsize == 1 and dtype == "float32":
        y = _dequantized_bytes(b, node, x, scales, zero)
        return [b.cast(y, result)]
    values = [x, scales]
    # Differences of 32-bit integers can overflow 32 bits; they are exact in 64 bits.
    exact = "float32" if b.dtype(x) == "float32" else "int64"
    whole: Any = ("cast", exact, 0)
    if zero is not None:
        values.append(_along(b, node, x, zero))
        whole = ("sub", whole, ("cast", exact, 2))
    product = ("mul", ("cast", dtype, whole), 1)
    return [b.cast(b.elementwise(product, *values, shape=b.shape(x)), result)]


def _dequantized_bytes(b: NetworkBuilder, node: ModelNode, x: str, scales: str, zero: str | None) -> str:
    """Dequantise 8-bit numbers; constant weights stay as they are for rewrites that multiply integers."""
    values = [x, scales]
    whole: Any = ("cast", "float32", 0)
    if zero is not None:
        values.append(b.cast(_along(b, node, x, zero), "float32"))
        whole = ("sub", whole, 2)
    folded = len(b.shape(x)) < 2
    return b.elementwise(("mul", whole, 1), *values, shape=b.shape(x), dtype="float32", folded=folded)
