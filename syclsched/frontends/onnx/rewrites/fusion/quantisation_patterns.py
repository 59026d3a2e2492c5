# SPDX-License-Identifier: Apache-2.0
"""Patterns of element-wise nodes that quantise and dequantise by constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.expressions import number
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft

_BYTES: Final = ("uint8", "int8")
_LIMITS: Final = {"uint8": (0.0, 255.0), "int8": (-128.0, 127.0)}


@dataclass(frozen=True, slots=True)
class Quantised:
    """A quantised value, and its constant scale and zero point, which broadcast to it."""

    value: str
    scale: Any
    zero: Any

    @property
    def is_scalar(self) -> bool:
        """Whether all elements have one scale and one zero point."""
        return math.prod(np.shape(self.scale)) == 1 == math.prod(np.shape(self.zero))

    @property
    def step(self) -> float:
        """The one scale."""
        return float(self.scale.reshape(-1)[0])

    @property
    def shift(self) -> float:
        """The one zero point."""
        return float(self.zero.reshape(-1)[0])


def dequantised(draft: NetworkDraft, name: str | None) -> Quantised | None:
    """Return the value of 8 bits that a value is dequantised from, by constants; None if there is none."""
    node = draft.made_by(name, "elementwise")
    if node is None or name is None or draft.dtype(name) != "float32":
        return None
    match node.attributes["expression"]:
        case ("mul", ("sub", ("cast", "float32", int(x)), zero), scale):
            pass
        case ("mul", ("cast", "float32", int(x)), scale):
            zero = ("const", 0.0)
        case ("cast", "float32", int(x)):
            zero, scale = ("const", 0.0), ("const", 1.0)
        case _:
            return None
    value = node.inputs[x]
    if value is None or draft.dtype(value) not in _BYTES or draft.shape(value) != draft.shape(name):
        return None
    numbers = [_constant(draft, node, each) for each in (scale, zero)]
    if any(each is None for each in numbers):
        return None
    return Quantised(value, *numbers)


def _constant(draft: NetworkDraft, node: CanonicalNode, operand: Any) -> Any:
    """Return the numbers of an operand that is a number or a constant input; else None."""
    value = number(operand)
    if value is not None:
        return np.array(value, np.float32)
    return draft.constant(node.inputs[operand]) if isinstance(operand, int) else None


def quantisation(draft: NetworkDraft, node: CanonicalNode, dtype: str) -> tuple[float, int] | None:
    """Return the scale and the zero point of a node that quantises its first input."""
    if dtype not in _BYTES:
        return None
    match node.attributes["expression"]:
        case ("cast", str(to), ("clip", low, high, inner)) if to == dtype and (low, high) == _LIMITS[dtype]:
            pass
        case _:
            return None
    zero: Any = ("const", 0.0)
    scale: Any = ("const", 1.0)
    power: Any = None
    match inner:
        case ("add", ("round", _) as inner, zero):
            pass
    match inner:
        case ("round", ("div", 0, scale)):
            pass
        case ("round", ("mul", 0, power)):  # a quotient by a power of two that has become a product
            pass
        case ("round", 0):
            pass
        case _:
            return None
    numbers = [_constant(draft, node, each) for each in (scale, zero, power) if each is not None]
    if any(each is None or each.size != 1 for each in numbers):
        return None
    step, shift, *factor = (float(each.reshape(-1)[0]) for each in numbers)
    if factor:
        if math.frexp(factor[0])[0] != 0.5:
            return None
        step = 1 / factor[0]
    return (step, int(shift)) if step > 0 and shift.is_integer() else None
