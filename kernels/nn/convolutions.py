# SPDX-License-Identifier: Apache-2.0
"""Names and parameters of convolutions and transposed ones."""

from __future__ import annotations

from typing import Final

from syclsched.errors import ArgumentError
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.source import FLOATS
from syclsched.kernels.windows import Convolution
from syclsched.model.access import AccessMode
from syclsched.model.operation import Parameter

#: The parameter that is added to sums, or none -> how the name of an operation says so.
RESIDUALS: Final = {"": "", "r": "residual", "y": "in place"}


def residual_of(residual: bool, in_place: bool) -> str:
    """Return which parameter is added to sums; empty for none."""
    if in_place and not residual:
        raise ArgumentError("in_place says where the residual is, and there is none", hint="Give residual=True")
    return ("y" if in_place else "r") if residual else ""


def label(kind: str, convolution: Convolution, *, more: str = "", bias: bool, residual: str = "") -> str:
    """Return an operation's name; ``more`` is what it says of the window besides."""
    window, groups = convolution.window, convolution.groups
    parts = [
        f"{kind}{window.ndim}d",
        window.label(),
        more,
        f"g{groups}" if groups != 1 else "",
        "last" if convolution.channels_last else "",
        "bias" if bias else "",
        RESIDUALS[residual],
        act.label(convolution.activation),
    ]
    return " ".join(filter(None, parts))


def parameters(ndim: int, *, bias: bool, residual: str = "") -> tuple[Parameter, ...]:
    """Return y (updated where it is the residual), x, w, then b and r if they are there, of so many spatial axes."""
    return (
        Parameter("y", AccessMode.UPDATE if residual == "y" else AccessMode.WRITE, ndim=ndim + 2, dtypes=FLOATS),
        Parameter("x", AccessMode.READ, ndim=ndim + 2, like="y"),
        Parameter("w", AccessMode.READ, ndim=ndim + 2, like="y"),
        *([Parameter("b", AccessMode.READ, ndim=1, like="y")] if bias else []),
        *([Parameter("r", AccessMode.READ, ndim=ndim + 2, like="y")] if residual == "r" else []),
    )
