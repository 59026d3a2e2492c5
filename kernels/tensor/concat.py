# SPDX-License-Identifier: Apache-2.0
"""`concat`: concatenation of arrays along an axis."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ceil_div, with_recipe
from syclsched.kernels.onednn.operations import data_movement
from syclsched.kernels.tensor.operation_factory import (
    axis_error,
    copy_work,
    input_parameter,
    make_operation,
    output_parameter,
    shape_error,
)
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import IterationSpace, iteration_launch, write_iteration
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter
from syclsched.kernels.tensor.writing.row_column_blocks import rows_launch, write_rows
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split


@with_recipe
@cache
def concat(axis: int, count: int) -> Operation:
    """Return the operation that concatenates ``count`` arrays along an axis to ``y``."""
    if count < 1:
        raise ArgumentError("there is nothing to put together", where="concat")
    names = tuple(f"x{i}" for i in range(count))
    parameters = (output_parameter(), *(input_parameter(name, like="y") for name in names))
    return make_operation(
        f"concat {count} axis {axis}",
        parameters,
        partial(_host, axis=axis, names=names),
        partial(_check, axis=axis, names=names),
        work=copy_work,
        split=Split(("y", *names)) if axis else None,
        kernels=(
            data_movement.concat(axis=axis, count=count),
            *generated_implementations(
                parameters,
                partial(_write, axis=axis, names=names),
                partial(_launch, axis=axis, names=names),
                revision="5",
                takes_extents=partial(_takes_extents, axis=axis, names=names),
            ),
        ),
    )


def _check(signature: Signature, *, axis: int, names: tuple[str, ...]) -> str | None:
    shapes = [signature.shapes[name] for name in names]
    first = shapes[0]
    wrong = axis_error(axis, len(first))
    if wrong is not None:
        return wrong
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) > 1 or len({len(s) for s in shapes}) > 1:
        return f"{shapes} differ but along axis {axis}"
    return shape_error(
        signature, (*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1 :]), f"{shapes} along {axis}"
    )


def _host(*, axis: int, names: tuple[str, ...], y: Any, **parts: Any) -> None:
    import numpy as np

    np.concatenate([parts[name] for name in names], axis=axis, out=y)


def _widths(signature: Signature, axis: int, names: tuple[str, ...]) -> list[int]:
    """Return the length of each array's contiguous lines: its extents from the axis on."""
    return [math.prod(signature.shapes[name][axis:]) for name in names]


#: Most arrays whose extents are arguments, two each: OpenCL guarantees only 1,024 bytes of kernel arguments.
_MOST_SHARED = 32
#: Maximum elements of a line that a work-item copies; of shorter lines it copies several.
_PIECE = 1 << 12


def _walk(signature: Signature, axis: int, names: tuple[str, ...]) -> IterationSpace:
    """Return the iteration space of the widest array's lines; operands are line number and position."""
    return IterationSpace((_rows(signature, axis), max(_widths(signature, axis, names))), ((1, 0), (0, 1)))


def _rows(signature: Signature, axis: int) -> int:
    return math.prod(signature.shapes["y"][:axis])


#: Elements that are copied in a few microseconds.
_FEW = 1 << 13


def _in_vectors(signature: Signature) -> bool:
    """Return whether elements can be copied as vectors."""
    return signature.dtypes["y"] not in ("bool", "float16")


def _pieces(widths: list[int]) -> list[int]:
    """Return the number of pieces per line of each array; empty if a work-item copies whole lines."""
    return [ceil_div(width, _PIECE) for width in widths] if sum(widths) > _PIECE else []


def _takes_extents(signature: Signature, *, axis: int, names: tuple[str, ...]) -> bool:
    """Return whether the kernel takes extents as arguments."""
    return len(names) <= _MOST_SHARED


def _takes_widths(widths: list[int], rows: int) -> bool:
    """Return whether the widths of lines are among them: those of short lines that are no whole vectors are not.

    They take up to a fifth longer otherwise, which is little where there are few elements.
    """
    are_whole = all(width % LANES == 0 for width in widths)
    return are_whole or (min(widths) >= LANES and sum(widths) >= 4 * LANES) or rows * sum(widths) <= _FEW


def _write(w: KernelWriter, *, axis: int, names: tuple[str, ...]) -> None:
    widths = _widths(w.signature, axis, names)
    starts = [sum(widths[:number]) for number in range(len(widths))]
    if not _in_vectors(w.signature):
        _write_elements(w, axis, names, widths, starts)
        return
    pieces, total, rows = _pieces(widths), sum(widths), _rows(w.signature, axis)
    if not pieces:

        def number(name: str, value: int) -> str:
            return w.number(name, value) if _takes_widths(widths, rows) else str(value)

        lines, apart = w.number("rows", rows), number("apart", total)
        known = [
            (name, number(f"{name}_width", width), number(f"{name}_start", start), width)
            for name, width, start in zip(names, widths, starts, strict=True)
        ]

        def line(row: str) -> None:
            for name, width, start, count in known:
                _write_copy(w, name, f"{row} * {width}", f"{row} * {apart} + {start}", width, count)

        write_rows(w, lines, line)
        return
    item = w.index(w.item)
    with w.if_block(f"{item} < {rows * sum(pieces)}"):
        row = w.index(w.div(item, str(sum(pieces))))
        piece = w.index(f"{item} - {row} * {sum(pieces)}")
        for number, (name, width, start) in enumerate(zip(names, widths, starts, strict=True)):
            first = sum(pieces[:number])
            with w.if_block(w.all_of(f"({piece} >= {first})", f"({piece} < {first + pieces[number]})")):
                # The last piece is shifted to be full: it copies some elements twice.
                begin, most = w.index(f"({piece} - {first}) * {_PIECE}"), max(width - _PIECE, 0)
                begin = w.index(w.select(f"({begin} < {most})", begin, str(most)))
                source, target = f"{row} * {width} + {begin}", f"{row} * {total} + {start} + {begin}"
                _write_copy(w, name, source, target, str(min(width, _PIECE)), min(width, _PIECE))


def _write_copy(w: KernelWriter, name: str, source: str, target: str, length: str, count: int) -> None:
    """Emit a copy of contiguous elements in vectors; the last vector may overlap the one before.

    ``count`` is the ``length`` when the kernel is generated, which may be an argument.
    """
    source, target, dtype = w.index(source), w.index(target), w.signature.dtypes["y"]
    if count < LANES:
        if count:
            with w.loop("0", length) as k:
                w.store("y", f"{target} + {k}", w.load(name, f"{source} + {k}"))
        return

    def vector(k: str) -> None:
        found = w.value(dtype, w.load_vector(name, f"{source} + {k}"))
        w.store_vector("y", f"{target} + {k}", found, dtype)

    with w.loop("0", f"{length} - {LANES - 1}", str(LANES)) as k:
        w.each_vector(1, lambda pick, _: vector(k))
    if length != str(count):
        with w.if_block(f"({length} % {LANES} != 0)"):
            w.each_vector(1, lambda pick, _: vector(f"({length} - {LANES})"))
    elif count % LANES:
        w.each_vector(1, lambda pick, _: vector(f"({length} - {LANES})"))


def _write_elements(w: KernelWriter, axis: int, names: tuple[str, ...], widths: list[int], starts: list[int]) -> None:
    def body(_: str, others: list[str]) -> None:
        row, j = others
        for name, width, start in zip(names, widths, starts, strict=True):
            source, target = w.index(f"{row} * {width}"), w.index(f"{row} * {sum(widths)} + {start}")
            with w.if_block(f"{j} < {width}") if width < max(widths) else nullcontext():
                w.store("y", f"{target} + {j}", w.load(name, f"{source} + {j}"))

    write_iteration(w, _walk(w.signature, axis, names), body)


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int, names: tuple[str, ...]) -> Launch:
    if not _in_vectors(signature):
        return iteration_launch(_walk(signature, axis, names), limits)
    widths, rows = _widths(signature, axis, names), _rows(signature, axis)
    pieces = _pieces(widths)
    return Launch((rows * sum(pieces),), (1,)) if pieces else rows_launch(rows, sum(widths), limits)
