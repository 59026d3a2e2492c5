# SPDX-License-Identifier: Apache-2.0
"""Importers of QuantizeLinear and DequantizeLinear, per tensor or per axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import UnsupportedFormError, given, imports, optional
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, element_type_name
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


def _along(b: NetworkBuilder, node: ModelNode, x: str, parameter: str) -> str:
    """Reshape a scale or zero point so that it broadcasts along its axis."""
    shape, extents = b.shape(x), b.shape(parameter)
    if node.integer("block_size"):
        raise UnsupportedFormError
    if extents in ((), (1,)):
        return b.reshape(parameter, ())
    axis = b.axis(node.integer("axis", 1), len(shape))
    if extents != (shape[axis],):
        raise b.wrong(f"{extents} numbers for axis {axis} of {shape}")
    return b.reshape(parameter, (*extents, *(1,) * (len(shape) - axis - 1)))


@imports("QuantizeLinear")
def quantize(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import QuantizeLinear: round to even and clip to the range of the dtype."""
    x, scale, zero = given(b, inputs, 0, "x"), given(b, inputs, 1, "y_scale"), optional(inputs, 2)
    number = node.integer("output_dtype")
    if number and number not in DTYPES:
        raise b.wrong(f"elements of type {element_type_name(number)}, which is not supported")
    target = b.dtype(zero) if zero is not None else DTYPES[number] if number else "uint8"
    if np.dtype(target).kind not in "iu":
        raise b.wrong(f"elements of type {target}, expected whole numbers")
    x = b.cast(x, "float32")
    scale = b.cast(_along(b, node, x, scale), "float32")
    rounded: Any = ("round", ("div", 0, 1))
    values = [x, scale]
    if zero is not None:
        values.append(b.cast(_along(b, node, x, zero), "float32"))
        rounded = ("add", rounded, 2)
    limits = np.iinfo(target)
    cut = ("clip", float(limits.min), float(limits.max), rounded)
    if limits.bits > 16:
        raise UnsupportedFormError  # float32 cannot represent all its values
    return [b.elementwise(("cast", target, cut), *values, shape=b.shape(x), dtype=target)]


@imports("DequantizeLinear")
def dequantize(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import DequantizeLinear."""
    x, scale, zero = given(b, inputs, 0, "x"), given(b, inputs, 1, "x_scale"), optional(inputs, 2)
    dtype, number = b.dtype(scale), node.integer("output_dtype")
    if number and number not in DTYPES:
        raise b.wrong(f"elements of type {element_type_name(number)}, which is not supported")
    values = [x, _along(b, node, x, scale)]
    # Differences of 32-bit integers can overflow 32 bits; they are exact in 64 bits.
    whole: Any = ("cast", "int64", 0)
    if zero is not None:
        values.append(_along(b, node, x, zero))
        whole = ("sub", whole, ("cast", "int64", 2))
    product = ("mul", ("cast", dtype, whole), 1)
    return [b.cast(b.elementwise(product, *values, shape=b.shape(x)), DTYPES[number] if number else dtype)]
