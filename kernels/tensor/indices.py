# SPDX-License-Identifier: Apache-2.0
"""Indices that come as data: counted from the front, kept within their axis, told by the status if they are not."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.kernels.tensor.writer import Writer


def write_index(w: Writer, array: str, place: str, extent: int) -> tuple[str, str]:
    """Write how an index is read."""
    given = w.value("int64", w.cast("int64", w.load(array, place), w.signature.dtypes[array]))
    zero, whole = w.constant(0, "int64"), w.constant(extent, "int64")
    at = w.value("int64", w.select(f"({given} < {zero})", f"{given} + {whole}", given))
    return at, w.value("bool", w.both(f"({at} >= {zero})", f"({at} < {whole})"))


def nearest(w: Writer, at: str, extent: int) -> str:
    """Write the element nearest to an index."""
    zero, last = w.constant(0, "int64"), w.constant(max(extent - 1, 0), "int64")
    above = w.value("int64", w.select(f"({at} > {last})", last, at))
    return w.value("int64", w.select(f"({above} < {zero})", zero, above))


def write_status(w: Writer, array: str, count: int, extents: Sequence[int], first: str) -> None:
    """Write that one work-item looks at all indices and sets the status to one and the place of the first bad one."""
    with w.when(first):
        bad = w.variable("int32", w.constant(0, "int32"))
        with w.loop("0", str(count // len(extents))) as row:
            for number, extent in enumerate(extents):
                place = w.index(f"{row} * {len(extents)} + {number}")
                _, inside = write_index(w, array, place, extent)
                with w.when(w.both(w.negate(inside), f"{bad} == {w.constant(0, 'int32')}")):
                    w.assign(bad, "int32", f"{place} + 1")
        w.store("status", "0", bad)
