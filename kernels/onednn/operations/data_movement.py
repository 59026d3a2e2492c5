# SPDX-License-Identifier: Apache-2.0
"""oneDNN data movement: transposition and concatenation."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Final

from syclsched.kernels.common import VECTOR_ITEMS
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Shape, plain
from syclsched.model.operation import Implementation, Signature

#: Element types that can be moved.
MOVED = ("float32", "int32")


def concat(*, axis: int, count: int) -> Implementation:
    """Return oneDNN's concatenation: parameters y, x0, x1, ..."""
    return implementation(partial(_concat, axis=axis, count=count), efficiency=0.5, dtypes=MOVED)


def _concat(signature: Signature, *, axis: int, count: int) -> PrimitiveSpec:
    dtype = signature.dtypes["y"]

    def lines(name: str) -> Shape:
        shape = signature.shapes[name]
        return prod(shape[:axis]), prod(shape[axis:])

    parts = tuple(
        PrimitiveArgument(f"x{i}", c_api.MULTIPLE_SRC + i, plain(lines(f"x{i}"), dtype)) for i in range(count)
    )
    return PrimitiveSpec(
        PrimitiveRequest("concat", (*parts, PrimitiveArgument("y", c_api.DST, plain(lines("y"), dtype))), (1,))
    )


def transpose(*, permutation: Shape) -> Implementation:
    """Return oneDNN's reorder for a transposition: parameters y and x."""
    return implementation(partial(_transpose, permutation=permutation), efficiency=0.3, dtypes=MOVED)


def _transpose(signature: Signature, *, permutation: Shape) -> PrimitiveSpec:
    dtype = signature.dtypes["y"]
    if _has_few_lines(signature.shapes["x"], permutation):  # its reorder takes several times as long
        raise refuse("a kernel interleaves few lines")
    shape, order = merged(signature.shapes["x"], permutation)
    most = c_api.MAX_DIMENSIONS
    if len(shape) > most:
        raise refuse(f"there are at most {most} axes")
    x = plain(shape, dtype).permuted(order)
    y = plain(x.dims, dtype)
    return PrimitiveSpec(
        PrimitiveRequest("reorder", (PrimitiveArgument("x", c_api.SRC, x), PrimitiveArgument("y", c_api.DST, y)))
    )


#: Most lines that are interleaved by vector shuffles, as the channels of an image: each vector of the result takes one
#: for each of them.
MOST_LINES: Final = 8


def _has_few_lines(shape: Shape, permutation: Shape) -> bool:
    """Return whether a transposition makes many short lines of a few long ones."""
    extents, order = merged(shape, permutation)
    return order in ((1, 0), (0, 2, 1)) and extents[-2] <= MOST_LINES and extents[-1] >= VECTOR_ITEMS


def merged(shape: Shape, permutation: Shape) -> tuple[Shape, Shape]:
    """Return a transposition with the fewest axes: adjacent axes merged, axes of extent 1 removed."""
    runs: list[list[int]] = []
    for axis in (a for a in permutation if shape[a] != 1):
        if runs and all(shape[a] == 1 for a in range(runs[-1][-1] + 1, axis)) and axis > runs[-1][-1]:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    if not runs:
        return (1,), (0,)
    places = sorted(range(len(runs)), key=lambda i: runs[i][0])
    extents = tuple(prod(shape[a] for a in runs[i]) for i in places)
    return extents, tuple(places.index(i) for i in range(len(runs)))
