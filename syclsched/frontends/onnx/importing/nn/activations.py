# SPDX-License-Identifier: Apache-2.0
"""Importers of activations and other unary element-wise operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import UnsupportedFormError, given, imports, optional
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
_WITH_ALPHA: Final = {
    "LeakyRelu": ("leaky_relu", 0.01),
    "Elu": ("elu", 1.0),
    "Celu": ("celu", 1.0),
    "ThresholdedRelu": ("thresholded_relu", 1.0),
}


@imports(*_PLAIN)
def plain(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import operators without attributes."""
    x, name = given(b, inputs, 0, "X"), _PLAIN[node.operator]
    if b.dtype(x) in UNSIGNED and name in ("abs", "relu"):
        return [b.elementwise(0, x)]
    if b.dtype(x) not in FLOATS and name not in ("abs", "neg", "sign", "relu"):
        raise UnsupportedFormError
    return [b.elementwise((name, 0), x)]


@imports(*_WITH_ALPHA)
def with_alpha(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import operators with an attribute alpha."""
    name, default = _WITH_ALPHA[node.operator]
    return [b.elementwise((name, node.number("alpha", default), 0), given(b, inputs, 0, "X"))]


@imports("Selu")
def selu(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Selu."""
    alpha = node.number("alpha", 1.67326319217681884765625)
    gamma = node.number("gamma", 1.05070102214813232421875)
    return [b.elementwise(("selu", alpha, gamma, 0), given(b, inputs, 0, "X"))]


@imports("HardSigmoid")
def hard_sigmoid(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import HardSigmoid."""
    expression = ("hard_sigmoid", node.number("alpha", 0.2), node.number("beta", 0.5), 0)
    return [b.elementwise(expression, given(b, inputs, 0, "X"))]


@imports("Shrink")
def shrink(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Shrink."""
    x = given(b, inputs, 0, "input")
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    return [b.elementwise(("shrink", node.number("lambd", 0.5), node.number("bias", 0.0), 0), x)]


@imports("Gelu")
def gelu(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Gelu, exact or with the tanh approximation."""
    name = "gelu_tanh" if node.text("approximate", "none") == "tanh" else "gelu"
    return [b.elementwise((name, 0), given(b, inputs, 0, "X"))]


@imports("PRelu")
def prelu(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import PRelu; the slope is broadcast to the input, before opset 9 per channel."""
    x, slope = given(b, inputs, 0, "X"), given(b, inputs, 1, "slope")
    shape = b.shape(slope)
    if b.opset < 9 and len(shape) == 1 and len(b.shape(x)) > 1:
        slope = b.reshape(slope, (shape[0], *(1,) * (len(b.shape(x)) - 2)))
    return [b.elementwise(("prelu", 0, 1), x, slope, shape=b.shape(x))]


@imports("Clip")
def clip(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Clip; the bounds are attributes before opset 11, then inputs."""
    x = given(b, inputs, 0, "input")
    if b.opset < 11:
        low: Any = node.number("min", -np.inf) if "min" in node.attributes else None
        high: Any = node.number("max", np.inf) if "max" in node.attributes else None
        if b.dtype(x) == "float32":
            # The defaults of these attributes are the limits of float32, which do not clip anything.
            limit = float(np.finfo(np.float32).max)
            low = None if low is not None and low <= -limit else low
            high = None if high is not None and high >= limit else high
        return [_clip(b, x, low, high)]
    names = [optional(inputs, 1), optional(inputs, 2)]
    bounds = [None if name is None else b.known(name) for name in names]
    if all(name is None or (bound is not None and bound.size == 1) for name, bound in zip(names, bounds, strict=True)):
        numbers = [None if bound is None else bound.reshape(-1)[0].item() for bound in bounds]
        return [_clip(b, x, *numbers)]
    # Bounds that are not constant; the upper one takes precedence where they cross.
    low_name, high_name = names
    if low_name is not None:
        x = b.elementwise(("max", 0, 1), x, low_name, shape=b.shape(x))
    if high_name is not None:
        x = b.elementwise(("min", 0, 1), x, high_name, shape=b.shape(x))
    return [x]


def _clip(b: NetworkBuilder, x: str, low: Any, high: Any) -> str:
    kind = b.dtype(x)
    expression: Any = 0
    if kind in FLOATS and low is not None and high is not None and low <= high:
        return b.elementwise(("clip", float(low), float(high), 0), x)
    if low is not None:
        expression = ("max", expression, ("const", low, kind))
    if high is not None:
        expression = ("min", expression, ("const", high, kind))
    return x if expression == 0 else b.elementwise(expression, x)
