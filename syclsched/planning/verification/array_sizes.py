# SPDX-License-Identifier: Apache-2.0
"""Sizes of a graph's arrays as text. Blocks of one matrix, named by their indices, are described together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from syclsched.model.text.units import listed

if TYPE_CHECKING:
    from syclsched.model.plan import PlannedArray

_BLOCK = re.compile(r"(.+)\[(\d+(?:,\d+)*)\]")
#: Arrays that are described; the rest is counted.
_MOST_NAMED = 3


def describe_sizes(arrays: Sequence[PlannedArray]) -> str:
    """Return the shapes of the largest arrays, and of matrices that are stored in blocks."""
    blocks: dict[str, dict[tuple[int, ...], tuple[int, ...]]] = {}
    found: list[tuple[int, str]] = []
    totals: dict[str, int] = {}
    for array in arrays:
        if array.rows is not None:
            continue
        name, index = array.name, _BLOCK.fullmatch(array.name)
        place = () if index is None else tuple(map(int, index[2].split(",")))
        if index is None or len(place) != len(array.shape):
            found.append((-array.nbytes, f"{name} ({_extents(array.shape)} {array.dtype})"))
            continue
        blocks.setdefault(index[1], {})[place] = array.shape
        totals[index[1]] = totals.get(index[1], 0) + array.nbytes
    for name, shapes in blocks.items():
        whole = _extents(tuple(_extent(shapes, axis) for axis in range(len(next(iter(shapes))))))
        largest = _extents(max(shapes.values()))
        found.append((-totals[name], f"{name} ({whole} in {len(shapes)} blocks of {largest})"))
    return listed([text for _, text in sorted(found)], _MOST_NAMED) or "no arrays"


def _extent(shapes: dict[tuple[int, ...], tuple[int, ...]], axis: int) -> int:
    """Return the extent of the whole matrix along an axis."""
    return sum({place[axis]: shape[axis] for place, shape in shapes.items()}.values())


def _extents(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "scalar"
