# SPDX-License-Identifier: Apache-2.0
"""Code generation for index arrays: normalisation, clamping, and the status of out-of-range indices."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter


def load_index(w: KernelWriter, array: str, place: str, extent: int | str) -> tuple[str, str]:
    """Emit the load of an index, counted from the front; return its name and whether it is in range."""
    loaded = w.value("int64", w.cast("int64", w.load(array, place), w.signature.dtypes[array]))
    zero, size = w.constant(0, "int64"), _text(w, extent)
    index = w.value("int64", w.select(f"({loaded} < {zero})", f"{loaded} + {size}", loaded))
    return index, w.value("bool", w.all_of(f"({index} >= {zero})", f"({index} < {size})"))


def clamped_index(w: KernelWriter, at: str, extent: int | str) -> str:
    """Emit an index clamped to its axis, and return its name."""
    last = w.constant(max(extent - 1, 0), "int64") if isinstance(extent, int) else f"({extent} - 1)"
    zero = w.constant(0, "int64")
    not_above = w.value("int64", w.select(f"({at} > {last})", last, at))
    return w.value("int64", w.select(f"({not_above} < {zero})", zero, not_above))


def _text(w: KernelWriter, extent: int | str) -> str:
    return w.constant(extent, "int64") if isinstance(extent, int) else extent


def write_index_check(w: KernelWriter, rows: str, extents: Sequence[int | str], first: str) -> None:
    """Emit a check of all rows of indices by one work-item; the status is 0, or 1 + position of the first bad index."""
    with w.if_block(first):
        bad = w.variable("int32", w.constant(0, "int32"))
        with w.loop("0", rows) as row:
            for number, extent in enumerate(extents):
                place = w.index(f"{row} * {len(extents)} + {number}")
                _, inside = load_index(w, "indices", place, extent)
                with w.if_block(w.all_of(w.negate(inside), f"{bad} == {w.constant(0, 'int32')}")):
                    w.assign(bad, "int32", f"{place} + 1")
        w.store("status", "0", bad)
