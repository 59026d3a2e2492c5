# SPDX-License-Identifier: Apache-2.0
"""`transpose`: axes in another order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ITEM_BYTES, ceil_div
from syclsched.kernels.onednn import movement
from syclsched.kernels.tensor.lines import Walk, contiguous_strides, take_apart, walk, walk_launch, write_walk
from syclsched.kernels.tensor.making import expect, make, moving_work, read, written
from syclsched.kernels.tensor.source import kernels
from syclsched.kernels.tensor.writer import LANES, Writer
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split


@cache
def transpose(permutation: tuple[int, ...]) -> Operation:
    """Return the operation that writes ``x`` with its axes in another order to ``y``.

    Parameters
    ----------
    permutation : tuple of int
        Axis ``i`` of the result is axis ``permutation[i]`` of ``x``.

    Returns
    -------
    Operation

    Raises
    ------
    ArgumentError
        If it is no permutation.
    """
    if sorted(permutation) != list(range(len(permutation))):
        raise ArgumentError(f"{permutation} is no permutation", where="transpose")
    parameters = (written(), read(like="y"))
    return make(
        f"transpose {','.join(map(str, permutation))}",
        parameters,
        partial(_host, permutation=permutation),
        partial(_check, permutation=permutation),
        work=moving_work,
        split=Split(("y", "x")) if permutation[:1] == (0,) else None,
        kernels=(
            movement.transpose(permutation=permutation),
            *kernels(
                parameters,
                partial(_write, permutation=permutation),
                partial(_launch, permutation=permutation),
                revision="2",
            ),
        ),
    )


def _check(signature: Signature, *, permutation: tuple[int, ...]) -> str | None:
    x = signature.shapes["x"]
    if len(x) != len(permutation):
        return f"{permutation} is no permutation of the axes of {x}"
    return expect(signature, tuple(x[axis] for axis in permutation), f"{x} transposed by {permutation}")


def _host(*, permutation: tuple[int, ...], y: Any, x: Any) -> None:
    y[...] = x.transpose(permutation)


#: Bytes of a line that a work-item writes, and reads: as much as it takes for neither to cost a page for little.
_WRITTEN, _READ = 256, 512
#: Work-items there should be.
_ENOUGH = 16


@dataclass(frozen=True, slots=True)
class _Tiles:
    """A transposition as planes of x, each with its rows written as columns.

    Parameters
    ----------
    rows, columns : int
        Of a plane of x; the columns are neighbours in x, the rows in y.
    row_stride : int
        In x, between rows.
    column_stride : int
        In y, between columns.
    planes : tuple of (int, int, int)
        For every other axis its extent and its strides in x and in y.
    """

    rows: int
    columns: int
    row_stride: int
    column_stride: int
    planes: tuple[tuple[int, int, int], ...]


def _strides(signature: Signature, permutation: tuple[int, ...]) -> tuple[int, ...]:
    strides = contiguous_strides(signature.shapes["x"])
    return tuple(strides[axis] for axis in permutation)


def _walk(signature: Signature, permutation: tuple[int, ...]) -> Walk:
    return walk(signature.shapes["y"], [_strides(signature, permutation)])


def _tiles(signature: Signature, permutation: tuple[int, ...]) -> _Tiles | None:
    """Return the planes to be transposed, or None where lines of x stay lines, or are too short to be worth it."""
    way = _walk(signature, permutation)
    shape, strides = way.shape, way.strides[0]
    if 1 not in strides or strides[-1] == 1 or 0 in shape:
        return None
    inner = strides.index(1)
    if min(shape[-1], shape[inner]) < LANES:
        return None
    own = contiguous_strides(shape)
    others = [axis for axis in range(len(shape) - 1) if axis != inner]
    planes = tuple((shape[axis], strides[axis], own[axis]) for axis in others)
    return _Tiles(shape[-1], shape[inner], strides[-1], own[inner], planes)


def _block(tiles: _Tiles, dtype: str) -> tuple[int, int]:
    """Return how many rows and columns of a plane a work-item turns: fewer where there would be few work-items."""
    size = ITEM_BYTES[dtype]
    rows, columns = _WRITTEN // size, _READ // size
    planes = math.prod(extent for extent, _, _ in tiles.planes)
    while (
        rows * columns > LANES * LANES
        and planes * ceil_div(tiles.rows, rows) * ceil_div(tiles.columns, columns) < _ENOUGH
    ):
        rows, columns = max(rows // 2, LANES), max(columns // 2, LANES)
    return rows, columns


def _blocks(tiles: _Tiles, rows: int, columns: int) -> int:
    planes = math.prod(extent for extent, _, _ in tiles.planes)
    return planes * ceil_div(tiles.rows, rows) * ceil_div(tiles.columns, columns)


def _write(w: Writer, *, permutation: tuple[int, ...]) -> None:
    tiles = _tiles(w.signature, permutation)
    if tiles is None:
        write_walk(w, _walk(w.signature, permutation), lambda at, others: w.store("y", at, w.load("x", others[0])))
        return
    rows, columns = _block(tiles, w.signature.dtypes["x"])
    down, across = ceil_div(tiles.rows, rows), ceil_div(tiles.columns, columns)
    # Neighbouring work-items write on where the last one ended.
    extents = (*(extent for extent, _, _ in tiles.planes), across, down)
    *planes, column, row = take_apart(w, w.index(w.item), extents)
    steps = [(place, x, y) for place, (_, x, y) in zip(planes, tiles.planes, strict=True)]
    base_x = w.index(" + ".join(["0", *(f"{place} * {x}" for place, x, _ in steps)]))
    base_y = w.index(" + ".join(["0", *(f"{place} * {y}" for place, _, y in steps)]))
    with w.loop("0", str(columns), str(LANES)) as i, w.loop("0", str(rows), str(LANES)) as k:
        # What would begin beyond the last place where a square fits begins there, and is done once more.
        c = _at_most(w, f"{column} * {columns} + {i}", tiles.columns - LANES)
        r = _at_most(w, f"{row} * {rows} + {k}", tiles.rows - LANES)
        w.turn(
            f"{base_y} + {c} * {tiles.column_stride} + {r}",
            str(tiles.column_stride),
            f"{base_x} + {r} * {tiles.row_stride} + {c}",
            str(tiles.row_stride),
        )


def _at_most(w: Writer, expression: str, most: int) -> str:
    given = w.index(expression)
    return w.index(w.select(f"({given} < {most})", given, str(most)))


def _launch(signature: Signature, limits: DeviceLimits, *, permutation: tuple[int, ...]) -> Launch:
    tiles = _tiles(signature, permutation)
    if tiles is None:
        return walk_launch(_walk(signature, permutation), limits)
    # A group for each, as each is in vectors by itself.
    return Launch((_blocks(tiles, *_block(tiles, signature.dtypes["x"])),), (1,))
