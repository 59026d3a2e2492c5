# SPDX-License-Identifier: Apache-2.0
"""`column_sums` and `column_moments`: reductions of parts of the rows of arrays, in one pass, for each column.

Each work-item reduces a part of a column; neighbouring work-items have neighbouring columns. A further reduction of the
parts, which are few and of equal length, gives the result of all rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from syclsched.errors import SyclschedError
from syclsched.kernels.common import with_recipe
from syclsched.kernels.tensor.operation_factory import array_bytes, input_parameter, make_operation, output_parameter
from syclsched.kernels.tensor.writing import expression as language
from syclsched.kernels.tensor.writing.expression import Expression, cached_by_text, infer_dtypes
from syclsched.kernels.tensor.writing.expression_codegen import emit_expression
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import (
    IterationSpace,
    iteration_launch,
    iteration_space,
    write_iteration,
)
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Shape, Signature, Work

#: Dtypes of sums and moments.
DTYPES = ("float32", "float64")
#: Least rows of a part, and most parts: enough for many compute units, and few to reduce further.
_ROWS, _MOST_PARTS = 256, 64
#: Elements from which on parts are worth a further reduction.
_MANY = 1 << 20


def parts_of(rows: int, columns: int) -> int:
    """Return the number of parts, of equal length, in which rows are reduced."""
    most = min(_MOST_PARTS, rows // _ROWS) if rows * columns >= _MANY else 1
    return next((n for n in range(most, 1, -1) if rows % n == 0), 1)


@with_recipe
@cached_by_text
def column_sums(expressions: tuple[Expression, ...], inputs: int, means: tuple[bool, ...]) -> Operation:
    """Return the operation that adds each expression of ``x0``, ``x1``, ... in parts of the rows, for each column.

    The last axis of an array is that of the columns, all others together are that of the rows; both are broadcast. The
    sums ``y0``, ``y1``, ... have a row for each part; ``means`` are divided by the number of rows of one.
    """
    read, made = tuple(f"x{i}" for i in range(inputs)), tuple(f"y{i}" for i in range(len(expressions)))
    text = "; ".join(
        f"{'mean' if mean else 'sum'} {language.expression_text(each)}"
        for each, mean in zip(expressions, means, strict=True)
    )
    parameters = (
        output_parameter("y0", dtypes=DTYPES),
        *(Parameter(name, AccessMode.WRITE, like="y0") for name in made[1:]),
        *map(input_parameter, read),
    )
    attributes: dict[str, Any] = {"expressions": expressions, "means": means, "read": read, "made": made}
    operators = sum(1 + language.count_operators(each) for each in expressions)
    return make_operation(
        f"column_sums {hashlib.sha256(text.encode()).hexdigest()[:8]}",
        parameters,
        partial(_host, **attributes),
        partial(_check, expressions=expressions, read=read, made=made),
        work=partial(_work, operators=operators, read=read),
        kernels=generated_implementations(
            parameters, partial(_write, **attributes), _launch, takes_extents=_takes_extents
        ),
    )


@with_recipe
@cache
def column_moments() -> Operation:
    """Return the operation that computes the mean and the variance of each column of ``x``, in parts of the rows."""
    parameters = (
        output_parameter("mean", dtypes=DTYPES),
        Parameter("variance", AccessMode.WRITE, like="mean"),
        input_parameter("x", like="mean"),
    )
    return make_operation(
        "column_moments",
        parameters,
        _moments_on_host,
        partial(_check_parts, read=("x",), made=("mean", "variance")),
        work=partial(_work, operators=4, read=("x",)),
        kernels=generated_implementations(parameters, _write_moments, _launch, takes_extents=_takes_extents),
    )


def _flat(shape: Shape) -> tuple[int, int]:
    """Return the numbers of rows and columns of an array: the last axis is that of the columns."""
    return math.prod(shape[:-1]), math.prod(shape[-1:])


def _rows(signature: Signature, read: tuple[str, ...]) -> int:
    return max(_flat(signature.shapes[name])[0] for name in read)


def _sums(signature: Signature) -> tuple[int, int]:
    """Return the numbers of parts and columns."""
    return _flat(next(iter(signature.shapes.values())))


def _check_parts(signature: Signature, *, read: tuple[str, ...], made: tuple[str, ...]) -> str | None:
    shapes, rows, (parts, columns) = signature.shapes, _rows(signature, read), _sums(signature)
    sums = shapes[made[0]]
    if not parts or rows % parts:
        return f"{made[0]} has a row for each part of {rows} rows, all of equal length, not shape {sums}"
    for name in read:
        if any(n not in (1, m) for n, m in zip(_flat(shapes[name]), (rows, columns), strict=True)):
            return f"{name} of shape {shapes[name]} has other rows or columns than {rows} and {columns}"
    wrong = [name for name in made[1:] if shapes[name] != sums]
    return f"{wrong[0]} has shape {shapes[wrong[0]]}, and {made[0]} {sums}" if wrong else None


def _check(
    signature: Signature, *, expressions: tuple[Expression, ...], read: tuple[str, ...], made: tuple[str, ...]
) -> str | None:
    dtypes = tuple(signature.dtypes[name] for name in read)
    try:
        for expression in expressions:
            infer_dtypes(expression, dtypes, signature.dtypes[made[0]])
    except SyclschedError as error:
        return str(error)
    return _check_parts(signature, read=read, made=made)


def _work(signature: Signature, *, operators: int, read: tuple[str, ...]) -> Work:
    parts, columns = _sums(signature)
    moved = sum(array_bytes(signature, name) for name in signature.shapes)
    dtype = next(iter(signature.dtypes.values()))
    return Work(float(operators * _rows(signature, read) * columns), float(moved), dtype, float(parts * columns))


def _host(
    *,
    expressions: tuple[Expression, ...],
    means: tuple[bool, ...],
    read: tuple[str, ...],
    made: tuple[str, ...],
    **arrays: Any,
) -> None:
    import numpy as np

    from syclsched.kernels.tensor.writing.expression_evaluator import evaluate_typed

    given = [arrays[name].reshape(_flat(arrays[name].shape)) for name in read]
    dtypes, kind, shape = tuple(each.dtype.name for each in given), arrays["y0"].dtype, arrays["y0"].shape
    parts, columns = _flat(shape)
    whole = max(len(each) for each in given), columns
    for name, expression, mean in zip(made, expressions, means, strict=True):
        values = evaluate_typed(infer_dtypes(expression, dtypes, kind.name), given, whole)
        rows = np.broadcast_to(values, whole).reshape(parts, -1, columns)
        arrays[name][...] = (rows.mean(axis=1, dtype=kind) if mean else rows.sum(axis=1, dtype=kind)).reshape(shape)


def _moments_on_host(*, mean: Any, variance: Any, x: Any) -> None:
    parts, columns = _flat(mean.shape)
    rows = x.reshape(parts, -1, columns)
    mean[...] = rows.mean(axis=1).reshape(mean.shape)
    variance[...] = rows.var(axis=1).reshape(mean.shape)


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return iteration_launch(_space(signature), limits)


def _space(signature: Signature) -> IterationSpace:
    """Return the iteration space of the sums: operands are the number of a part and the column."""
    return iteration_space(_sums(signature), ((1, 0), (0, 1)))


def _takes_extents(signature: Signature) -> bool:
    return not _space(signature).indexed_by_element


@dataclass(frozen=True, slots=True)
class _Part:
    """Names of indices in a kernel: those of a sum and of the rows that it adds."""

    sum: str
    first: str  # row
    count: str  # of rows
    column: str
    columns: str  # number of all

    def offset(self, row: str) -> str:
        """Return the index of the element in a row of an array of rows and columns."""
        return f"{row} * {self.columns} + {self.column}"

    def each(self, w: KernelWriter) -> Any:
        """Open a loop over the rows."""
        return w.loop(self.first, f"{self.first} + {self.count}")


def _write_sums(w: KernelWriter, read: tuple[str, ...], body: Callable[[_Part], None]) -> None:
    """Emit a kernel that runs a body for every sum."""
    (parts, columns), space = _sums(w.signature), _space(w.signature)
    count = w.number("rows", _rows(w.signature, read) // parts)
    if space.indexed_by_element:
        write_iteration(
            w,
            space,
            lambda at, place: body(_Part(at, w.index(f"{place[0]} * {count}"), count, place[1], str(columns))),
        )
        return
    width = w.number("columns", columns)
    part, column = w.index(w.plane_row), w.index(w.plane_column)
    with w.if_block(w.all_of(f"{part} < {w.number('parts', parts)}", f"{column} < {width}")):
        at, first = w.index(f"{part} * {width} + {column}"), w.index(f"{part} * {count}")
        body(_Part(at, first, count, column, width))


def _write(
    w: KernelWriter,
    *,
    expressions: tuple[Expression, ...],
    means: tuple[bool, ...],
    read: tuple[str, ...],
    made: tuple[str, ...],
) -> None:
    kind, dtypes = w.signature.dtypes["y0"], tuple(w.signature.dtypes[name] for name in read)
    roots = [infer_dtypes(each, dtypes, kind) for each in expressions]
    shapes = [_flat(w.signature.shapes[name]) for name in read]

    def body(part: _Part) -> None:
        def load(i: int, row: str) -> str:
            rows, columns = shapes[i]
            offset = part.offset(row) if rows > 1 else part.column
            return w.value(dtypes[i], w.load(read[i], offset if columns > 1 else row if rows > 1 else "0"))

        # Values that are equal in all rows are loaded once.
        kept = {i: load(i, "0") for i, (rows, _) in enumerate(shapes) if rows == 1}
        totals = [w.variable(kind, w.constant(0, kind)) for _ in roots]
        with part.each(w) as row:
            given = kept | {i: load(i, row) for i in range(len(read)) if i not in kept}
            for total, root in zip(totals, roots, strict=True):
                w.assign(total, kind, f"{total} + {w.value(kind, emit_expression(w, root, given, {}))}")
        for name, total, mean in zip(made, totals, means, strict=True):
            number = w.cast(kind, part.count, "int64")
            w.store(name, part.sum, w.value(kind, f"{total} / {number}") if mean else total)

    _write_sums(w, read, body)


def _write_moments(w: KernelWriter) -> None:
    """Emit the kernel of moments: sums of differences from the first row of a part, and of their squares."""
    kind = w.signature.dtypes["mean"]

    def body(part: _Part) -> None:
        origin = w.value(kind, w.load("x", part.offset(part.first)))
        total, squares = (w.variable(kind, w.constant(0, kind)) for _ in range(2))
        with part.each(w) as row:
            apart = w.value(kind, f"{w.load('x', part.offset(row))} - {origin}")
            w.assign(total, kind, f"{total} + {apart}")
            w.assign(squares, kind, f"{squares} + {apart} * {apart}")
        number = w.value(kind, w.cast(kind, part.count, "int64"))
        mean = w.value(kind, f"{total} / {number}")
        variance = w.value(kind, f"{squares} / {number} - {mean} * {mean}")
        w.store("mean", part.sum, w.value(kind, f"{origin} + {mean}"))
        w.store("variance", part.sum, w.value(kind, w.select(f"({variance} < 0)", w.constant(0, kind), variance)))

    _write_sums(w, ("x",), body)
