# SPDX-License-Identifier: Apache-2.0
"""Names and parameters of convolutions and transposed ones."""

from __future__ import annotations

from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.source import FLOATS
from syclsched.kernels.windows import Convolution
from syclsched.model.access import AccessMode
from syclsched.model.operation import Parameter


def label(kind: str, convolution: Convolution, *, more: str = "", bias: bool, residual: bool = False) -> str:
    """Return an operation's name; ``more`` is what it says of the window besides."""
    window, groups = convolution.window, convolution.groups
    parts = [
        f"{kind}{window.ndim}d",
        window.label(),
        more,
        f"g{groups}" if groups != 1 else "",
        "last" if convolution.channels_last else "",
        "bias" if bias else "",
        "residual" if residual else "",
        act.label(convolution.activation),
    ]
    return " ".join(filter(None, parts))


def parameters(ndim: int, *, bias: bool, residual: bool = False) -> tuple[Parameter, ...]:
    """Return y, x, w, then b and r if they are there, of so many spatial axes."""
    return (
        Parameter("y", AccessMode.WRITE, ndim=ndim + 2, dtypes=FLOATS),
        Parameter("x", AccessMode.READ, ndim=ndim + 2, like="y"),
        Parameter("w", AccessMode.READ, ndim=ndim + 2, like="y"),
        *([Parameter("b", AccessMode.READ, ndim=1, like="y")] if bias else []),
        *([Parameter("r", AccessMode.READ, ndim=ndim + 2, like="y")] if residual else []),
    )
