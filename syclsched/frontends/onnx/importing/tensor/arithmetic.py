# SPDX-License-Identifier: Apache-2.0
"""Importers of element-wise operators: arithmetic, comparisons, logic, selection, casts."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from syclsched.frontends.onnx.importing.import_state import SEED, TrainingImport
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
    """Import BitShift; ONNX defines shifts of signed integers from opset 28 on."""
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


@imports("Identity")
def _identity(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    return [inputs.required(0, "input")]


@imports("Dropout")
def _dropout(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Dropout: in inference, and without anything to drop, identity and a mask of ones."""
    x = inputs.required(0, "data")
    ratio_name, training_name = inputs.optional(1), inputs.optional(2)
    if b.training is not None:
        ratio = node.number("ratio", 0.5)
        if ratio_name is not None:
            ratio = float(b.require(ratio_name, "the ratio").reshape(()))
        if not 0 <= ratio < 1:
            raise b.wrong(f"its ratio is {ratio}, expected at least 0 and less than 1")
        if ratio and b.dtype(x) in FLOATS:
            return _dropped(b, b.training, node, x, ratio)
    elif training_name is not None and _drops(b, training_name, ratio_name):
        raise b.wrong(
            "it drops elements at random", hint="Export the model for inference, or train it: syclsched.train"
        )
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [x]
    mask = b.filled(b.shape(x), "bool", True)
    return [x, b.cast(mask, b.dtype(x)) if b.opset < 10 else mask]


def _drops(b: NetworkBuilder, training: str, ratio: str | None) -> bool:
    """Return whether Dropout drops elements outside of training."""
    known = None if ratio is None else b.known(ratio)
    if known is not None and not known.any():
        return False
    if not b.require(training, "whether it drops elements").any():
        return False
    return ratio is None or bool(b.require(ratio, "the ratio").any())


def _dropped(b: NetworkBuilder, training: TrainingImport, node: ModelNode, x: str, ratio: float) -> Names:
    """Drop elements by random numbers that depend on the seed, the dropout and the element's place alone."""
    training.dropouts += 1
    salt = ("const", training.dropouts * 0x9E3779B9 % 2**32, "uint32")
    seed = b.elementwise(_mixed(("bit_xor", 0, salt)), SEED)
    shape = b.shape(x)
    # Counted in the whole batch, so that its parts drop the same elements as the whole.
    is_part = bool(shape) and shape[0] == training.samples
    place: Any = ("const", training.first * prod(shape[1:]) if is_part else 0, "int64")
    for axis in range(1, len(shape) + 1):
        step = prod(shape[len(shape) - axis + 1 :])
        place = ("add", place, ("mul", ("index", -axis), ("const", step, "int64")))
    number = _mixed(("bit_xor", ("mul", ("cast", "uint32", place), ("const", 0x9E3779B1, "uint32")), 1))
    kept = ("greater_equal", number, ("const", round(ratio * 2**32), "uint32"))
    scaled = ("mul", 0, ("const", 1 / (1 - ratio)))
    y = b.elementwise(("where", kept, scaled, ("const", 0.0)), x, seed, shape=shape)
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [y]
    return [y, b.elementwise(kept, x, seed, shape=shape)]


def _mixed(x: Any) -> Any:
    """Return an expression with the bits of an uint32 mixed, by two rounds of multiplication and shifted xor."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ("mul", ("bit_xor", x, ("shift_right", x, ("const", shift, "uint32"))), ("const", factor, "uint32"))
    return ("bit_xor", x, ("shift_right", x, ("const", 16, "uint32")))


@imports("Cast")
def _cast(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    return [b.cast(inputs.required(0, "input"), b.element_dtype(node.integer("to"), "a cast to"))]


@imports("CastLike")
def _cast_like(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, like = inputs.first("input", "target_type")
    return [b.cast(x, b.dtype(like))]
