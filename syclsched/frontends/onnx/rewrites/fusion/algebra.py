# SPDX-License-Identifier: Apache-2.0
"""Algebraic simplification of element-wise expressions, with scalar constants written into them."""

from __future__ import annotations

import math
from typing import Any, Final

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.expressions import compact_inputs, dtypes_of, set_expression, simplified
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.kernels.tensor.writing.expression import result_dtype, substitute

#: Dtypes whose values a number in an expression represents exactly.
_WRITTEN: Final = frozenset({"float16", "float32", "float64", "int32", "int64", "bool"})


def simplify(draft: NetworkDraft) -> None:
    """Write constants of one element into expressions, and simplify these."""
    for node in draft.each("elementwise"):
        output = node.outputs[0]
        assert output is not None
        before: Any = (node.attributes["expression"], node.inputs)
        inputs = tuple(name for name in node.inputs if name is not None)
        written = _numbers_written(draft, node, inputs)
        expression = simplified(written, dtypes_of(draft, inputs))
        if not compact_inputs(expression, inputs)[1]:
            # All inputs are constant: left to constant folding.
            continue
        if result_dtype(expression, dtypes_of(draft, inputs)) != draft.dtype(output):
            continue
        after = compact_inputs(expression, inputs)
        if after != before:
            set_expression(draft, node, expression, inputs)
            draft.record_change("simpler expressions", node.name)


def _numbers_written(draft: NetworkDraft, node: CanonicalNode, inputs: tuple[str, ...]) -> Any:
    numbers: dict[int, Any] = {}
    for index, name in enumerate(inputs):
        array = draft.constant(name)
        if array is None or array.size != 1 or array.dtype.name not in _WRITTEN:
            continue
        value = array.reshape(-1)[0].item()
        if isinstance(value, float) and not math.isfinite(value):
            continue
        numbers[index] = ("const", value, array.dtype.name)
    if len(numbers) == len(set(inputs)):
        return node.attributes["expression"]
    return substitute(node.attributes["expression"], numbers)
