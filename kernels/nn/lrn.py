# SPDX-License-Identifier: Apache-2.0
"""`lrn`: local response normalisation across channels (Krizhevsky, Sutskever and Hinton, 2012, section 3.3)."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.nn.geometry import last
from syclsched.kernels.nn.norm import number, work
from syclsched.kernels.nn.source import FLOATS, sums
from syclsched.kernels.onednn import normalization as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Split


def _check(signature: Signature) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    return None if y == x else f"lrn keeps the shape: y {y} against x {x}"


def _host(*, y: Any, x: Any, alpha: float, beta: float, bias: float, size: int, last_: bool) -> None:
    import numpy as np

    target = last(y, last_)
    source = last(x, last_).astype(sums(str(y.dtype)), copy=False)
    before, after = (size - 1) // 2, size // 2
    count = source.shape[-1]
    # Differences of running sums would lose digits: add up the neighbours, of which there are few.
    squares = np.pad(np.square(source), [(0, 0)] * (source.ndim - 1) + [(before, after)])
    total = np.zeros_like(source)
    for offset in range(size):
        total += squares[..., offset : offset + count]
    target[...] = source / (bias + alpha / size * total) ** beta


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _lrn(alpha: float, beta: float, bias: float, size: int, channels_last: bool) -> Operation:
    attributes = {"alpha": alpha, "beta": beta, "bias": bias, "size": size, "last_": channels_last}
    names = ["lrn", str(size), number(alpha), number(beta), number(bias), "last" if channels_last else ""]
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
        ),
        implementations=(
            onednn.lrn(alpha=alpha, beta=beta, bias=bias, size=size, channels_last=channels_last),
            Implementation("numpy", "host", partial(_load_host, **attributes), efficiency=0.1),
        ),
        work=partial(work, flops=2.0 * size + 20),
        check=_check,
        split=Split(rows=("y", "x")),
    )


def lrn(
    alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int = 5, channels_last: bool = False
) -> Operation:
    """Return y = x / (bias + alpha / size * sum of squares of ``size`` neighbouring channels) ** beta.

    Parameters
    ----------
    alpha, beta, bias : float, optional
        As in the formula.
    size : int, optional
        Channels that are summed: (size - 1) // 2 before each, and size // 2 behind it.
    channels_last : bool, optional
        Whether x and y are (N, *spatial, C), not (N, C, *spatial).

    Returns
    -------
    Operation
        With parameters y (written) and x.

    Raises
    ------
    ArgumentError
        If the size is below 1.
    """
    if size < 1:
        raise ArgumentError(f"size is at least 1, not {size}", where="size")
    return _lrn(float(alpha), float(beta), float(bias), int(size), bool(channels_last))
