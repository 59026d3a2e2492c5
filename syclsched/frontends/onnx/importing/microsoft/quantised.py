# SPDX-License-Identifier: Apache-2.0
"""Importers of element-wise operators, poolings and convolutions of quantised values.

Results may differ from ONNX Runtime's by one unit, which takes some of them from tables or rounds at another place.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.lengths import LengthError
from syclsched.frontends.onnx.importing.microsoft.standard_operators import (
    channels_first,
    channels_last,
    first,
    standard,
)
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.window_parameters import window_counts, windows_of
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode

_UNARY: Final = {"QLinearSigmoid": "Sigmoid", "QLinearLeakyRelu": "LeakyRelu"}
_BINARY: Final = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
_POOLS: Final = {"QLinearAveragePool": "AveragePool", "QLinearGlobalAveragePool": "GlobalAveragePool"}


@imports("QuantizeLinear", "DequantizeLinear", domain=MICROSOFT)
def _quantize_or_dequantize(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, scale = inputs.first("x", "scale")
    return standard(b, node, node.operator, [x, scale, inputs.optional(2)])


def _real(b: NetworkBuilder, node: ModelNode, inputs: Inputs, position: int) -> str:
    """Return a quantised input as numbers; its scale and its zero point follow it."""
    x, scale = inputs.required(position, "X"), inputs.required(position + 1, "X_scale")
    return first(
        standard(b, replace(node, attributes={}), "DequantizeLinear", [x, scale, inputs.optional(position + 2)])
    )


def _quantised(b: NetworkBuilder, node: ModelNode, x: str, inputs: Inputs, position: int, dtype: str) -> str:
    """Quantise numbers by the scale and the zero point of the result."""
    scale, zero = inputs.required(position, "Y_scale"), inputs.optional(position + 1)
    if zero is None:
        zero = b.constant(0, dtype)
    scale, zero = (b.reshape(each, ()) for each in (scale, zero))
    return first(standard(b, replace(node, attributes={}), "QuantizeLinear", [x, scale, zero]))


@imports(*_UNARY, domain=MICROSOFT)
def _unary(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    y = first(standard(b, node, _UNARY[node.operator], [_real(b, node, inputs, 0)]))
    return [_quantised(b, node, y, inputs, 3, b.dtype(inputs.required(0, "X")))]


@imports(*_BINARY, domain=MICROSOFT)
def _binary(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    operands = [_real(b, node, inputs, position) for position in (0, 3)]
    y = first(standard(b, node, _BINARY[node.operator], operands))
    return [_quantised(b, node, y, inputs, 6, b.dtype(inputs.required(0, "A")))]


@imports("QLinearWhere", domain=MICROSOFT)
def _where(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    condition, operands = inputs.required(0, "condition"), [_real(b, node, inputs, position) for position in (1, 4)]
    y = b.elementwise(("where", 0, 1, 2), condition, *operands)
    return [_quantised(b, node, y, inputs, 7, b.dtype(inputs.required(1, "X")))]


@imports("QLinearConcat", domain=MICROSOFT)
def _concat(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import the concatenation of values that each have a scale and a zero point."""
    count = len(node.inputs) - 2
    if count < 3 or count % 3:
        raise b.wrong(f"{count} inputs, expected values with a scale and a zero point each")
    dtype = b.dtype(inputs.required(1, "Y_zero_point"))
    parts = [
        _quantised(b, node, _real(b, node, inputs, position), inputs, 0, dtype) for position in range(2, count + 2, 3)
    ]
    return [b.concat(parts, b.axis(node.integer("axis"), len(b.shape(parts[0]))))]


@imports("QLinearSoftmax", domain=MICROSOFT)
def _softmax(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Softmax of the opset that an attribute says: before 13 it spans all axes from one on."""
    x = _real(b, node, inputs, 0)
    shape = b.shape(x)
    axis = b.axis(node.integer("axis", -1), len(shape))
    if node.integer("opset") >= 13:
        y = b.emit("softmax", [x], axis=axis, log=False)
    else:
        flat = b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
        y = b.reshape(b.emit("softmax", [flat], axis=1, log=False), shape)
    return [_quantised(b, node, y, inputs, 3, b.dtype(inputs.required(0, "X")))]


@imports(*_POOLS, domain=MICROSOFT)
def _pool(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, last = _real(b, node, inputs, 0), node.integer("channels_last")
    x = channels_first(b, x) if last else x
    whole = _whole_windows(b, node, x) if node.flag("ceil_mode") and node.flag("count_include_pad") else {}
    y = first(standard(b, node, _POOLS[node.operator], [x], **whole))
    y = channels_last(b, y) if last else y
    return [_quantised(b, node, y, inputs, 3, b.dtype(inputs.required(0, "X")))]


def _whole_windows(b: NetworkBuilder, node: ModelNode, x: str) -> dict[str, Any]:
    """Return attributes with pads up to the end of the last window: all of it counts, unlike in AveragePool."""
    kernel, extents = node.integers_or("kernel_shape"), b.shape(x)[2:]
    if any(each.axis > 1 for each in b.lengths.get(x, ())):
        raise LengthError("its windows reach beyond pads that count, which a length known at run time decides")
    windows = windows_of(b, node, kernel, extents)
    counts = window_counts(kernel, windows, extents, ceil=True)
    begins = windows.pads[: len(kernel)]
    sizes = zip(counts, windows.strides, kernel, begins, extents, strict=True)
    ends = tuple((count - 1) * step + size - begin - extent for count, step, size, begin, extent in sizes)
    return {"pads": (*begins, *ends), "ceil_mode": 0, "auto_pad": "NOTSET"}


@imports("QLinearConv", domain=MICROSOFT)
def _conv(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, last = inputs.required(0, "x"), node.integer("channels_last")
    rest: list[Any] = [inputs.optional(position) for position in range(1, 9)]
    y = first(standard(b, node, "QLinearConv", [channels_first(b, x) if last else x, *rest]))
    return [channels_last(b, y) if last else y]
