# SPDX-License-Identifier: Apache-2.0
"""oneDNN post-ops: element-wise functions and additions fused into a primitive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.kernels.onednn.tensors import Tensor

_LARGEST = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class Eltwise:
    """An element-wise function with oneDNN's parameters alpha and beta."""

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary operation with another tensor, broadcast to the result."""

    algorithm: str  # a key of `names.BINARY`
    other: Tensor
    parameter: str  # the operation's parameter


@dataclass(frozen=True, slots=True)
class Sum:
    """Addition of the previous contents of the result."""


PostOp = Eltwise | Binary | Sum


def of_activation(activation: Sequence[tuple[str | float, ...]]) -> tuple[Eltwise, ...] | None:
    """Return an activation as post-ops; None if oneDNN lacks a step."""
    found: list[Eltwise] = []
    for name, *numbers in activation:
        made = _function(str(name), [float(n) for n in numbers])
        if made is None:
            return None
        found += made
    return tuple(found)


def _function(name: str, numbers: list[float]) -> list[Eltwise] | None:
    simple = {
        "relu": Eltwise("relu"),
        "sigmoid": Eltwise("logistic"),
        "tanh": Eltwise("tanh"),
        "gelu": Eltwise("gelu_erf"),
        "gelu_tanh": Eltwise("gelu_tanh"),
        "silu": Eltwise("swish", 1.0),
        "hard_swish": Eltwise("hardswish", 1.0 / 6.0, 0.5),
        "softplus": Eltwise("soft_relu", 1.0),
        "mish": Eltwise("mish"),
        "exp": Eltwise("exp"),
        "sqrt": Eltwise("sqrt"),
        "abs": Eltwise("abs"),
        "neg": Eltwise("linear", -1.0),
        "square": Eltwise("square"),
        "log": Eltwise("log"),
    }
    if name in simple and not numbers:
        return [simple[name]]
    match name, numbers:
        case "leaky_relu", [alpha]:
            return [Eltwise("relu", alpha)]
        case "elu", [alpha]:
            return [Eltwise("elu", alpha)]
        case "scale", [alpha]:
            return [Eltwise("linear", alpha)]
        case "shift", [beta]:
            return [Eltwise("linear", 1.0, beta)]
        case "selu", [alpha, gamma]:
            return [Eltwise("elu", alpha), Eltwise("linear", gamma)]
        case "hard_sigmoid", [alpha, beta]:
            return [Eltwise("hardsigmoid", alpha, beta)]
        case "clip", [low, high] if low <= high:
            return [Eltwise("clip", max(low, -_LARGEST), min(high, _LARGEST))]
        case _:
            return None
