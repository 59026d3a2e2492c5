# SPDX-License-Identifier: Apache-2.0
"""`cache_write`: rows written into a cache in place, at positions known only when the task runs.

Rows beyond the end of the cache are left out, on every device; a circular cache continues at its beginning.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ALL_DTYPES, line_launch
from syclsched.kernels.tensor.gather import INDEX_DTYPES
from syclsched.kernels.tensor.operation_factory import array_bytes, elements, input_parameter, make_operation
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Work


@cache
def cache_write(circular: bool = False) -> Operation:
    """Return the operation that writes ``rows`` into ``y``, for each sample from its position in ``starts`` on.

    Parameters ``y`` (batch, heads, positions, size), ``rows`` (batch, heads, count, size) and ``starts`` (batch).
    """
    parameters = (
        Parameter("y", AccessMode.UPDATE, dtypes=ALL_DTYPES),
        input_parameter("rows", like="y"),
        input_parameter("starts", dtypes=INDEX_DTYPES),
    )
    return make_operation(
        f"cache_write{' circular' if circular else ''}",
        parameters,
        partial(_host, circular=circular),
        partial(_check, circular=circular),
        work=_work,
        kernels=generated_implementations(parameters, partial(_write, circular=circular), _launch),
    )


def _check(signature: Signature, *, circular: bool) -> str | None:
    y, rows, starts = (signature.shapes[name] for name in ("y", "rows", "starts"))
    if len(y) != 4 or len(rows) != 4 or (*rows[:2], rows[3]) != (*y[:2], y[3]) or starts != y[:1]:
        return f"rows {rows} from starts {starts} on do not fit into {y}"
    if circular and rows[2] > y[2]:
        return f"{rows[2]} rows are more than the {y[2]} places of a circular cache"
    return None


def _work(signature: Signature) -> Work:
    moved = 2.0 * array_bytes(signature, "rows")
    return Work(0.0, moved, signature.dtypes["y"], float(max(1, elements(signature, "rows"))))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return line_launch(limits, max(1, elements(signature, "rows")))


def _host(*, circular: bool, y: Any, rows: Any, starts: Any) -> None:
    extent, count = y.shape[2], rows.shape[2]
    for sample, start in enumerate(starts.tolist()):
        for row in range(count):
            at = (start + row) % extent if circular else start + row
            if 0 <= at < extent:
                y[sample, :, at] = rows[sample, :, row]


def _write(w: KernelWriter, *, circular: bool) -> None:
    (_, heads, extent, size), count = w.signature.shapes["y"], w.signature.shapes["rows"][2]
    total = elements(w.signature, "rows")
    if not total or not extent:
        return
    item = w.index(w.item)
    with w.if_block(f"{item} < {total}"):
        line = w.index(w.div(item, str(size)))
        head = w.index(w.div(line, str(count)))
        sample = w.index(w.div(head, str(heads)))
        loaded = w.cast("int64", w.load("starts", sample), w.signature.dtypes["starts"])
        row = w.cast("int64", f"({line} - {head} * {count})", "int64")
        at = w.value("int64", f"{loaded} + {row}")
        if circular:
            whole = w.constant(extent, "int64")
            at = w.value("int64", f"({at} % {whole} + {whole}) % {whole}")  # the remainder has the sign of `at` in C
        inside = w.all_of(f"({at} >= {w.constant(0, 'int64')})", f"({at} < {w.constant(extent, 'int64')})")
        with w.if_block(inside):
            column = w.index(f"{item} - {line} * {size}")
            w.store("y", f"({head} * {extent} + {at}) * {size} + {column}", w.load("rows", item))
