# SPDX-License-Identifier: Apache-2.0
"""Importers of activations and other unary element-wise operators."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.equal_extents import broadcast_alike
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS, UNSIGNED
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: ONNX operator -> equivalent operator of expressions.
_PLAIN: Final = {
    **{name: name.lower() for name in ("Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Softplus", "Softsign", "Mish")},
    **{name: name.lower() for name in ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan")},
    **{name: name.lower() for name in ("Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh")},
    **{name: name.lower() for name in ("Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Reciprocal", "Relu")},
    "HardSwish": "hard_swish",
}
#: ONNX operator -> equivalent operator of expressions, and its attributes with their defaults.
_WITH_NUMBERS: Final = {
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Elu": ("elu", {"alpha": 1.0}),
    "Celu": ("celu", {"alpha": 1.0}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
    "Selu": ("selu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "Shrink": ("shrink", {"lambd": 0.5, "bias": 0.0}),
}


@imports(*_PLAIN)
def _plain(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, name = inputs.required(0, "X"), _PLAIN[node.operator]
    if b.dtype(x) in UNSIGNED and name in ("abs", "relu"):
        return [b.elementwise(0, x)]
    if b.dtype(x) not in FLOATS and name not in ("abs", "neg", "sign", "relu"):
        raise UnsupportedFormError
    return [b.elementwise((name, 0), x)]


@imports(*_WITH_NUMBERS)
def _with_numbers(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, (name, defaults) = inputs.required(0, "X"), _WITH_NUMBERS[node.operator]
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    parameters = [node.number(each, usual) for each, usual in defaults.items()]
    if name == "celu" and not 0 < abs(parameters[0]) < np.inf:
        raise b.wrong(f"its alpha is {parameters[0]}, by which it divides and multiplies")
    return [b.elementwise((name, *parameters, 0), x)]


@imports("Gelu")
def _gelu(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Gelu, exact or with the tanh approximation."""
    name = "gelu_tanh" if node.text("approximate", "none") == "tanh" else "gelu"
    return [b.elementwise((name, 0), inputs.required(0, "X"))]


@imports("Swish", "SwiGLU")
def _swish(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Swish, and SwiGLU: the Swish of a gate times values of the same shape."""
    x, alpha = inputs.required(0, "X"), node.number("alpha", 1.0)
    swish = ("silu", 0) if alpha == 1 else ("mul", 0, ("sigmoid", ("scale", alpha, 0)))
    if node.operator == "Swish":
        return [b.elementwise(swish, x)]
    values = inputs.required(1, "B")
    if b.shape(x) != b.shape(values):
        raise b.wrong(f"its inputs have shapes {b.shape(x)} and {b.shape(values)}, expected equal ones")
    return [b.elementwise(("mul", swish, 1), x, values)]


@imports("PRelu")
def _prelu(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import PRelu; the slope is broadcast to the input, before opset 9 per channel."""
    x, slope = inputs.first("X", "slope")
    shape = b.shape(slope)
    if b.opset < 9 and len(shape) == 1 and len(b.shape(x)) > 1:
        slope = b.reshape(slope, (shape[0], *(1,) * (len(b.shape(x)) - 2)))
    if b.observed is not None and {x, slope} & b.lengths.keys():
        x, slope = broadcast_alike(b, [x, slope])
    extents = b.shape(slope)[::-1]
    if len(extents) > len(b.shape(x)) or any(n not in (1, m) for n, m in zip(extents, b.shape(x)[::-1], strict=False)):
        raise b.wrong(f"its slope {b.shape(slope)} cannot be broadcast to its input {b.shape(x)}")
    return [b.elementwise(("prelu", 0, 1), x, slope, shape=b.shape(x))]


@imports("Clip")
def _clip(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Clip; the bounds are attributes before opset 11, then inputs."""
    x = inputs.required(0, "input")
    if b.opset < 11:
        low: Any = node.number("min", -np.inf) if "min" in node.attributes else None
        high: Any = node.number("max", np.inf) if "max" in node.attributes else None
        if b.dtype(x) == "float32":
            # The defaults of these attributes are the limits of float32, which do not clip anything.
            limit = float(np.finfo(np.float32).max)
            low = None if low is not None and low <= -limit else low
            high = None if high is not None and high >= limit else high
        return [_clipped(b, x, low, high)]
    names = [inputs.optional(1), inputs.optional(2)]
    bounds = [None if name is None else b.known(name) for name in names]
    if all(name is None or (bound is not None and bound.size == 1) for name, bound in zip(names, bounds, strict=True)):
        numbers = [None if bound is None else bound.reshape(-1)[0].item() for bound in bounds]
        return [_clipped(b, x, *numbers)]
    # Bounds that are not constant; the upper one takes precedence where they cross.
    for operator, name in zip(("max", "min"), names, strict=True):
        if name is not None:
            x = b.elementwise((operator, 0, 1), x, name, shape=b.shape(x))
    return [x]


def _clipped(b: NetworkBuilder, x: str, low: Any, high: Any) -> str:
    kind = b.dtype(x)
    expression: Any = 0
    if kind in FLOATS and low is not None and high is not None and low <= high:
        return b.elementwise(("clip", float(low), float(high), 0), x)
    if low is not None:
        expression = ("max", expression, ("const", low, kind))
    if high is not None:
        expression = ("min", expression, ("const", high, kind))
    return x if expression == 0 else b.elementwise(expression, x)
