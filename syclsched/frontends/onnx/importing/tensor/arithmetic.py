# SPDX-License-Identifier: Apache-2.0
"""Importers of element-wise operators with several inputs: arithmetic, comparisons, logic, selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from syclsched.frontends.onnx.importing.importer_registry import given, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
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
_VARIADIC: Final = {"Sum": "add", "Max": "max", "Min": "min", "Mean": "add"}


@imports(*_BINARY)
def binary(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import operators of two broadcast inputs."""
    x, y = given(b, inputs, 0, "A"), given(b, inputs, 1, "B")
    return [b.elementwise((_BINARY[node.operator], 0, 1), x, y)]


@imports(*_VARIADIC)
def variadic(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import operators of any number of inputs."""
    values = [given(b, inputs, i, f"data_{i}") for i in range(len(inputs))]
    if len(values) == 1:
        return [b.elementwise(0, values[0])]
    expression: Any = (_VARIADIC[node.operator], *range(len(values)))
    if node.operator == "Mean":
        expression = ("mul", ("const", 1.0 / len(values)), expression)
    return [b.elementwise(expression, *values)]


@imports("Mod")
def mod(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Mod, with the sign of the divisor or as C's fmod."""
    x, y = given(b, inputs, 0, "A"), given(b, inputs, 1, "B")
    return [b.elementwise(("fmod" if node.integer("fmod") else "mod", 0, 1), x, y)]


@imports("BitShift")
def bit_shift(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import BitShift."""
    name = "shift_left" if node.text("direction") == "LEFT" else "shift_right"
    return [b.elementwise((name, 0, 1), given(b, inputs, 0, "X"), given(b, inputs, 1, "Y"))]


@imports("Not", "BitwiseNot")
def negation(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Not and BitwiseNot."""
    return [b.elementwise(("not" if node.operator == "Not" else "bit_not", 0), given(b, inputs, 0, "X"))]


@imports("IsNaN")
def is_nan(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import IsNaN."""
    return [b.elementwise(("isnan", 0), given(b, inputs, 0, "X"))]


@imports("IsInf")
def is_inf(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import IsInf, for both signs or one."""
    x = given(b, inputs, 0, "X")
    both = (node.integer("detect_negative", 1), node.integer("detect_positive", 1))
    return [b.elementwise(("isinf", *both, 0), x)]


@imports("Where")
def where(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Where."""
    condition, x, y = (given(b, inputs, i, name) for i, name in enumerate(("condition", "X", "Y")))
    return [b.elementwise(("where", 0, 1, 2), condition, x, y)]


@imports("Identity", "Dropout")
def identity(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Identity, and Dropout as in inference: identity and a mask of ones."""
    x = given(b, inputs, 0, "data")
    if node.operator == "Identity":
        return [x]
    if len(inputs) > 2 and inputs[2] is not None:
        training = b.known(inputs[2])
        if training is None or bool(training.any()):
            ratio = None if inputs[1] is None else b.known(inputs[1])
            if ratio is None or float(ratio) != 0.0:
                raise b.wrong("training mode is not supported", hint="Export the model for inference")
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [x]
    mask = b.emit("elementwise", [], shape=b.shape(x), dtype="bool", expression=("const", True, "bool"))
    return [x, b.cast(mask, b.dtype(x)) if b.opset < 10 else mask]
