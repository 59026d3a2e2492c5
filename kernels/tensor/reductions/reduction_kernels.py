# SPDX-License-Identifier: Apache-2.0
"""Reduction kernels: by rows if the reduced elements are contiguous, else by columns.

If the elements of one result are contiguous, a work-item reduces rows with vectors of partial results. Otherwise a
work-item computes a block of neighbouring results, or, if those are few, neighbouring work-items compute one each and
iterate over the reduced axes in step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, ceil_div
from syclsched.kernels.tensor.reductions.log_sum_exp import (
    MAX_COLUMN_VECTORS,
    ROW_GROUP,
    ROWS_PER_STEP,
    takes_one_pass,
    write_columns,
    write_row_group,
    write_two_passes,
)
from syclsched.kernels.tensor.writing.iteration_space import (
    IterationSpace,
    iteration_launch,
    iteration_space,
    write_iteration,
)
from syclsched.kernels.tensor.writing.kernel_writer import (
    LANES,
    ROW_VECTORS,
    KernelWriter,
    compute_dtype,
)
from syclsched.kernels.tensor.writing.row_column_blocks import (
    block_launch,
    block_vectors,
    even_vectors,
    rows_launch,
    write_blocks,
    write_rows,
)
from syclsched.model.operation import DeviceLimits, Launch, Shape, Signature

#: Extent and stride of each axis, and their texts in a kernel.
Axes = tuple[tuple[int, int], ...]
_AxisTexts = tuple[tuple[str, str], ...]
#: Rows combined in a maximum or minimum of columns: one comparison finds the NaNs of both.
_ROWS = 2
#: An operand that a core's first cache holds may be read in pieces of one vector. A launch of one work-item per result
#: takes as long, but not if it is part of a chain of launches, where one work-item after another is computed.
_CACHED_BYTES = 1 << 15


@dataclass(frozen=True, slots=True)
class ReductionAxes:
    """Kept and reduced axes of an array, merged to as few as possible."""

    kept: IterationSpace  # of the result; the operand is the first reduced element
    reduced: Axes  # extent and stride of each reduced axis

    @property
    def is_contiguous(self) -> bool:
        """True if the elements of one result are contiguous."""
        return len(self.reduced) == 1 and self.reduced[0][1] == 1

    def texts(self, w: KernelWriter) -> _AxisTexts:
        """Return the extents and strides of the reduced axes in a kernel: arguments if those of the result are.

        A loop of unknown length takes as long, however many elements it adds.
        """
        return tuple(
            (self.kept.number(w, f"count{axis}", extent), self.kept.number(w, f"apart{axis}", stride))
            for axis, (extent, stride) in enumerate(self.reduced)
        )


def split_axes(shape: Shape, axes: tuple[int, ...]) -> ReductionAxes:
    """Return the kept and reduced axes of a reduction."""
    reduced: list[tuple[int, int]] = []
    kept: list[tuple[int, int]] = []
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        extent = shape[axis]
        if axis not in axes:
            kept.insert(0, (extent, stride))
        elif extent != 1:
            # Merge neighbouring reduced axes.
            if reduced and reduced[0][0] * reduced[0][1] == stride:
                reduced[0] = (reduced[0][0] * extent, reduced[0][1])
            else:
                reduced.insert(0, (extent, stride))
        stride *= extent
    space = iteration_space(tuple(extent for extent, _ in kept), [tuple(step for _, step in kept)])
    return ReductionAxes(space, tuple(reduced) or ((1, 1),))


def write_reduction(w: KernelWriter, *, mode: str, axes: tuple[int, ...]) -> None:
    """Emit the kernel of a reduction of ``x`` to ``y``."""
    plan = split_axes(w.signature.shapes["x"], axes)
    t = _working(w.signature.dtypes["x"])
    count = math.prod(extent for extent, _ in plan.reduced)
    vectors = _block_vectors(plan, mode, w.signature.dtypes["x"])
    if plan.is_contiguous:

        def row(number: str) -> None:
            base = w.index(f"{number} * {count}")
            w.store("y", number, _reduced(w, mode, t, count, _RowReduction(w, t, base, count)))

        together = _rows_together(plan, mode, t)
        if not together:
            write_rows(w, plan.kept.number(w, "rows", plan.kept.elements), row)
            return

        def recompute(number: str) -> str:
            return _RowReduction(w, t, w.index(f"{number} * {count}"), count).logarithm()

        def row_group(group: str) -> None:
            # The last group is shifted to be full: it overlaps the one before and repeats its results.
            first, most = w.index(f"{group} * {together}"), plan.kept.elements - together
            first = w.index(w.select(f"({first} < {most})", first, str(most)))
            write_row_group(w, first, together, count, recompute)

        write_rows(w, ceil_div(plan.kept.elements, together), row_group)
        return
    reduced, number = plan.texts(w), plan.kept.number(w, "count", count) if mode == "mean" else str(count)
    if vectors:
        write_blocks(w, plan.kept, vectors, partial(_write_block, w, mode, t, number, reduced, vectors))
    else:

        def columns(at: str, others: list[str]) -> None:
            w.store("y", at, _reduced(w, mode, t, number, _ColumnReduction(w, t, others[0], reduced)))

        write_iteration(w, plan.kept, columns)


def reduction_takes_extents(signature: Signature, *, mode: str, axes: tuple[int, ...]) -> bool:
    """Return whether `write_reduction` takes extents as arguments; the length of a row is none.

    The number of elements of a mean may not fit a short dtype, by which it is then divided.
    """
    plan = split_axes(signature.shapes["x"], axes)
    if mode == "mean" and _working(signature.dtypes["x"]) in ("int8", "uint8", "int16", "uint16"):
        return False
    together = plan.is_contiguous and _rows_together(plan, mode, _working(signature.dtypes["x"]))
    return plan.kept.shares_code and not together


def reduction_launch(signature: Signature, limits: DeviceLimits, *, mode: str, axes: tuple[int, ...]) -> Launch:
    """Return the launch of `write_reduction`: rows per work-item, or blocks or single columns."""
    plan = split_axes(signature.shapes["x"], axes)
    if plan.is_contiguous:
        together = max(_rows_together(plan, mode, compute_dtype(signature.dtypes["x"])), 1)
        return rows_launch(ceil_div(plan.kept.elements, together), plan.reduced[0][0] * together, limits)
    vectors = _block_vectors(plan, mode, signature.dtypes["x"])
    return block_launch(plan.kept, vectors, limits) if vectors else iteration_launch(plan.kept, limits)


def write_parts(w: KernelWriter, *, mode: str) -> None:
    """Emit the kernel that reduces parts of ``x``, one per element of ``y``; the last has the remainder."""
    # Partial means are divided by the number of all elements: their sum is the mean.
    t = compute_dtype(w.signature.dtypes["x"])
    size, parts = math.prod(w.signature.shapes["x"]), w.signature.shapes["y"][0]
    part = w.index(w.item)
    with w.if_block(f"{part} < {parts}"):
        w.store("y", part, _reduced(w, mode, t, size, _PartReduction(w, t, part, size, parts)))


def sum_of_line(w: KernelWriter, t: str, first: str, count: int, stride: int) -> str:
    """Emit the sum of strided elements of ``x``, and return its name."""
    reduction: Any = (
        _RowReduction(w, t, first, count)
        if stride == 1
        else _ColumnReduction(w, t, first, ((str(count), str(stride)),))
    )
    return _reduced(w, "sum", t, count, reduction)


def _working(dtype: str) -> str:
    # bool is reduced as bytes: the maximum is "or".
    return "uint8" if dtype == "bool" else compute_dtype(dtype)


def _rows_together(plan: ReductionAxes, mode: str, t: str) -> int:
    """Return the number of rows processed together; 0 if rows are processed singly."""
    if mode != "logsumexp" or not takes_one_pass(t) or plan.reduced[0][0] < LANES:
        return 0
    # Keep enough groups of rows for all compute units.
    return min(ROW_GROUP, 1 << (max(1, plan.kept.elements // ROW_GROUP).bit_length() - 1))


def _block_vectors(plan: ReductionAxes, mode: str, dtype: str) -> int:
    count = math.prod(extent for extent, _ in plan.reduced)
    if plan.is_contiguous or count < LANES:
        return 0
    if mode == "logsumexp":
        return even_vectors(plan.kept, MAX_COLUMN_VECTORS)
    least = 1 if plan.kept.elements * count * ITEM_BYTES[dtype] <= _CACHED_BYTES else 2
    return block_vectors(plan.kept, dtype, least)


def _write_block(
    w: KernelWriter,
    mode: str,
    t: str,
    count: str,
    reduced: _AxisTexts,
    vectors: int,
    at: str,
    first: str,
) -> None:
    if mode == "logsumexp":
        _write_logarithms(w, t, reduced, vectors, at, first)
        return
    totals = _over_block(w, mode, t, reduced, vectors, first)

    def store(pick: Any, lane: str) -> None:
        w.store_vector("y", f"{at} + {lane}", _finished(w, mode, t, count, pick(totals)), t)

    w.each_vector(vectors, store)


def _over_block(w: KernelWriter, mode: str, t: str, reduced: _AxisTexts, vectors: int, first: str) -> str:
    start, element, combine = _steps(w, mode, t)
    totals = w.vector_group(t, w.constant(start, t), vectors)
    rows = _ROWS if mode in ("max", "min") and t.startswith("float") else 1

    def change(places: list[str], pick: Any, lane: str) -> None:
        xs = [w.value(t, w.load_vector("x", f"{place} + {lane}")) for place in places]
        total = combine(pick(totals), element(xs[0])) if len(xs) == 1 else write_extremum(w, t, mode, xs, pick(totals))
        w.assign(pick(totals), t, total)

    for places in _loop_rows(w, first, reduced, rows):
        w.each_vector(vectors, partial(change, places))
    return totals


def write_extremum(w: KernelWriter, t: str, mode: str, xs: list[str], best: str | None = None) -> str:
    """Emit, in `KernelWriter.over_wide`, the maximum or minimum of some vectors and the best so far; NaN if one is."""
    # One comparison finds the NaNs of two vectors. The selections that ignore NaN are one instruction each; the last
    # one keeps a NaN in ``best``.
    symbol = ">" if mode == "max" else "<"
    pairs = [*zip(xs[::2], xs[1::2], strict=False)]
    unordered = w.any_of(*(w.unordered(*pair) for pair in pairs)) if pairs and t.startswith("float") else None
    while len(xs) > 1:
        xs = [w.value(t, w.select(f"({a} {symbol} {b})", a, b)) for a, b in zip(xs[::2], xs[1::2], strict=True)]
    found = xs[0] if best is None else w.value(t, w.select(f"({xs[0]} {symbol} {best})", xs[0], best))
    return found if unordered is None else w.value(t, w.select(unordered, w.constant(float("nan"), t), found))


def _write_logarithms(w: KernelWriter, t: str, reduced: _AxisTexts, vectors: int, at: str, first: str) -> None:
    def again(first: str) -> str:
        """Emit log-sum-exp of a vector of columns in two passes."""

        def over(start: Any, element: Any, combine: Any) -> str:
            total = f"{w.vector_group(t, w.constant(start, t))}_0"
            for (place,) in _loop_rows(w, first, reduced, 1):
                w.assign(total, t, combine(total, element(w.value(t, w.load_vector("x", place)))))
            return total

        return write_two_passes(w, t, over)

    if takes_one_pass(t):
        write_columns(w, at, first, vectors, _loop_rows(w, first, reduced, ROWS_PER_STEP), again)
        return
    with w.loop("0", str(vectors * LANES), str(LANES)) as place:
        w.each_vector(1, lambda *_: w.store_vector("y", f"{at} + {place}", again(f"{first} + {place}"), t))


def _loop_rows(w: KernelWriter, first: str, reduced: _AxisTexts, together: int) -> Iterator[list[str]]:
    """Open a loop per reduced axis, over groups of rows, then single rows; yield the rows' start indices."""
    *outer, (extent, stride) = reduced
    with ExitStack() as loops:
        place = _place(w, loops, first, tuple(outer))
        whole = _whole(w, extent, together)
        for begin, end, step in (("0", whole, together), (whole, extent, 1)):
            if begin != end:
                with w.loop(begin, end, str(step)) as k:
                    yield [f"{place} + ({k} + {row}) * {stride}" for row in range(step)]


def _whole(w: KernelWriter, extent: str, together: int) -> str:
    """Return the text of the greatest multiple of a number that is no more than an extent."""
    if extent.isdigit():
        return str(int(extent) // together * together)
    return extent if together == 1 else w.index(f"{w.div(extent, str(together))} * {together}")


def _place(w: KernelWriter, loops: ExitStack, first: str, reduced: _AxisTexts) -> str:
    """Open a loop per reduced axis, and return the index of the current element."""
    terms = [first]
    for extent, stride in reduced:
        terms.append(f"{loops.enter_context(w.loop('0', extent))} * {stride}")
    return " + ".join(terms)


def _extremes(mode: str) -> Any:
    def of(w: KernelWriter, t: str) -> tuple[Any, Any]:
        return extremum_start(mode, t), lambda a, b: w.select(is_better(w, t, mode, b, a), b, a)

    return of


def is_better(w: KernelWriter, t: str, mode: str, x: str, best: str) -> str:
    """Return the condition that a number is better than the best; the first NaN beats all numbers."""
    symbol = ">" if mode == "max" else "<"
    return w.better_or_nan(symbol, x, best) if t.startswith("float") else f"({x} {symbol} {best})"


#: Start value, and combination of two partial results.
_SIMPLE: dict[str, Any] = {
    "sum": lambda w, t: (0, lambda a, b: f"({a} + {b})"),
    "prod": lambda w, t: (1, lambda a, b: f"({a} * {b})"),
    "max": _extremes("max"),
    "min": _extremes("min"),
}


class _RowReduction:
    """Reduction of a contiguous row, with vectors of partial results."""

    def __init__(self, w: KernelWriter, t: str, base: str, count: int) -> None:
        self._w, self._t, self._base, self._count = w, t, base, count

    def over(self, start: Any, element: Any, combine: Any) -> str:
        """Emit a reduction of the row, and return the name of its result."""
        w, t, count = self._w, self._t, self._count

        def change(total: str, x: str) -> str:
            return str(combine(total, element(x)))

        total = w.variable(t, w.constant(start, t))
        vectors, at = (ROW_VECTORS if count >= 2 * ROW_VECTORS * LANES else 1), 0
        step = vectors * LANES
        if count >= LANES:
            totals = w.vector_group(t, w.constant(start, t), vectors)
            at = count // step * step
            with w.loop("0", str(at), str(step)) as k:
                w.update_vectors(totals, vectors, t, f"{self._base} + {k}", change)
            while count - at >= LANES:
                w.update_vectors(totals, 1, t, f"{self._base} + {at}", change)
                at += LANES
            (found,) = w.reduce_lanes([(totals, t)], vectors, lambda a, b: [combine(*a, *b)])
            w.assign(total, t, combine(total, found))
        if at < count:
            with w.loop(str(at), str(count)) as k:
                w.assign(total, t, change(total, w.value(t, w.load("x", f"{self._base} + {k}"))))
        return total

    def logarithm(self) -> str:
        """Emit log-sum-exp of the row, and return the name of its result."""
        return write_two_passes(self._w, self._t, self.over)


class _PartReduction(_RowReduction):
    """Reduction of a part of an array; the last part includes the remainder."""

    def __init__(self, w: KernelWriter, t: str, part: str, size: int, parts: int) -> None:
        each = size // parts
        super().__init__(w, t, w.index(f"{part} * {each}"), each)
        self._last, self._rest = f"{part} == {parts - 1}", (each * parts, size)

    def over(self, start: Any, element: Any, combine: Any) -> str:
        """Emit a reduction of the part, and return the name of its result."""
        w, t = self._w, self._t
        total = super().over(start, element, combine)
        with w.if_block(self._last), w.loop(*map(str, self._rest)) as k:
            w.assign(total, t, combine(total, element(w.value(t, w.load("x", k)))))
        return total


class _ColumnReduction:
    """Reduction over strided axes, one element after another."""

    def __init__(self, w: KernelWriter, t: str, first: str, reduced: _AxisTexts) -> None:
        self._w, self._t, self._first, self._reduced = w, t, first, reduced

    def over(self, start: Any, element: Any, combine: Any) -> str:
        """Emit a reduction, and return the name of its result."""
        w, t = self._w, self._t
        total = w.variable(t, w.constant(start, t))
        with ExitStack() as loops:
            x = w.value(t, w.load("x", _place(w, loops, self._first, self._reduced)))
            w.assign(total, t, combine(total, element(x)))
        return total

    def logarithm(self) -> str:
        """Emit log-sum-exp, and return the name of its result."""
        return write_two_passes(self._w, self._t, self.over)


def _steps(w: KernelWriter, mode: str, t: str) -> tuple[Any, Any, Any]:
    """Return the start value, the function of an element, and the combination of two results."""
    start, combine = _SIMPLE[mode if mode in _SIMPLE else "sum"](w, t)
    if mode in ("max", "min") and w.signature.dtypes["x"] == "bool":
        start = int(extremum_start(mode, "bool"))
    if mode in ("l2", "sumsquare"):
        return start, lambda x: f"({x} * {x})", combine
    if mode == "l1":
        return start, lambda x: w.call("fabs", x) if t.startswith("float") else _absolute(w, t, x), combine
    return start, lambda x: x, combine


def _reduced(w: KernelWriter, mode: str, t: str, count: int | str, reduction: Any) -> str:
    """Emit a reduction, and return the name of its result."""
    if mode != "logsumexp":
        return _finished(w, mode, t, count, reduction.over(*_steps(w, mode, t)))
    return str(reduction.logarithm())


def _finished(w: KernelWriter, mode: str, t: str, count: int | str, total: str) -> str:
    if mode == "mean":
        if isinstance(count, int) or count.isdigit():
            number = w.constant(max(int(count), 1) if not t.startswith("float") else int(count), t)
        else:
            number = w.value(t, w.cast(t, count, "int64"))
        return w.value(t, f"{total} / {number}" if t.startswith("float") else w.truncating_division(total, number, t))
    if mode in ("l2", "logsum"):
        return w.value(t, w.call("sqrt" if mode == "l2" else "log", total))
    return total


def _absolute(w: KernelWriter, t: str, x: str) -> str:
    return x if t.startswith("u") else w.select(f"({x} < {w.constant(0, t)})", f"-{x}", x)


def extremum_start(mode: str, dtype: Any) -> Any:
    """Return the start value of a maximum or minimum: the least or greatest number of a dtype."""
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind == "b":
        return mode == "min"
    if kind.kind == "f":
        return -np.inf if mode == "max" else np.inf
    return np.iinfo(kind).min if mode == "max" else np.iinfo(kind).max
