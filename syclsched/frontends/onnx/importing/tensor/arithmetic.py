# SPDX-License-Identifier: Apache-2.0
"""Importers of element-wise operators: arithmetic, comparisons, logic, selection, casts."""

from __future__ import annotations

from typing import Any, Final

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

_BINARY: Final = {
    **{
        name: name.lower()
        for name in ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater")
    },
    "LessOrEqual": "less_equal",
    "GreaterOrEqual": "greater_equal",
    "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
}
_UNARY: Final = {"Not": "not", "BitwiseNot": "bit_not", "IsNaN": "isnan"}
_VARIADIC: Final = {"Sum": "add", "Max": "max", "Min": "min", "Mean": "add"}


@imports(*_UNARY)
def _unary(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    return [b.elementwise((_UNARY[node.operator], 0), inputs.required(0, "X"))]


@imports(*_BINARY)
def _binary(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    return [b.elementwise((_BINARY[node.operator], 0, 1), *inputs.first("A", "B"))]


@imports(*_VARIADIC)
def _variadic(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import operators of any number of inputs."""
    values = inputs.all("data_")
    if len(values) == 1:
        return [b.elementwise(0, values[0])]
    expression: Any = (_VARIADIC[node.operator], *range(len(values)))
    if node.operator == "Mean":
        expression = ("mul", ("const", 1.0 / len(values)), expression)
    return [b.elementwise(expression, *values)]


@imports("Mod")
def _mod(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Mod, with the sign of the divisor or as C's fmod."""
    x, y = inputs.first("A", "B")
    if b.opset < 28 and b.dtype(x) in FLOATS and not node.flag("fmod"):
        raise b.wrong(f"fmod is 0, and must be 1 for {b.dtype(x)} before opset 28")
    return [b.elementwise(("fmod" if node.flag("fmod") else "mod", 0, 1), x, y)]


@imports("BitShift")
def _bit_shift(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import BitShift; ONNX says what a shift of signed integers is from opset 28 on."""
    direction = node.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise b.wrong(f"its direction is {direction!r}, expected LEFT or RIGHT")
    name = f"shift_{direction.lower()}"
    x, y = inputs.first("X", "Y")
    return [b.elementwise((name, 0, 1), x, y)]


@imports("IsInf")
def _is_inf(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import IsInf, for both signs or one."""
    both = (node.integer("detect_negative", 1), node.integer("detect_positive", 1))
    return [b.elementwise(("isinf", *both, 0), inputs.required(0, "X"))]


@imports("Where")
def _where(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    return [b.elementwise(("where", 0, 1, 2), *inputs.first("condition", "X", "Y"))]


@imports("Identity", "Dropout")
def _identity(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Identity, and Dropout as in inference: identity and a mask of ones."""
    x = inputs.required(0, "data")
    if node.operator == "Identity":
        return [x]
    ratio_name, training_name = inputs.optional(1), inputs.optional(2)
    if training_name is not None:
        training = b.known(training_name)
        if training is None or bool(training.any()):
            ratio = None if ratio_name is None else b.known(ratio_name)
            if ratio is None or float(ratio) != 0.0:
                raise b.wrong("training mode is not supported", hint="Export the model for inference")
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [x]
    mask = b.filled(b.shape(x), "bool", True)
    return [x, b.cast(mask, b.dtype(x)) if b.opset < 10 else mask]


@imports("Cast")
def _cast(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    return [b.cast(inputs.required(0, "input"), b.element_dtype(node.integer("to"), "a cast to"))]


@imports("CastLike")
def _cast_like(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, like = inputs.first("input", "target_type")
    return [b.cast(x, b.dtype(like))]
