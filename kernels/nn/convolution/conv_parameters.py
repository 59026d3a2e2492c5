# SPDX-License-Identifier: Apache-2.0
"""Names and parameters of convolution and transposed convolution operations."""

from __future__ import annotations

from typing import Final

from syclsched.errors import ArgumentError
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.opencl_types import FLOATS
from syclsched.kernels.windows import Convolution
from syclsched.model.access import AccessMode
from syclsched.model.operation import Parameter

#: Parameter added to the sums (empty: none) -> its part of an operation's name.
RESIDUALS: Final = {"": "", "r": "residual", "y": "in place"}


def residual_of(residual: bool, in_place: bool) -> str:
    """Return the parameter that is added to the sums; empty for none."""
    if in_place and not residual:
        raise ArgumentError("in_place says where the residual is, and there is none", hint="Give residual=True")
    return ("y" if in_place else "r") if residual else ""


def label(kind: str, convolution: Convolution, *, more: str = "", bias: bool, residual: str = "") -> str:
    """Return an operation's name; ``more`` is appended to the description of the window."""
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
    """Return the parameters y (updated if it is the residual), x, w, and optionally b and r."""
    return (
        Parameter("y", AccessMode.UPDATE if residual == "y" else AccessMode.WRITE, ndim=ndim + 2, dtypes=FLOATS),
        Parameter("x", AccessMode.READ, ndim=ndim + 2, like="y"),
        Parameter("w", AccessMode.READ, ndim=ndim + 2, like="y"),
        *([Parameter("b", AccessMode.READ, ndim=1, like="y")] if bias else []),
        *([Parameter("r", AccessMode.READ, ndim=ndim + 2, like="y")] if residual == "r" else []),
    )
