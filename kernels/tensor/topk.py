# SPDX-License-Identifier: Apache-2.0
"""`topk`: the largest or smallest elements along an axis, and where they are."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.tensor.making import array_bytes, axis_error, elements, make, read, written
from syclsched.model.operation import Operation, Signature, Work


@cache
def topk(k: int, axis: int, largest: bool = True, sorted: bool = True) -> Operation:
    """Return the operation that writes the ``k`` largest or smallest elements of ``x`` along an axis.

    Parameters
    ----------
    k : int
        How many; at most the axis' extent.
    axis : int
        Counted from the front.
    largest : bool, optional
        Whether the largest are wanted.
    sorted : bool, optional
        Whether they have to come in order. They do anyhow: it is part of the name only.

    Returns
    -------
    Operation
        Parameters ``values``, ``indices`` (int64), ``x``. Of equal elements the first comes first; NaN is the largest.
    """
    return make(
        f"topk {k} axis {axis} {'largest' if largest else 'smallest'}{'' if sorted else ' unsorted'}",
        (written("values"), written("indices", dtypes=("int64",)), read(like="values")),
        partial(_host, k=k, axis=axis, largest=largest),
        partial(_check, k=k, axis=axis),
        work=_work,
    )


def _check(signature: Signature, *, k: int, axis: int) -> str | None:
    x = signature.shapes["x"]
    wrong = axis_error(axis, len(x))
    if wrong is not None:
        return wrong
    if not 0 <= k <= x[axis]:
        return f"there are {x[axis]} elements along axis {axis} of {x}, not {k}"
    shape = (*x[:axis], k, *x[axis + 1 :])
    for name in ("values", "indices"):
        if signature.shapes[name] != shape:
            return f"{name} have shape {shape}, not {signature.shapes[name]}"
    return None


def _work(signature: Signature) -> Work:
    count = elements(signature, "x")
    moved = sum(array_bytes(signature, name) for name in ("x", "values", "indices"))
    # A sort compares an element about as often as the axis' extent has digits; 10 stands for that.
    return Work(10.0 * count, float(moved), signature.dtypes["x"], float(count))


def _host(*, k: int, axis: int, largest: bool, values: Any, indices: Any, x: Any) -> None:
    import numpy as np

    if largest:
        # Sorted backwards, a stable sort leaves the last of equals first; turned round twice it is the first.
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    indices[...] = np.take(order, np.arange(k), axis=axis)
    values[...] = np.take_along_axis(x, indices, axis=axis)
