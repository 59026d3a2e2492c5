# SPDX-License-Identifier: Apache-2.0
"""`cache_write`: rows written into a cache in place, at positions known only when the task runs.

Rows beyond the end of the cache are left out, on every device; a circular cache continues at its beginning.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ALL_DTYPES, ITEM_BYTES, Ints, line_launch
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.tensor.gather import INDEX_DTYPES
from syclsched.kernels.tensor.operation_factory import input_parameter, make_operation
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Work


@cache
def cache_write(circular: bool = False, first: int | None = None) -> Operation:
    """Return the operation that writes ``rows`` into ``y``, for each sample from its position in ``starts`` on.

    Parameters ``y`` (batch, heads, positions, size), ``rows`` (batch, heads, count, size) and ``starts`` (batch). With
    a ``first`` column, ``rows`` is (batch, count, columns), and the heads are neighbours there from that column on.
    """
    parameters = (
        Parameter("y", AccessMode.UPDATE, dtypes=ALL_DTYPES),
        input_parameter("rows", like="y"),
        input_parameter("starts", dtypes=INDEX_DTYPES),
    )
    return make_operation(
        f"cache_write{' circular' if circular else ''}{'' if first is None else f' of columns from {first}'}",
        parameters,
        partial(_host, circular=circular, first=first),
        partial(_check, circular=circular, first=first),
        work=partial(_work, first=first),
        kernels=generated_implementations(
            parameters,
            partial(_write, circular=circular, first=first),
            partial(_launch, first=first),
            takes_extents=lambda _: True,  # those of rows
        ),
    )


def _rows(signature: Signature, first: int | None) -> Ints:
    """Return the shape of the rows as (batch, heads, count, size)."""
    y, rows = signature.shapes["y"], signature.shapes["rows"]
    return rows if first is None else (rows[0], y[1], rows[1], y[3])


def _check(signature: Signature, *, circular: bool, first: int | None) -> str | None:
    y, rows, starts = (signature.shapes[name] for name in ("y", "rows", "starts"))
    wrong = f"rows {rows} from starts {starts} on do not fit into {y}"
    if len(y) != 4 or len(rows) != (4 if first is None else 3):
        return wrong
    if first is not None and not 0 <= first <= rows[2] - y[1] * y[3]:
        return wrong
    rows = _rows(signature, first)
    if (*rows[:2], rows[3]) != (*y[:2], y[3]) or starts != y[:1]:
        return wrong
    if circular and rows[2] > y[2]:
        return f"{rows[2]} rows are more than the {y[2]} places of a circular cache"
    return None


def _work(signature: Signature, *, first: int | None) -> Work:
    count = size(_rows(signature, first))
    moved = 2.0 * count * ITEM_BYTES[signature.dtypes["y"]]
    return Work(0.0, moved, signature.dtypes["y"], float(max(1, count)))


def _launch(signature: Signature, limits: DeviceLimits, *, first: int | None) -> Launch:
    return line_launch(limits, max(1, size(_rows(signature, first))))


def _host(*, circular: bool, first: int | None, y: Any, rows: Any, starts: Any) -> None:
    if first is not None:
        heads, width = y.shape[1], y.shape[3]
        columns = rows[..., first : first + heads * width]
        rows = columns.reshape(*rows.shape[:2], heads, width).swapaxes(1, 2)
    extent, count = y.shape[2], rows.shape[2]
    for sample, start in enumerate(starts.tolist()):
        for row in range(count):
            at = (start + row) % extent if circular else start + row
            if 0 <= at < extent:
                y[sample, :, at] = rows[sample, :, row]


def _write(w: KernelWriter, *, circular: bool, first: int | None) -> None:
    (_, heads, extent, width), rows = w.signature.shapes["y"], _rows(w.signature, first)
    if not size(rows) or not extent:
        return
    item, count = w.index(w.item), w.number("tokens", rows[2])
    with w.if_block(f"{item} < {w.number('items', size(rows))}"):
        line = w.index(w.div(item, str(width)))
        head = w.index(w.div(line, count))
        sample = w.index(w.div(head, str(heads)))
        loaded = w.cast("int64", w.load("starts", sample), w.signature.dtypes["starts"])
        row = w.cast("int64", f"({line} - {head} * {count})", "int64")
        at = w.value("int64", f"{loaded} + {row}")
        if circular:
            whole = w.constant(extent, "int64")
            at = w.value("int64", f"({at} % {whole} + {whole}) % {whole}")  # the remainder has the sign of `at` in C
        inside = w.all_of(f"({at} >= {w.constant(0, 'int64')})", f"({at} < {w.constant(extent, 'int64')})")
        with w.if_block(inside):
            column, source = w.index(f"{item} - {line} * {width}"), item
            if first is not None:
                place = f"({sample} * {count} + {row}) * {w.signature.shapes['rows'][2]} + {first}"
                source = w.index(f"{place} + {head} % {heads} * {width} + {column}")
            w.store("y", f"({head} * {extent} + {at}) * {width} + {column}", w.load("rows", source))
