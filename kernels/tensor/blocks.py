# SPDX-License-Identifier: Apache-2.0
"""What a work-item gets where it makes vectors by itself: some whole rows, or a block of neighbouring columns.

Lines of an array that are far apart are cheap to read in long pieces only: of pieces as short as a vector, each is a
page and a prefetch of its own. Groups are of one work-item, which should have more to do than beginning one takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from syclsched.kernels.common import ITEM_BYTES, ceil_div
from syclsched.kernels.tensor.lines import Walk, take_apart
from syclsched.kernels.tensor.writer import LANES, Writer
from syclsched.model.operation import DeviceLimits, Launch

#: How many blocks there should be, for all compute units to have some.
_BLOCKS = 16
#: Elements that are worth a work-item of its own, and that all have where there are more of these than are needed.
_FEW, _MANY = 1 << 12, 1 << 15


def write_rows(w: Writer, rows: int, body: Callable[[str], None]) -> None:
    """Write a kernel that does something for every row of a number of them, given its number."""
    item, items = w.index(w.item), w.index(w.items)
    each = w.index(w.div(f"({rows - 1} + {items})", items))
    end = w.index(f"({item} + 1) * {each}")
    last = w.index(w.select(f"({end} < {rows})", end, str(rows)))
    with w.loop(f"{item} * {each}", last) as row:
        body(row)


def rows_launch(rows: int, length: int, limits: DeviceLimits) -> Launch:
    """Return the index space of `write_rows` for rows of a length."""
    items = min(rows, rows * length // _FEW, max(_BLOCKS * limits.compute_units, rows * length // _MANY))
    return Launch((max(items, min(rows, 1)),), (1,))


def block_vectors(way: Walk, most: int, dtype: str) -> int:
    """Return how many times `LANES` columns a work-item takes, or 0 where columns are not neighbours, or are few."""
    most = most * 4 // max(ITEM_BYTES[dtype], 4)
    if not way.shape or 0 in way.shape or way.strides[0][-1] != 1:
        return 0
    *outer, inner = way.shape
    while most > 1 and (inner < most * LANES or math.prod(outer) * ceil_div(inner, most * LANES) < _BLOCKS):
        most //= 2
    return most if most > 1 else 0


def even_vectors(way: Walk, most: int) -> int:
    """Return how many times `LANES` columns a work-item takes, at most some: nearly equal parts of a line.

    0 where columns are not neighbours, or are fewer than a vector.
    """
    if not way.shape or 0 in way.shape or way.strides[0][-1] != 1 or way.shape[-1] < LANES:
        return 0
    *outer, inner = way.shape
    parts = min(max(ceil_div(inner, most * LANES), ceil_div(_BLOCKS, math.prod(outer))), inner // LANES)
    return min(ceil_div(inner, parts * LANES), inner // LANES)


def write_blocks(w: Writer, way: Walk, vectors: int, body: Callable[[str, str], None]) -> None:
    """Write a kernel that does something for every block of columns."""
    *outer, inner = way.shape
    width = vectors * LANES
    each = ceil_div(inner, width)
    item = w.index(w.item)
    row = w.index(w.div(item, str(each)))
    start = w.index(f"({item} - {row} * {each}) * {width}")
    if inner % width:
        # The last block is a whole one, too: it does again, with the same result, what the one before it has done.
        start = w.index(w.select(f"({start} < {inner - width})", start, str(inner - width)))
    places = take_apart(w, row, tuple(outer))
    terms = [start, *(f"{place} * {step}" for place, step in zip(places, way.strides[0], strict=False))]
    body(w.index(f"{row} * {inner} + {start}"), w.index(" + ".join(terms)))


def block_launch(way: Walk, vectors: int, limits: DeviceLimits) -> Launch:
    """Return the index space of `write_blocks`: groups of one, as each is in vectors by itself."""
    *outer, inner = way.shape
    return Launch((math.prod(outer) * ceil_div(inner, vectors * LANES),), (1,))
