# SPDX-License-Identifier: Apache-2.0
"""`arg`: argmax and argmin along an axis."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.operation_factory import (
    array_bytes,
    axis_error,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
    shape_error,
)
from syclsched.kernels.tensor.reductions import reduce_groups
from syclsched.kernels.tensor.reductions.reduce import reduced_shape
from syclsched.kernels.tensor.reductions.reduction_kernels import (
    ReductionAxes,
    extremum_start,
    is_better,
    split_axes,
    write_extremum,
)
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import iteration_launch, write_iteration
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.row_column_blocks import (
    block_launch,
    block_vectors,
    rows_launch,
    write_blocks,
    write_rows,
)
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split, Work


@cache
def arg(mode: str, axis: int, keepdims: bool = False, last: bool = False) -> Operation:
    """Return the operation that writes the index of the largest or smallest element along an axis to ``y``."""
    if mode not in ("max", "min"):
        raise ArgumentError(f"there is no mode {mode!r}", where="arg", hint="max or min")
    parameters = (output_parameter(dtypes=("int64",)), input_parameter())
    return make_operation(
        f"arg{mode} axis {axis}{' keepdims' if keepdims else ''}{' last' if last else ''}",
        parameters,
        partial(_host, mode=mode, axis=axis, last=last),
        partial(_check, axis=axis, keepdims=keepdims),
        work=_work,
        split=Split(("y", "x")) if axis else None,
        kernels=(
            reduce_groups.arg(mode, axis, last),
            *generated_implementations(
                parameters,
                partial(_write, mode=mode, axis=axis, last=last),
                partial(_launch, axis=axis),
                revision="4",
                takes_extents=partial(_takes_extents, axis=axis),
            ),
        ),
    )


def _check(signature: Signature, *, axis: int, keepdims: bool) -> str | None:
    x = signature.shapes["x"]
    wrong = axis_error(axis, len(x))
    if wrong is None and x[axis] == 0:
        return f"axis {axis} of {x} has no elements"
    return wrong or shape_error(signature, reduced_shape(x, (axis,), keepdims), f"axis {axis} of {x}")


def _work(signature: Signature) -> Work:
    moved = array_bytes(signature, "x") + array_bytes(signature, "y")
    return Work(float(elements(signature, "x")), float(moved), signature.dtypes["x"], float(elements(signature, "x")))


def _host(*, mode: str, axis: int, last: bool, y: Any, x: Any) -> None:
    import numpy as np

    if not y.size:
        return
    find = np.argmax if mode == "max" else np.argmin
    found = find(np.flip(x, axis), axis=axis) if last else find(x, axis=axis)
    y[...] = (x.shape[axis] - 1 - found if last else found).reshape(y.shape)


def _write(w: KernelWriter, *, mode: str, axis: int, last: bool) -> None:
    plan = split_axes(w.signature.shapes["x"], (axis,))
    extent, stride = plan.reduced[0]
    t = compute_dtype(w.signature.dtypes["x"])
    if _by_rows(w.signature, plan):
        write_rows(w, plan.kept.elements, partial(_write_row, w, t, extent, mode, last))
        return
    count, apart = plan.kept.number(w, "count", extent), plan.kept.number(w, "apart", stride)
    vectors = _block_vectors(w.signature, plan)
    if vectors:
        write_blocks(w, plan.kept, vectors, partial(_write_block, w, t, (count, apart), vectors, mode, last))
        return

    def body(at: str, others: list[str]) -> None:
        best = w.variable(t, w.load("x", others[0]))
        place = w.variable(None, "0")
        with w.loop("1", count) as k:
            x = w.value(t, w.load("x", f"{others[0]} + {k} * {apart}"))
            with w.if_block(_better(w, t, mode, last, x, best)):
                w.assign(best, t, x)
                w.assign(place, None, k)
        w.store("y", at, place)

    write_iteration(w, plan.kept, body)


def _takes_extents(signature: Signature, *, axis: int) -> bool:
    plan = split_axes(signature.shapes["x"], (axis,))
    return plan.kept.shares_code and not _by_rows(signature, plan)


def _better(w: KernelWriter, t: str, mode: str, last: bool, x: str, best: str) -> str:
    if not last:
        return is_better(w, t, mode, x, best)
    as_good = f"({x} {'>' if mode == 'max' else '<'}= {best})"
    # NaN is better than any number; of several NaNs the last one counts.
    return w.any_of(as_good, f"({x} != {x})") if t.startswith("float") else as_good


#: Dtypes compared in vectors, and the index dtype of the same width for positions in a row.
_PLACES = {
    "float32": "int32",
    "int32": "int32",
    "uint32": "int32",
    "float64": "int64",
    "int64": "int64",
    "uint64": "int64",
}


#: Vectors of a row combined into one before the comparison with the best so far.
_GROUP_VECTORS = 8


def _in_vectors(signature: Signature, plan: ReductionAxes) -> bool:
    return signature.dtypes["x"] in _PLACES and LANES <= plan.reduced[0][0] < 1 << 31


def _by_rows(signature: Signature, plan: ReductionAxes) -> bool:
    return plan.is_contiguous and _in_vectors(signature, plan)


def _block_vectors(signature: Signature, plan: ReductionAxes) -> int:
    if plan.is_contiguous or not _in_vectors(signature, plan):
        return 0
    return block_vectors(plan.kept, signature.dtypes["x"])


def _write_row(w: KernelWriter, t: str, extent: int, mode: str, last: bool, row: str) -> None:
    """Emit the search of a row: first the vectors with the best element, then its position in them."""
    # Several vectors are combined, then each lane is compared with the lane's best so far: most of the work is one
    # instruction per vector.
    i = _PLACES[t]
    vectors = _GROUP_VECTORS if extent >= 2 * _GROUP_VECTORS * LANES else 1
    base, step, end = w.index(f"{row} * {extent}"), vectors * LANES, extent // LANES * LANES
    # Also correct if all elements of the row equal the start value.
    best, begins = w.vector_group(t, w.constant(extremum_start(mode, t), t)), w.vector_group(i, w.constant(0, i))

    def compare(k: str, together: int, pick: Any, _: str) -> None:
        xs = [w.value(t, w.load_vector("x", f"{base} + {k} + {number * LANES}")) for number in range(together)]
        x = write_extremum(w, t, mode, xs)
        found = _better(w, t, mode, last, x, pick(best))
        w.assign(pick(begins), i, w.select(found, w.value(i, w.cast(i, k, "int64")), pick(begins)))
        w.assign(pick(best), t, w.select(found, x, pick(best)))

    at = 0
    for together in (vectors, 1):
        stop = end // (together * LANES) * (together * LANES)
        if at < stop:
            with w.loop(str(at), str(stop), str(together * LANES)) as k:
                w.each_vector(1, partial(compare, k, together))
        at = stop

    value = _best_lane(w, t, mode, best)
    # Ties between lanes are decided by position. If there is a NaN, the best value is NaN.
    symbol, nowhere = (">", -1) if last else ("<", extent)

    def nearest(found: str) -> str:
        (one,) = w.reduce_lanes([(found, i)], 1, lambda a, b: [w.select(f"({a[0]} {symbol} {b[0]})", *a, *b)])
        return one

    def as_good(x: str) -> str:
        same = f"({x} == {value})"
        return w.any_of(same, f"({x} != {x})") if t.startswith("float") else same

    def only_best(pick: Any, _: str) -> None:
        w.assign(pick(begins), i, w.select(as_good(pick(best)), pick(begins), w.constant(nowhere, i)))

    w.each_vector(1, only_best)
    begin = nearest(begins)
    # The last group of vectors may be shorter: shift it to be full. The vectors before it hold no better match.
    begin = w.value(i, w.select(f"({begin} < {end - step})", begin, w.constant(end - step, i)))

    def find_position(pick: Any, _: str) -> None:
        lanes = w.places(i)
        for number in range(vectors) if last else reversed(range(vectors)):
            x = w.value(t, w.load_vector("x", f"{base} + {begin} + {number * LANES}"))
            here = w.value(i, f"{lanes} + ({begin} + {w.constant(number * LANES, i)})")
            w.assign(pick(places), i, w.select(as_good(x), here, pick(places)))

    places = w.vector_group(i, w.constant(nowhere, i))
    w.each_vector(1, find_position)
    place = nearest(places)
    if end < extent:
        value, place = w.variable(t, value), w.variable(i, place)
        with w.loop(str(end), str(extent)) as k:
            x = w.value(t, w.load("x", f"{base} + {k}"))
            with w.if_block(_better(w, t, mode, last, x, value)):
                w.assign(value, t, x)
                w.assign(place, i, w.cast(i, k, "int64"))
    w.store("y", row, place)


def _best_lane(w: KernelWriter, t: str, mode: str, best: str) -> str:
    """Emit the best number of a vector, NaN if one is, by two reductions of one instruction each."""
    symbol = ">" if mode == "max" else "<"
    pairs = lambda a, b: [w.select(f"({a[0]} {symbol} {b[0]})", *a, *b)]  # noqa: E731
    if not t.startswith("float"):
        (value,) = w.reduce_lanes([(best, t)], 1, pairs)
        return value
    nans = w.vector_group(t, w.constant(0.0, t))
    w.each_vector(
        1,
        lambda pick, _: w.assign(pick(nans), t, w.select(f"({pick(best)} == {pick(best)})", pick(nans), pick(best))),
    )
    (value,) = w.reduce_lanes([(best, t)], 1, pairs)
    (nan,) = w.reduce_lanes([(nans, t)], 1, lambda a, b: [f"({a[0]} + {b[0]})"])
    return w.value(t, w.select(f"({nan} == {nan})", value, nan))


def _write_block(
    w: KernelWriter, t: str, along: tuple[str, str], vectors: int, mode: str, last: bool, at: str, first: str
) -> None:
    extent, stride = along
    index_dtype = _PLACES[t]
    best = w.vector_group(t, w.constant(0, t), vectors)
    places = w.vector_group(index_dtype, w.constant(0, index_dtype), vectors)
    w.each_vector(vectors, lambda pick, lane: w.assign(pick(best), t, w.load_vector("x", f"{first} + {lane}")))
    with w.loop("1", extent) as k:

        def compare(pick: Any, lane: str) -> None:
            x = w.value(t, w.load_vector("x", f"{first} + {k} * {stride} + {lane}"))
            here = w.value(index_dtype, w.cast(index_dtype, k, "int64"))
            found = _better(w, t, mode, last, x, pick(best))
            w.assign(pick(places), index_dtype, w.select(found, here, pick(places)))
            w.assign(pick(best), t, w.select(found, x, pick(best)))

        w.each_vector(vectors, compare)
    w.each_vector(vectors, lambda pick, lane: w.store_vector("y", f"{at} + {lane}", pick(places), index_dtype))


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    plan = split_axes(signature.shapes["x"], (axis,))
    if _by_rows(signature, plan):
        return rows_launch(plan.kept.elements, plan.reduced[0][0], limits)
    vectors = _block_vectors(signature, plan)
    return block_launch(plan.kept, vectors, limits) if vectors else iteration_launch(plan.kept, limits)
