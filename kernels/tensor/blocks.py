# SPDX-License-Identifier: Apache-2.0
"""Going through columns in blocks: a work-item has as many neighbouring ones as make a long read of each row.

Lines of an array that are far apart are cheap to read in long pieces only: of pieces as short as a vector, each is a
page and a prefetch of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from syclsched.kernels.common import ceil_div
from syclsched.kernels.tensor.lines import Walk, take_apart
from syclsched.kernels.tensor.writer import LANES, Writer
from syclsched.model.operation import DeviceLimits, Launch

#: How many blocks there should be, for all compute units to have some.
_BLOCKS = 16


def block_vectors(way: Walk, most: int) -> int:
    """Return how many times `LANES` columns a work-item takes, or 0 where columns are not neighbours, or are few.

    Parameters
    ----------
    way : Walk
        Through the columns; beside it runs the first element of each.
    most : int
        Of these, at most; a power of two.
    """
    if not way.shape or 0 in way.shape or way.strides[0][-1] != 1:
        return 0
    *outer, inner = way.shape
    while most > 1 and (inner < most * LANES or math.prod(outer) * ceil_div(inner, most * LANES) < _BLOCKS):
        most //= 2
    return most if most > 1 else 0


def write_blocks(w: Writer, way: Walk, vectors: int, body: Callable[[str, str], None]) -> None:
    """Write a kernel that does something for every block of columns.

    Parameters
    ----------
    w : Writer
        Where to.
    way : Walk
        Through the columns.
    vectors : int
        What `block_vectors` says.
    body : callable
        Given the index of the block's first column, and that of the first element of it, writes what is done.
    """
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
