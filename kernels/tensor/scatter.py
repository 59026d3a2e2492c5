# SPDX-License-Identifier: Apache-2.0
"""`scatter_elements`, `scatter_nd`: a copy of an array with some elements replaced, or added to.

Indices may be negative. One beyond its axis changes nothing, on every device; of a *checked* operation it also sets the
status, and the run fails. Where an element is met several times the updates are applied in memory order.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.gather import INDEX_DTYPES, element_places, elements_check
from syclsched.kernels.tensor.making import array_bytes, elements, expect, make, read, written
from syclsched.model.operation import Operation, Parameter, Signature, Work

#: What becomes of an element and an update.
REDUCTIONS = ("none", "add", "mul", "max", "min")


@cache
def scatter_elements(axis: int, reduction: str = "none", checked: bool = False) -> Operation:
    """Return the operation that writes ``x`` to ``y`` with elements changed along an axis.

    Parameters
    ----------
    axis : int
        Counted from the front.
    reduction : str, optional
        One of `REDUCTIONS`: what an update does to the element.
    checked : bool, optional
        Whether there is a parameter ``status`` (int32, one element), that says if an index is out of range.

    Returns
    -------
    Operation
        Parameters ``y``, ``x``, ``indices`` (int32 or int64), ``updates`` (of the indices' shape).

    Raises
    ------
    ArgumentError
        If there is no such reduction.
    """
    _known(reduction)
    return make(
        f"scatter_elements axis {axis} {reduction}",
        _parameters(),
        partial(_elements_host, axis=axis, reduction=reduction),
        partial(_elements_check, axis=axis, reduction=reduction),
        work=_work,
        checked=checked,
    )


@cache
def scatter_nd(reduction: str = "none", checked: bool = False) -> Operation:
    """Return the operation that writes ``x`` to ``y`` with slices changed.

    Parameters
    ----------
    reduction, checked
        See `scatter_elements`.

    Returns
    -------
    Operation
        Parameters ``y``, ``x``, ``indices`` (its last axis holds the index into the first axes of ``x``), ``updates``.

    Raises
    ------
    ArgumentError
        If there is no such reduction.
    """
    _known(reduction)
    return make(
        f"scatter_nd {reduction}",
        _parameters(),
        partial(_nd_host, reduction=reduction),
        partial(_nd_check, reduction=reduction),
        work=_work,
        checked=checked,
    )


def _known(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ArgumentError(f"there is no reduction {reduction!r}", where="scatter", hint=f"{', '.join(REDUCTIONS)}")


def _parameters() -> tuple[Parameter, ...]:
    return (written(), read(like="y"), read("indices", dtypes=INDEX_DTYPES), read("updates", like="y"))


def _no_bool(signature: Signature, reduction: str) -> str | None:
    if reduction != "none" and signature.dtypes["x"] == "bool":
        return f"there is no {reduction} of bool"
    return None


def _elements_check(signature: Signature, *, axis: int, reduction: str) -> str | None:
    wrong = _no_bool(signature, reduction) or elements_check(signature, axis=axis, like="updates")
    return wrong or expect(signature, signature.shapes["x"], "a scatter")


def _nd_check(signature: Signature, *, reduction: str) -> str | None:
    x, indices = signature.shapes["x"], signature.shapes["indices"]
    if not indices or not 1 <= indices[-1] <= len(x):
        return f"the last axis of {indices} holds no index into the axes of {x}"
    shape = (*indices[:-1], *x[indices[-1] :])
    if signature.shapes["updates"] != shape:
        return f"updates have shape {shape}, not {signature.shapes['updates']}"
    return _no_bool(signature, reduction) or expect(signature, x, "a scatter")


def _work(signature: Signature) -> Work:
    moved = 2 * array_bytes(signature, "x") + 2 * array_bytes(signature, "updates") + array_bytes(signature, "indices")
    return Work(float(elements(signature, "updates")), float(moved), signature.dtypes["y"], float(elements(signature)))


# --- the host -----------------------------------------------------------------------------------------


def _inside(indices: Any, extents: Any, status: Any) -> tuple[Any, Any]:
    """Return indices counted from 0, and which of them there are."""
    import numpy as np

    at = indices.astype("int64", copy=False)
    good = (at >= -extents) & (at < extents)
    if status is not None:
        status[...] = 0 if good.all() else int(np.argmin(good)) + 1
    return np.where(at < 0, at + extents, at), good


def _apply(y: Any, places: tuple[Any, ...], updates: Any, reduction: str) -> None:
    import numpy as np

    if reduction == "none":
        y[places] = updates
    elif y.dtype == np.float16:  # summed in single precision, as by the devices
        wide = y.astype(np.float32)
        _apply(wide, places, updates.astype(np.float32), reduction)
        y[...] = wide.astype(np.float16)
    else:
        do = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
        with np.errstate(all="ignore"):
            do.at(y, places, updates)


def _elements_host(
    *, axis: int, reduction: str, y: Any, x: Any, indices: Any, updates: Any, status: Any = None
) -> None:
    import numpy as np

    at, good = _inside(indices, x.shape[axis], status)
    y[...] = x
    if indices.size:
        places = tuple(np.broadcast_to(p, at.shape)[good] for p in element_places(at, axis))
        _apply(y, places, updates[good], reduction)


def _nd_host(*, reduction: str, y: Any, x: Any, indices: Any, updates: Any, status: Any = None) -> None:
    import numpy as np

    depth = indices.shape[-1]
    at, good = _inside(indices, np.array(x.shape[:depth], dtype="int64"), status)
    y[...] = x
    rows, kept = at.reshape(-1, depth), good.reshape(-1, depth).all(axis=1)
    if updates.size:
        given = updates.reshape(math.prod(indices.shape[:-1]), *x.shape[depth:])
        _apply(y, tuple(rows[kept, d] for d in range(depth)), given[kept], reduction)
