# SPDX-License-Identifier: Apache-2.0
"""Transposition by work-groups with square tiles in local memory, for coalesced loads and stores.

(Ruetsch and Micikevicius, "Optimizing matrix transpose in CUDA", 2009.) Rows of a tile are padded by one element, so
that its columns lie in different banks of local memory. Where lines of x stay lines of y, the element-wise kernel is as
fast on a GPU.
"""

from __future__ import annotations

import math
from functools import partial

from syclsched.kernels.common import C_TYPES, ITEM_BYTES, ceil_div, extension_pragma
from syclsched.kernels.groups import floor_power_of_two, implementation, lanes, most_items
from syclsched.kernels.tensor.writing.transpose_tiles import TransposePlanes, transpose_planes
from syclsched.model.operation import DeviceLimits, Implementation, Launch, OpenCLSource, Signature


def transpose(permutation: tuple[int, ...]) -> Implementation:
    """Return the implementation of `syclsched.kernels.tensor.transpose.transpose`."""
    return implementation(
        partial(_source, permutation=permutation),
        partial(_launch, permutation=permutation),
        refuses=partial(_refuses, permutation=permutation),
    )


def _refuses(signature: Signature, *, permutation: tuple[int, ...]) -> str | None:
    return None if transpose_planes(signature, permutation) else "lines stay lines or are too short for square tiles"


def _shape(signature: Signature, limits: DeviceLimits) -> tuple[int, int]:
    """Return the side of a tile, and the number of its rows that a group reads at once."""
    size = ITEM_BYTES[signature.dtypes["x"]]
    most = most_items(limits, size)
    side = min(lanes(limits), most)
    while side > 1 and side * (side + 1) * size > limits.local_memory_bytes:
        side //= 2
    return side, floor_power_of_two(min(side, most // side))


def _squares(tiles: TransposePlanes, side: int) -> tuple[int, int, int]:
    planes = math.prod(extent for extent, _, _ in tiles.planes)
    return planes, ceil_div(tiles.rows, side), ceil_div(tiles.columns, side)


def _tiles(signature: Signature, permutation: tuple[int, ...]) -> TransposePlanes:
    tiles = transpose_planes(signature, permutation)
    assert tiles is not None, "it has been refused"
    return tiles


def _launch(signature: Signature, limits: DeviceLimits, *, permutation: tuple[int, ...]) -> Launch:
    side, high = _shape(signature, limits)
    return Launch((math.prod(_squares(_tiles(signature, permutation), side)) * side * high,), (side * high,))


def _source(signature: Signature, limits: DeviceLimits, *, permutation: tuple[int, ...]) -> OpenCLSource:
    tiles, dtype = _tiles(signature, permutation), signature.dtypes["x"]
    side, high = _shape(signature, limits)
    _, down, across = _squares(tiles, side)
    planes, inner_planes = [], 1
    for extent, from_x, to_y in reversed(tiles.planes):
        place = f"plane / {inner_planes} % {extent}"
        planes.append((f"({place}) * {from_x}", f"({place}) * {to_y}"))
        inner_planes *= extent
    from_x, to_y = (" + ".join(terms) or "0" for terms in (zip(*planes, strict=True) if planes else ((), ())))
    index = "int" if math.prod(signature.shapes["x"]) < 1 << 30 else "long"
    # float16 is only copied: integers of its size work on every device.
    kind = "ushort" if dtype == "float16" else C_TYPES[dtype]
    source = f"""{extension_pragma(dtype) if kind != "ushort" else ""}typedef {kind} T;
typedef {index} I;
__kernel __attribute__((reqd_work_group_size({side * high}, 1, 1))) void transpose(
    __global T* restrict y, __global const T* restrict x) {{
  __local T square[{side} * {side + 1}];
  const int l = get_local_id(0), i = l % {side}, first = l / {side};
  const I group = get_group_id(0), plane = group / {down * across};
  const I row = group % {down} * {side}, column = group / {down} % {across} * {side};
  x += {from_x} + row * {tiles.row_stride} + column;
  y += {to_y} + column * {tiles.column_stride} + row;
  for (int j = first; j < {side}; j += {high})
    if (row + j < {tiles.rows} && column + i < {tiles.columns})
      square[j * {side + 1} + i] = x[(I)j * {tiles.row_stride} + i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int j = first; j < {side}; j += {high})
    if (column + j < {tiles.columns} && row + i < {tiles.rows})
      y[(I)j * {tiles.column_stride} + i] = square[i * {side + 1} + j];
}}
"""
    return OpenCLSource(source, "transpose")
