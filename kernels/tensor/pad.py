# SPDX-License-Identifier: Apache-2.0
"""`pad`: an array with a margin: of one value, or of its own elements."""

from __future__ import annotations

from functools import partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.making import expect, make, moving_work, read, written
from syclsched.model.operation import Operation, Signature

#: What the margin is filled with.
MODES = ("constant", "reflect", "edge", "wrap")

_MADE: dict[tuple[tuple[int, ...], str, str], Operation] = {}


def pad(pads: tuple[int, ...], mode: str = "constant", value: float = 0) -> Operation:
    """Return the operation that writes ``x`` with a margin to ``y``.

    Parameters
    ----------
    pads : tuple of int
        Not negative: how many elements before the first of every axis, then how many after the last of every axis.
    mode : str, optional
        "constant": ``value``; "edge": the nearest element; "reflect": as in a mirror at the edge element; "wrap": from
        the other end. The last two go on for as long as it takes: a margin may be wider than the array, which with
        "wrap" makes tiles.
    value : float, optional
        In the dtype of ``y``.

    Returns
    -------
    Operation
        One and the same for equal arguments.

    Raises
    ------
    ArgumentError
        If there is no such mode, or a margin is negative.
    """
    if mode not in MODES:
        raise ArgumentError(f"there is no mode {mode!r}", where="pad", hint=f"There are: {', '.join(MODES)}")
    if len(pads) % 2 or any(n < 0 for n in pads):
        raise ArgumentError(f"margins are two for each axis and not negative, not {pads}", where="pad")
    key = (pads, mode, repr(value) if mode == "constant" else "")
    if key not in _MADE:
        _MADE[key] = make(
            f"pad {','.join(map(str, pads))} {mode}{f' {value}' if mode == 'constant' else ''}",
            (written(), read(like="y")),
            partial(_host, pads=pads, mode=mode, value=value),
            partial(_check, pads=pads, mode=mode),
            work=moving_work,
        )
    return _MADE[key]


def _check(signature: Signature, *, pads: tuple[int, ...], mode: str) -> str | None:
    x = signature.shapes["x"]
    if len(pads) != 2 * len(x):
        return f"{len(pads)} margins for {len(x)} axes"
    before, after = pads[: len(x)], pads[len(x) :]
    if mode != "constant" and any(n == 0 and b + a for n, b, a in zip(x, before, after, strict=True)):
        return f"{x} has no elements to fill a margin with"
    return expect(signature, tuple(b + n + a for b, n, a in zip(before, x, after, strict=True)), f"{x} with {pads}")


def _places(extent: int, before: int, after: int, mode: str) -> Any:
    """Return which element of an axis stands at each place of the padded axis."""
    import numpy as np

    at = np.arange(-before, extent + after)
    if mode == "edge":
        return np.clip(at, 0, extent - 1)
    if mode == "wrap":
        return at % extent
    period = max(2 * (extent - 1), 1)
    at = at % period
    return np.where(at < extent, at, period - at)


def _host(*, pads: tuple[int, ...], mode: str, value: float, y: Any, x: Any) -> None:
    import numpy as np

    if not y.size:
        return
    before, after = pads[: x.ndim], pads[x.ndim :]
    if mode == "constant":
        y[...] = value
        y[tuple(slice(b, b + n) for b, n in zip(before, x.shape, strict=True))] = x
    elif x.ndim == 0:
        y[...] = x
    else:
        y[...] = x[np.ix_(*(_places(n, b, a, mode) for n, b, a in zip(x.shape, before, after, strict=True)))]
