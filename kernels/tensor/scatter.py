# SPDX-License-Identifier: Apache-2.0
"""`scatter_elements`, `scatter_nd`: a copy of an array with elements replaced or combined with updates.

Negative indices count from the end. Updates with out-of-range indices are ignored, on every device; in a *checked*
operation they also set the status, and the run fails. Updates of the same element are applied in memory order.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import GROUPS_PER_UNIT, VECTOR_ITEMS, ceil_div, line_launch, with_recipe
from syclsched.kernels.tensor.gather import INDEX_DTYPES, element_index, elements_check
from syclsched.kernels.tensor.operation_factory import (
    STATUS,
    array_bytes,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
    shape_error,
)
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.index_arrays import load_index, write_index_check
from syclsched.kernels.tensor.writing.iteration_space import contiguous_strides
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Work

#: Combinations of an element with an update.
REDUCTIONS = ("none", "add", "mul", "max", "min")


@with_recipe
@cache
def scatter_elements(axis: int, reduction: str = "none", checked: bool = False) -> Operation:
    """Return the operation that copies ``x`` to ``y`` and updates elements by index along an axis."""
    _check_reduction(reduction)
    return make_operation(
        f"scatter_elements axis {axis} {reduction}",
        _parameters(),
        partial(_elements_host, axis=axis, reduction=reduction),
        partial(_elements_check, axis=axis, reduction=reduction),
        work=_work,
        kernels=generated_implementations(
            _with_status(checked),
            partial(_write_elements, axis=axis, reduction=reduction),
            partial(_launch_elements, axis=axis),
        ),
        checked=checked,
    )


@with_recipe
@cache
def scatter_nd(reduction: str = "none", checked: bool = False) -> Operation:
    """Return the operation that copies ``x`` to ``y`` and updates slices by index tuples."""
    _check_reduction(reduction)
    return make_operation(
        f"scatter_nd {reduction}",
        _parameters(),
        partial(_nd_host, reduction=reduction),
        partial(_nd_check, reduction=reduction),
        work=_work,
        kernels=generated_implementations(_with_status(checked), partial(_write_nd, reduction=reduction), _launch_nd),
        checked=checked,
    )


def _check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ArgumentError(f"there is no reduction {reduction!r}", where="scatter", hint=f"{', '.join(REDUCTIONS)}")


def _parameters() -> tuple[Parameter, ...]:
    return (
        output_parameter(),
        input_parameter(like="y"),
        input_parameter("indices", dtypes=INDEX_DTYPES),
        input_parameter("updates", like="y"),
    )


def _with_status(checked: bool) -> tuple[Parameter, ...]:
    return (*_parameters(), STATUS) if checked else _parameters()


def _bool_error(signature: Signature, reduction: str) -> str | None:
    if reduction != "none" and signature.dtypes["x"] == "bool":
        return f"there is no {reduction} of bool"
    return None


def _elements_check(signature: Signature, *, axis: int, reduction: str) -> str | None:
    wrong = _bool_error(signature, reduction) or elements_check(signature, axis=axis, like="updates")
    return wrong or shape_error(signature, signature.shapes["x"], "a scatter")


def _nd_check(signature: Signature, *, reduction: str) -> str | None:
    x, indices = signature.shapes["x"], signature.shapes["indices"]
    if not indices or not 1 <= indices[-1] <= len(x):
        return f"the last axis of {indices} holds no index into the axes of {x}"
    shape = (*indices[:-1], *x[indices[-1] :])
    if signature.shapes["updates"] != shape:
        return f"updates have shape {shape}, not {signature.shapes['updates']}"
    return _bool_error(signature, reduction) or shape_error(signature, x, "a scatter")


def _work(signature: Signature) -> Work:
    moved = 2 * array_bytes(signature, "x") + 2 * array_bytes(signature, "updates") + array_bytes(signature, "indices")
    return Work(
        float(elements(signature, "updates")), float(moved), signature.dtypes["y"], float(max(elements(signature), 1))
    )


# --- the host -----------------------------------------------------------------------------------------


def _inside(indices: Any, extents: Any, status: Any) -> tuple[Any, Any]:
    """Return indices counted from 0, and a mask of those in range."""
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
        single = y.astype(np.float32)
        _apply(single, places, updates.astype(np.float32), reduction)
        y[...] = single.astype(np.float16)
    else:
        ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
        with np.errstate(all="ignore"):
            ufunc.at(y, places, updates)


def _elements_host(
    *, axis: int, reduction: str, y: Any, x: Any, indices: Any, updates: Any, status: Any = None
) -> None:
    import numpy as np

    at, good = _inside(indices, x.shape[axis], status)
    y[...] = x
    if indices.size:
        places = tuple(np.broadcast_to(p, at.shape)[good] for p in element_index(at, axis))
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


# --- devices ------------------------------------------------------------------------------------------


def _write_update(w: KernelWriter, place: str, update: str, reduction: str) -> None:
    """Emit the update of an element of the result."""
    t = compute_dtype(w.signature.dtypes["y"])
    given = w.value(t, w.load("updates", update))
    if reduction != "none":
        old = w.value(t, w.load("y", place))
        symbol = {"add": "+", "mul": "*", "max": ">=", "min": "<="}[reduction]
        if reduction in ("add", "mul"):
            given = w.value(t, f"{old} {symbol} {given}")
        else:
            better = f"({old} {symbol} {given})"
            kept = w.any_of(better, f"({old} != {old})") if t.startswith("float") else better
            given = w.value(t, w.select(kept, old, given))
    w.store("y", place, given)


def _write_elements(w: KernelWriter, *, axis: int, reduction: str) -> None:
    x, indices = w.signature.shapes["x"], w.signature.shapes["indices"]
    strides, inner = contiguous_strides(x), contiguous_strides(indices)
    others = [d for d in range(len(x)) if d != axis]
    count = math.prod(x[d] for d in others)

    if "status" in w.signature.shapes:
        write_index_check(w, str(elements(w.signature, "indices")), [x[axis]], w.first())
    # Each work-item owns a line along the axis, so that no two update the same element.
    number = w.index(w.item)
    with w.if_block(f"{number} < {count}"):
        terms, given, inside = ["0"], ["0"], []
        for d in reversed(others):
            rest = w.index(w.div(number, str(max(x[d], 1))))
            place = w.index(f"{number} - {rest} * {x[d]}")
            terms.append(f"{place} * {strides[d]}")
            given.append(f"{place} * {inner[d]}")
            if indices[d] < x[d]:
                inside.append(f"({place} < {indices[d]})")
            number = rest
        base, first = w.index(" + ".join(terms)), w.index(" + ".join(given))
        with w.loop("0", str(x[axis])) as k:
            place = w.index(f"{base} + {k} * {strides[axis]}")
            w.store("y", place, w.load("x", place))
        if elements(w.signature, "indices"):
            with w.if_block(w.all_of(*inside)), w.loop("0", str(indices[axis])) as k:
                update = w.index(f"{first} + {k} * {inner[axis]}")
                at, good = load_index(w, "indices", update, x[axis])
                with w.if_block(good):
                    _write_update(w, f"{base} + {at} * {strides[axis]}", update, reduction)


def _launch_elements(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    x = signature.shapes["x"]
    lines = math.prod(n for d, n in enumerate(x) if d != axis)
    return line_launch(limits, max(lines, int("status" in signature.shapes)))


def _write_nd(w: KernelWriter, *, reduction: str) -> None:
    x, indices = w.signature.shapes["x"], w.signature.shapes["indices"]
    depth = indices[-1]
    rows, places, piece = math.prod(indices[:-1]), math.prod(x[:depth]), math.prod(x[depth:])
    if "status" in w.signature.shapes:
        write_index_check(w, str(elements(w.signature, "indices") // depth), x[:depth], w.first())
    if not places * piece:
        return
    # Each work-item owns one element position in all slices of a part of the indexed space.
    parts = w.index(w.div(f"{w.groups} * {w.width}", str(piece)))
    part, column = w.index(w.div(w.item, str(piece))), w.index(f"{w.item} % {piece}")
    each = w.index(w.div(f"({places} + {parts} - 1)", parts))
    first = w.index(f"{part} * {each}")
    last = w.index(w.select(f"({first} + {each} < {places})", f"{first} + {each}", str(places)))
    with w.loop(first, last) as row:  # empty for work-items beyond the last part
        place = w.index(f"{row} * {piece} + {column}")
        w.store("y", place, w.load("x", place))
    strides = contiguous_strides(x[:depth])
    with w.loop("0", str(rows)) as row:
        terms, good = [], []
        for d in range(depth):
            at, inside = load_index(w, "indices", f"{row} * {depth} + {d}", x[d])
            terms.append(f"{at} * {strides[d]}")
            good.append(inside)
        place = w.index(" + ".join(terms))
        with w.if_block(w.all_of(*good, f"({place} >= {first})", f"({place} < {last})")):
            _write_update(w, f"{place} * {piece} + {column}", f"{row} * {piece} + {column}", reduction)


def _launch_nd(signature: Signature, limits: DeviceLimits) -> Launch:
    x, depth = signature.shapes["x"], signature.shapes["indices"][-1]
    places, piece = math.prod(x[:depth]), math.prod(x[depth:])
    if not places * piece:
        return line_launch(limits, int("status" in signature.shapes))
    wanted = GROUPS_PER_UNIT * limits.compute_units * VECTOR_ITEMS
    # Whole slices: the kernel divides the number of work-items by the elements of a slice.
    return line_launch(limits, piece * min(places, ceil_div(wanted, piece)))
