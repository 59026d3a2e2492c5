# SPDX-License-Identifier: Apache-2.0
"""Activations as Python source for kernels; see `syclsched.kernels.nn.activation`."""

from __future__ import annotations

from typing import Final

from syclsched.kernels.common import Activation
from syclsched.kernels.nn.activation import Translation


def _real(value: float) -> str:
    return f"real({value!r})"


_NUMBERS: Final = Translation(
    _real, lambda condition, yes, no: f"({yes} if {condition} else {no})", lambda function, x: f"math.{function}({x})"
)
_VECTORS: Final = Translation(
    _real, lambda condition, yes, no: f"choose({condition}, {yes}, {no})", lambda function, x: f"v{function}({x})"
)


def applied(activation: Activation, indent: str) -> str:
    """Return source lines that apply an activation to the variable ``v``, of dtype ``real``."""
    steps = (_NUMBERS.step(str(name), "v", [*map(float, numbers)]) for name, *numbers in activation)
    return "".join(f"{indent}v = real({step})\n" for step in steps)


def applied_wide(activation: Activation) -> str:
    """Return source lines that apply an activation to a vector ``v``."""
    steps = (_VECTORS.step(str(name), "v", [*map(float, numbers)]) for name, *numbers in activation)
    return "".join(f"v = {step}\n" for step in steps)
