# SPDX-License-Identifier: Apache-2.0
"""Importer of an LSTM with weights of 8 bits."""

from __future__ import annotations

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.microsoft.standard_operators import standard
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode


@imports("DynamicQuantizeLSTM", domain=MICROSOFT)
def _dynamic_quantize_lstm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import an LSTM of float32 with dequantised weights.

    ONNX Runtime also quantises the input sequence, and the states before each step; these stay as they are here, so
    the result is nearer to that of the LSTM before it was quantised.
    """
    x = inputs.required(0, "X")
    if b.dtype(x) != "float32":
        raise b.wrong(f"X is {b.dtype(x)}, expected float32")
    weights = [_dequantised(b, inputs, *places) for places in ((1, 8, "W"), (2, 10, "R"))]
    return standard(b, node, "LSTM", [x, *weights, *(inputs.optional(position) for position in range(3, 8))])


def _dequantised(b: NetworkBuilder, inputs: Inputs, position: int, parameters: int, name: str) -> str:
    """Return weights (directions, features, gates) in float32, in LSTM's order (directions, gates, features)."""
    weights = inputs.required(position, name)
    shape = b.shape(weights)
    if len(shape) != 3 or b.dtype(weights) not in ("int8", "uint8"):
        raise b.wrong(
            f"{name} is {b.dtype(weights)} of shape {shape}, expected 8-bit numbers (directions, features, gates)"
        )
    values = [weights]
    for place, what in ((parameters, f"{name}_scale"), (parameters + 1, f"{name}_zero_point")):
        given = inputs.required(place, what)
        extents = b.shape(given)
        if extents not in (shape[:1], (shape[0], shape[2])):
            raise b.wrong(f"{what} of shape {extents}, expected {shape[:1]} or {(shape[0], shape[2])}")
        values.append(b.reshape(given, (shape[0], 1, *(extents[1:] or (1,)))))
    difference = ("sub", ("cast", "float32", 0), ("cast", "float32", 2))
    return b.transpose(b.elementwise(("mul", difference, 1), *values, shape=shape, dtype="float32"), (0, 2, 1))
