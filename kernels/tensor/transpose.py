# SPDX-License-Identifier: Apache-2.0
"""`transpose`: axes in another order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import VECTOR_ITEMS, ceil_div
from syclsched.kernels.onednn import movement
from syclsched.kernels.tensor.lines import Walk, contiguous_strides, walk, walk_launch, write_walk
from syclsched.kernels.tensor.making import expect, make, moving_work, read, written
from syclsched.kernels.tensor.source import kernels
from syclsched.kernels.tensor.writer import Writer
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
            *kernels(parameters, partial(_write, permutation=permutation), partial(_launch, permutation=permutation)),
        ),
    )


def _check(signature: Signature, *, permutation: tuple[int, ...]) -> str | None:
    x = signature.shapes["x"]
    if len(x) != len(permutation):
        return f"{permutation} is no permutation of the axes of {x}"
    return expect(signature, tuple(x[axis] for axis in permutation), f"{x} transposed by {permutation}")


def _host(*, permutation: tuple[int, ...], y: Any, x: Any) -> None:
    y[...] = x.transpose(permutation)


#: Side of a tile, in elements: a line of it is a whole number of the widest vectors and cache lines.
_TILE = 2 * VECTOR_ITEMS


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
    if min(shape[-1], shape[inner]) < VECTOR_ITEMS:
        return None
    own = contiguous_strides(shape)
    others = [axis for axis in range(len(shape) - 1) if axis != inner]
    planes = tuple((shape[axis], strides[axis], own[axis]) for axis in others)
    return _Tiles(shape[-1], shape[inner], strides[-1], own[inner], planes)


def _write(w: Writer, *, permutation: tuple[int, ...]) -> None:
    tiles = _tiles(w.signature, permutation)
    if tiles is None:
        write_walk(w, _walk(w.signature, permutation), lambda at, others: w.store("y", at, w.load("x", others[0])))
        return
    down, across = ceil_div(tiles.rows, _TILE), ceil_div(tiles.columns, _TILE)
    number = w.index(w.plane_row)
    places: list[str] = []
    for extent in (across, down, *(extent for extent, _, _ in reversed(tiles.planes))):
        rest = w.index(w.div(number, str(extent)))
        places.append(w.index(f"{number} - {rest} * {extent}"))
        number = rest
    planes = list(zip(places[2:], reversed(tiles.planes), strict=True))
    column, row = w.index(f"{places[0]} * {_TILE}"), w.index(f"{places[1]} * {_TILE}")
    base_x = w.index(" + ".join([column, *(f"{p} * {s}" for p, (_, s, _) in planes)]))
    base_y = w.index(" + ".join([row, *(f"{p} * {s}" for p, (_, _, s) in planes)]))
    _write_tile(w, tiles, row, column, base_x, base_y)


def _write_tile(w: Writer, tiles: _Tiles, row: str, column: str, x: str, y: str) -> None:
    dtype = w.signature.dtypes["x"]
    lane = w.index(w.plane_column)
    rows = w.index(w.select(f"({row} + {_TILE} < {tiles.rows})", str(_TILE), f"{tiles.rows} - {row}"))
    # Through memory of the group's own, lines are read and lines are written. A column more than it has, for lanes that
    # read a column of it to find their elements in different banks.
    tile = w.shared(dtype, _TILE * (_TILE + 1))
    with w.when(f"{column} + {lane} < {tiles.columns}"), w.loop("0", rows) as k:
        element = w.load("x", f"{x} + {lane} + ({row} + {k}) * {tiles.row_stride}")
        if tile is None:
            w.store("y", f"{y} + {k} + ({column} + {lane}) * {tiles.column_stride}", element)
        else:
            w.assign(f"{tile}[{k} * {_TILE + 1} + {lane}]", dtype, element)
    if tile is not None:
        columns = w.index(
            w.select(f"({column} + {_TILE} < {tiles.columns})", str(_TILE), f"{tiles.columns} - {column}")
        )
        w.barrier()
        with w.when(f"{lane} < {rows}"), w.loop("0", columns) as k:
            w.store(
                "y", f"{y} + {lane} + ({column} + {k}) * {tiles.column_stride}", f"{tile}[{lane} * {_TILE + 1} + {k}]"
            )


def _launch(signature: Signature, limits: DeviceLimits, *, permutation: tuple[int, ...]) -> Launch:
    tiles = _tiles(signature, permutation)
    if tiles is None:
        return walk_launch(_walk(signature, permutation), limits)
    count = ceil_div(tiles.rows, _TILE) * ceil_div(tiles.columns, _TILE)
    count *= math.prod(extent for extent, _, _ in tiles.planes)
    return Launch((_TILE, count), (_TILE, 1))
