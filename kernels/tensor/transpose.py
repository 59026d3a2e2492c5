# SPDX-License-Identifier: Apache-2.0
"""`transpose`: permutation of axes."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ITEM_BYTES, ceil_div, with_recipe
from syclsched.kernels.onednn.operations import data_movement
from syclsched.kernels.tensor import transpose_groups
from syclsched.kernels.tensor.operation_factory import (
    copy_work,
    input_parameter,
    make_operation,
    output_parameter,
    shape_error,
)
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import iteration_launch, unravel_index, write_iteration
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter
from syclsched.kernels.tensor.writing.lines import least
from syclsched.kernels.tensor.writing.transpose_tiles import TransposePlanes, transpose_planes, transposed_space
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split


@with_recipe
@cache
def transpose(permutation: tuple[int, ...]) -> Operation:
    """Return the operation that writes ``x`` with permuted axes to ``y``."""
    if sorted(permutation) != list(range(len(permutation))):
        raise ArgumentError(f"{permutation} is no permutation", where="transpose")
    parameters = (output_parameter(), input_parameter(like="y"))
    return make_operation(
        f"transpose {','.join(map(str, permutation))}",
        parameters,
        partial(_host, permutation=permutation),
        partial(_check, permutation=permutation),
        work=copy_work,
        split=Split(("y", "x")) if permutation[:1] == (0,) else None,
        kernels=(
            data_movement.transpose(permutation=permutation),
            transpose_groups.transpose(permutation),
            *generated_implementations(
                parameters,
                partial(_write, permutation=permutation),
                partial(_launch, permutation=permutation),
                revision="6",
                takes_extents=partial(_takes_extents, permutation=permutation),
            ),
        ),
    )


def _check(signature: Signature, *, permutation: tuple[int, ...]) -> str | None:
    x = signature.shapes["x"]
    if len(x) != len(permutation):
        return f"{permutation} is no permutation of the axes of {x}"
    return shape_error(signature, tuple(x[axis] for axis in permutation), f"{x} transposed by {permutation}")


def _host(*, permutation: tuple[int, ...], y: Any, x: Any) -> None:
    y[...] = x.transpose(permutation)


#: Target bytes per line that a work-item writes and reads: enough to amortise the cost of touching a page. If lines to
#: read are shorter, it takes more of them.
_WRITTEN, _READ = 128, 4096
#: Desired number of work-items.
_MIN_ITEMS = 16


def _block(tiles: TransposePlanes, dtype: str) -> tuple[int, int]:
    """Return the rows and columns of a plane per work-item; smaller if there would be few work-items."""
    most = _READ // ITEM_BYTES[dtype]
    columns = _even(tiles.columns, most)
    rows = tiles.rows if tiles.is_thin else _even(tiles.rows, _WRITTEN // ITEM_BYTES[dtype] * most // columns)
    while rows * columns > LANES * LANES and _blocks(tiles, rows, columns) < _MIN_ITEMS:
        if columns > rows:
            columns = _even(tiles.columns, columns // 2)
        else:
            rows = _even(tiles.rows, rows // 2)
    return rows, columns


def _even(extent: int, most: int) -> int:
    """Return the block size that divides an extent most evenly, in multiples of the tile size."""
    return ceil_div(ceil_div(extent, ceil_div(extent, max(most, LANES))), LANES) * LANES


def _blocks(tiles: TransposePlanes, rows: int, columns: int) -> int:
    planes = math.prod(extent for extent, _, _ in tiles.planes)
    return planes * ceil_div(tiles.rows, rows) * ceil_div(tiles.columns, columns)


def _takes_extents(signature: Signature, *, permutation: tuple[int, ...]) -> bool:
    """Return whether the kernel takes extents as arguments: square tiles would take up to a tenth longer."""
    tiles = transpose_planes(signature, permutation)
    return transposed_space(signature, permutation).shares_code if tiles is None else tiles.is_thin


def _write(w: KernelWriter, *, permutation: tuple[int, ...]) -> None:
    tiles = transpose_planes(w.signature, permutation)
    if tiles is None:
        write_iteration(
            w, transposed_space(w.signature, permutation), lambda at, others: w.store("y", at, w.load("x", others[0]))
        )
        return
    rows, columns = _block(tiles, w.signature.dtypes["x"])
    down, across = ceil_div(tiles.rows, rows), ceil_div(tiles.columns, columns)
    # Neighbouring work-items write neighbouring memory. A constant 1 saves a division by an argument.
    extents = [w.number(f"plane_{n}", extent) for n, (extent, _, _) in enumerate(tiles.planes)]
    extents += ["1" if across == 1 else w.number("across", across), str(down)]
    *planes, column, row = unravel_index(w, w.index(w.item), extents)
    steps = [
        (place, w.number(f"x_{n}", x), w.number(f"y_{n}", y))
        for n, (place, (_, x, y)) in enumerate(zip(planes, tiles.planes, strict=True))
    ]
    base_x = w.index(" + ".join(["0", *(f"{place} * {x}" for place, x, _ in steps)]))
    base_y = w.index(" + ".join(["0", *(f"{place} * {y}" for place, _, y in steps)]))
    width, apart = w.number("width", columns), w.number("row_stride", tiles.row_stride)
    last_column = w.number("last_column", tiles.columns - LANES)
    if tiles.is_thin:
        with w.loop("0", width, str(LANES)) as i:
            c = least(w, w.index(f"{column} * {width} + {i}"), last_column)
            w.interleave(f"{base_y} + {c} * {rows}", f"{base_x} + {c}", apart, rows)
        return
    with w.loop("0", width, str(LANES)) as i, w.loop("0", str(rows), str(LANES)) as k:
        # The last tile is shifted to be full: it overlaps the one before.
        c = least(w, w.index(f"{column} * {width} + {i}"), last_column)
        r = least(w, w.index(f"{row} * {rows} + {k}"), str(tiles.rows - LANES))
        to, start = f"{base_y} + {c} * {tiles.column_stride} + {r}", f"{base_x} + {r} * {apart} + {c}"
        w.transpose_tile(to, str(tiles.column_stride), start, apart)


def _launch(signature: Signature, limits: DeviceLimits, *, permutation: tuple[int, ...]) -> Launch:
    tiles = transpose_planes(signature, permutation)
    if tiles is None:
        return iteration_launch(transposed_space(signature, permutation), limits)
    # One work-item per group: each uses vectors itself.
    return Launch((_blocks(tiles, *_block(tiles, signature.dtypes["x"])),), (1,))
