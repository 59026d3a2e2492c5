# SPDX-License-Identifier: Apache-2.0
"""`scan_sum`: prefix sums along an axis."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.tensor.making import array_bytes, axis_error, elements, expect, make, read, written
from syclsched.model.operation import Operation, Signature, Work


@cache
def scan_sum(axis: int, exclusive: bool = False, reverse: bool = False) -> Operation:
    """Return the operation that writes the sums of all elements of ``x`` up to each, along an axis, to ``y``.

    Parameters
    ----------
    axis : int
        Counted from the front.
    exclusive : bool, optional
        Whether an element does not count for its own sum.
    reverse : bool, optional
        Whether they are summed from the end.

    Returns
    -------
    Operation
        Sums of whole numbers wrap; half precision is summed in single.
    """
    return make(
        f"scan_sum axis {axis}{' exclusive' if exclusive else ''}{' reverse' if reverse else ''}",
        (written(), read(like="y")),
        partial(_host, axis=axis, exclusive=exclusive, reverse=reverse),
        partial(_check, axis=axis),
        work=_work,
    )


def _check(signature: Signature, *, axis: int) -> str | None:
    x = signature.shapes["x"]
    if signature.dtypes["x"] == "bool":
        return "there is no sum of bool"
    return axis_error(axis, len(x)) or expect(signature, x, "a scan")


def _work(signature: Signature) -> Work:
    count = elements(signature)
    return Work(float(count), 2.0 * array_bytes(signature, "x"), signature.dtypes["x"], float(count))


def _host(*, axis: int, exclusive: bool, reverse: bool, y: Any, x: Any) -> None:
    import numpy as np

    if not y.size:
        return
    given = np.flip(x, axis) if reverse else x
    dtype = np.float32 if x.dtype == np.float16 else x.dtype
    sums = np.cumsum(given, axis=axis, dtype=dtype)
    if exclusive:
        sums = np.roll(sums, 1, axis=axis)
        sums[(slice(None),) * axis + (0,)] = 0
    y[...] = (np.flip(sums, axis) if reverse else sums).astype(y.dtype, copy=False)
