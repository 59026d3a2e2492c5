# SPDX-License-Identifier: Apache-2.0
"""`softmax_over`: softmax or log-softmax over any axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, Ints, ceil_div, line_launch, numpy_implementation, with_recipe
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.line_operations import work
from syclsched.kernels.nn.normalisation import norms_groups, online_softmax
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.onednn.operations import softmax as onednn
from syclsched.kernels.tensor.reductions.log_sum_exp import larger_of
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import Line, launch_lines, product, write_lines
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Launch,
    Operation,
    Parameter,
    Signature,
    Split,
    Work,
)


def lines(shape: Ints, axis: int) -> tuple[int, int, int]:
    """Return the number of elements before an axis, along it and after it."""
    axis %= len(shape)
    return size(shape[:axis]), shape[axis], size(shape[axis + 1 :])


def _check(signature: Signature, *, axis: int) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if not -len(x) <= axis < len(x):
        return f"x {x} has no axis {axis}"
    return None if y == x else f"softmax keeps the shape: y {y} against x {x}"


def _work(signature: Signature, *, axis: int) -> Work:
    before, _, behind = lines(signature.shapes["x"], axis)
    # Per element: maximum, subtraction, exponential (counted as one), sum and division.
    return work(signature, flops=5.0, parallelism=float(before * behind))


def _host(*, y: Any, x: Any, axis: int, log: bool) -> None:
    import numpy as np

    if not x.size:
        return
    source = x.astype(sum_dtype(str(y.dtype)), copy=False)
    # Infinite elements give NaN without warnings.
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = source - source.max(axis=axis, keepdims=True)
        if log:
            y[...] = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
            return
        powers = np.exp(shifted)
        y[...] = powers / powers.sum(axis=axis, keepdims=True)


#: Most vectors of neighbouring lines per work-item, and the bytes of them that stay in a compute unit's cache.
_MOST_VECTORS, _CACHE_BYTES = 8, 1 << 18


def _vectors(length: int, behind: int, t: str) -> int:
    """Return the vectors of neighbouring lines per work-item: lines are read repeatedly, so they must fit the cache."""
    most = min(_MOST_VECTORS, behind // LANES, max(1, _CACHE_BYTES // (LANES * ITEM_BYTES[t] * length)))
    return 1 << (most.bit_length() - 1) if most else 0


def _write(w: KernelWriter, *, axis: int, log: bool) -> None:
    shape, t, extents = w.signature.shapes["x"], compute_dtype(w.signature.dtypes["y"]), w.extents("x")
    axis %= len(shape)
    before, length, behind = lines(shape, axis)
    if not before * length * behind:
        return
    along, after = extents[axis], product(w, extents[axis + 1 :])
    if behind == 1 and length >= LANES:
        write_lines(w, product(w, extents[:axis]), length, lambda row: _write_row(w, t, row, along, length, log))
    elif t == online_softmax.T and behind >= LANES:
        first = product(w, extents[:axis]) if axis else None
        online_softmax.write(w, (first, along, after), log, lambda at: _write_block(w, t, 1, at, along, after, log))
    else:
        _write_blocks(w, t, product(w, extents[:axis]), along, after, _vectors(length, behind, t), log)


def _write_row(w: KernelWriter, t: str, row: str, along: str, length: int, log: bool) -> None:
    """Emit the softmax of a row of contiguous elements."""
    base, line = w.index(f"{row} * {along}"), Line.of(w, t, along, length)
    # The comparison ignores NaN; the sum of exponentials propagates it.
    top = line.reduce(-math.inf, lambda k: w.read("x", f"{base} + {k}"), lambda best, x: larger_of(w, x, best))

    def power(k: str) -> str:
        value = w.value(t, w.power(t, w.value(t, f"{w.read('x', f'{base} + {k}')} - {top}")))
        if not log:
            w.write("y", f"{base} + {k}", value)
        return value

    total = line.reduce(0.0, power, lambda a, b: f"({a} + {b})")
    scale = w.value(t, w.call("log", total) if log else f"{w.constant(1.0, t)} / {total}")

    def finish(k: str) -> None:
        at = f"{base} + {k}"
        w.write(
            "y", at, w.value(t, f"({w.read('x', at)} - {top}) - {scale}" if log else f"{w.read('y', at)} * {scale}")
        )

    line.each(finish, once=not log)


def _write_blocks(w: KernelWriter, t: str, before: str, along: str, after: str, vectors: int, log: bool) -> None:
    """Emit the kernel of strided lines: a work-item processes vectors of neighbouring lines, or one if they are few."""
    width = max(vectors * LANES, 1)
    pieces = w.index(w.div(f"({after} + {width - 1})", str(width)))
    number = w.index(w.div(w.item, pieces))
    begin, most = w.index(f"({w.item} - {number} * {pieces}) * {width}"), w.index(f"{after} - {width}")
    with w.if_block(f"{number} < {before}"):
        # The last vectors may overlap their predecessors.
        at = w.index(f"{number} * {along} * {after} + {w.select(f'({begin} < {most})', begin, most)}")
        _write_block(w, t, vectors, at, along, after, log)


def _write_block(w: KernelWriter, t: str, vectors: int, at: str, along: str, after: str, log: bool) -> None:
    """Emit the softmax, in three passes, of vectors of neighbouring lines, or of one line, from an offset."""
    starts = [w.constant(value, t) for value in (-math.inf, 0.0)]
    top, total = (w.vector_group(t, each, vectors) if vectors else w.variable(t, each) for each in starts)

    def each(body: Callable[[str, str, str], None]) -> None:
        """Emit a body for every vector, given the names of its maxima and of its sums, and its first lane."""
        if vectors:
            w.each_vector(vectors, lambda pick, lane: body(pick(top), pick(total), lane))
        else:
            body(top, total, "0")

    def over_rows(change: Callable[[str, str, str], None]) -> None:
        with w.loop(at, f"{at} + {along} * {after}", after) as j:
            each(lambda top, total, lane: change(top, total, f"{j} + {lane}"))

    def power(top: str, place: str) -> str:
        return w.value(t, w.power(t, w.value(t, f"{w.read('x', place)} - {top}")))

    def result(top: str, total: str, place: str) -> str:
        return f"({w.read('x', place)} - {top}) - {total}" if log else f"{power(top, place)} * {total}"

    over_rows(lambda top, _, place: w.assign(top, t, larger_of(w, w.read("x", place), top)))
    # Exponentials are computed twice; storing them in between would take as long.
    over_rows(lambda top, total, place: w.assign(total, t, f"{total} + {power(top, place)}"))
    each(lambda _, total, __: w.assign(total, t, w.call("log", total) if log else f"{w.constant(1.0, t)} / {total}"))
    over_rows(lambda top, total, place: w.write("y", place, w.value(t, result(top, total, place))))


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    before, length, behind = lines(signature.shapes["x"], axis)
    t = compute_dtype(signature.dtypes["y"])
    if behind == 1 and length >= LANES:
        return launch_lines(before, length, limits)
    if before * length and t == online_softmax.T and behind >= LANES:
        return online_softmax.launch(limits, before, behind)
    vectors = _vectors(length, behind, t) if before * length else 0
    if vectors:
        return Launch((before * ceil_div(behind, vectors * LANES),), (1,))
    return line_launch(limits, max(before * behind, 1))


@cache
def _softmax_over(axis: int, log: bool) -> Operation:
    parameters = (Parameter("y", AccessMode.WRITE, dtypes=FLOATS), Parameter("x", AccessMode.READ, like="y"))
    return Operation(
        name=f"{'log_' if log else ''}softmax_over {axis}",
        parameters=parameters,
        implementations=(
            onednn.softmax(axis=axis, log=log),
            norms_groups.softmax(axis, log),
            *generated_implementations(
                parameters,
                partial(_write, axis=axis, log=log),
                partial(_launch, axis=axis),
                revision="4",
                takes_extents=lambda _: True,
            ),
            numpy_implementation(partial(_host, axis=axis, log=log), efficiency=0.1),
        ),
        work=partial(_work, axis=axis),
        check=partial(_check, axis=axis),
        # A split along axis 0 requires that axis 0 is not reduced; a negative axis may be axis 0.
        split=Split(rows=("y", "x")) if axis > 0 else None,
    )


@with_recipe
def softmax_over(axis: int = -1, log: bool = False) -> Operation:
    """Return y = exp(x) / sum of exp(x) along an axis, or its logarithm."""
    return _softmax_over(int(axis), bool(log))
