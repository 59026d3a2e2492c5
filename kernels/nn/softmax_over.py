# SPDX-License-Identifier: Apache-2.0
"""`softmax_over`: softmax, or its logarithm, over any axis."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.nn.geometry import Ints, size
from syclsched.kernels.nn.norm import work
from syclsched.kernels.nn.source import FLOATS, sums
from syclsched.kernels.onednn import softmax as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Split, Work


def lines(shape: Ints, axis: int) -> tuple[int, int, int]:
    """Return how many elements an array has before an axis, along it and behind it."""
    axis %= len(shape)
    return size(shape[:axis]), shape[axis], size(shape[axis + 1 :])


def _check(signature: Signature, *, axis: int) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if not -len(x) <= axis < len(x):
        return f"x {x} has no axis {axis}"
    return None if y == x else f"softmax keeps the shape: y {y} against x {x}"


def _work(signature: Signature, *, axis: int) -> Work:
    before, _, behind = lines(signature.shapes["x"], axis)
    # A maximum, a subtraction, an exponential (counted as one), a sum and a division for each element.
    return work(signature, flops=5.0, parallelism=float(before * behind))


def _host(*, y: Any, x: Any, axis: int, log: bool) -> None:
    import numpy as np

    if not x.size:
        return
    source = x.astype(sums(str(y.dtype)), copy=False)
    # Infinite elements make NaNs, as they should, but no warnings.
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = source - source.max(axis=axis, keepdims=True)
        if log:
            y[...] = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
            return
        powers = np.exp(shifted)
        y[...] = powers / powers.sum(axis=axis, keepdims=True)


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _softmax_over(axis: int, log: bool) -> Operation:
    return Operation(
        name=f"{'log_' if log else ''}softmax_over {axis}",
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
        ),
        implementations=(
            onednn.softmax(axis=axis, log=log),
            Implementation("numpy", "host", partial(_load_host, axis=axis, log=log), efficiency=0.1),
        ),
        work=partial(_work, axis=axis),
        check=partial(_check, axis=axis),
        # Cut along axis 0, nothing must be summed over it; a negative axis may be axis 0.
        split=Split(rows=("y", "x")) if axis > 0 else None,
    )


def softmax_over(axis: int = -1, log: bool = False) -> Operation:
    """Return y = exp(x) / sum of exp(x) along an axis, or its logarithm.

    Parameters
    ----------
    axis : int, optional
        Negative ones count from the end. A graph can be cut along axis 0 only if this is a positive number.
    log : bool, optional
        Whether the logarithm is asked for.

    Returns
    -------
    Operation
        With parameters y (written) and x.
    """
    return _softmax_over(int(axis), bool(log))
