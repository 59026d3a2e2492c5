# SPDX-License-Identifier: Apache-2.0
"""Work partition of explicitly vectorised kernels: rows, or blocks of neighbouring columns, per work-item.

Lines of an array that are far apart must be read in long pieces: each piece as short as a vector costs a page and a
prefetch. Work-groups have one work-item, with enough work to outweigh the cost of starting a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from syclsched.kernels.common import ITEM_BYTES, ceil_div
from syclsched.kernels.tensor.writing.iteration_space import IterationSpace, unravel_index
from syclsched.kernels.tensor.writing.kernel_writer import BLOCK_VECTORS, LANES, KernelWriter
from syclsched.model.operation import DeviceLimits, Launch

#: Desired number of blocks, for all compute units to have some.
_BLOCKS = 16
#: Minimum elements per work-item, and the target if there are more work-items than needed.
_FEW, _MANY = 1 << 12, 1 << 15


def write_rows(w: KernelWriter, rows: int | str, body: Callable[[str], None]) -> None:
    """Emit a kernel that runs a body for every row, given its number; each work-item has neighbouring rows."""
    item, items = w.index(w.item), w.index(w.items)
    per_item = w.index(w.div(f"({rows} - 1 + {items})", items))
    end = w.index(f"({item} + 1) * {per_item}")
    last = w.index(w.select(f"({end} < {rows})", end, str(rows)))
    with w.loop(f"{item} * {per_item}", last) as row:
        body(row)


def rows_launch(rows: int, length: int, limits: DeviceLimits) -> Launch:
    """Return the launch of `write_rows` for rows of a length."""
    items = min(rows, rows * length // _FEW, max(_BLOCKS * limits.compute_units, rows * length // _MANY))
    return Launch((max(items, min(rows, 1)),), (1,))


def block_vectors(space: IterationSpace, dtype: str, least: int = 2) -> int:
    """Return the number of column vectors per work-item; 0 if columns are not contiguous, or fewer than the least."""
    most = BLOCK_VECTORS * 4 // max(ITEM_BYTES[dtype], 4)
    if not space.shape or 0 in space.shape or space.strides[0][-1] != 1:
        return 0
    *outer, inner = space.shape
    while most > 1 and (inner < most * LANES or math.prod(outer) * ceil_div(inner, most * LANES) < _BLOCKS):
        most //= 2
    return most if most >= least and inner >= LANES else 0


def even_vectors(space: IterationSpace, most: int) -> int:
    """Return the number of column vectors per work-item for a nearly even split; 0 as for `block_vectors`."""
    if not space.shape or 0 in space.shape or space.strides[0][-1] != 1 or space.shape[-1] < LANES:
        return 0
    *outer, inner = space.shape
    parts = min(max(ceil_div(inner, most * LANES), ceil_div(_BLOCKS, math.prod(outer))), inner // LANES)
    return min(ceil_div(inner, parts * LANES), inner // LANES)


def write_blocks(w: KernelWriter, space: IterationSpace, vectors: int, body: Callable[[str, str], None]) -> None:
    """Emit a kernel that runs a body per block of columns, given its index in the result and the operand."""
    *outer, inner = space.shape
    width = vectors * LANES
    blocks_per_row = space.number(w, "blocks", ceil_div(inner, width))
    item = w.index(w.item)
    row = w.index(w.div(item, blocks_per_row))
    start = w.index(f"({item} - {row} * {blocks_per_row}) * {width}")
    if inner % width:
        # The last block is shifted to be full: it overlaps the block before and repeats its results.
        last = space.number(w, "last_block", inner - width)
        start = w.index(w.select(f"({start} < {last})", start, last))
    extents = [space.number(w, f"extent{axis}", n) if axis else str(n) for axis, n in enumerate(outer)]
    places = unravel_index(w, row, extents)
    steps = [space.number(w, f"stride{axis}", step) for axis, step in enumerate(space.strides[0][:-1])]
    terms = [start, *(f"{place} * {step}" for place, step in zip(places, steps, strict=False))]
    body(w.index(f"{row} * {space.number(w, 'length', inner)} + {start}"), w.index(" + ".join(terms)))


def block_launch(space: IterationSpace, vectors: int, limits: DeviceLimits) -> Launch:
    """Return the launch of `write_blocks`: groups of one work-item, because each uses vectors itself."""
    *outer, inner = space.shape
    return Launch((math.prod(outer) * ceil_div(inner, vectors * LANES),), (1,))
