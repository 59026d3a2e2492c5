# SPDX-License-Identifier: Apache-2.0
"""Transpositions as planes whose rows become columns."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.kernels.tensor.lines import Walk, contiguous_strides, walk
from syclsched.kernels.tensor.writer import LANES
from syclsched.model.operation import Signature


@dataclass(frozen=True, slots=True)
class Tiles:
    """A transposition as planes of x, each with its rows written as columns."""

    #: Of a plane of x; the columns are neighbours in x, the rows in y.
    rows: int
    columns: int
    row_stride: int  # in x, between rows
    column_stride: int  # in y, between columns
    planes: tuple[tuple[int, int, int], ...]  # for every other axis its extent and its strides in x and in y


def _strides(signature: Signature, permutation: tuple[int, ...]) -> tuple[int, ...]:
    strides = contiguous_strides(signature.shapes["x"])
    return tuple(strides[axis] for axis in permutation)


def transposed_walk(signature: Signature, permutation: tuple[int, ...]) -> Walk:
    """Return the way through y of a transposition, beside it that through x."""
    return walk(signature.shapes["y"], [_strides(signature, permutation)])


def transposed_tiles(signature: Signature, permutation: tuple[int, ...]) -> Tiles | None:
    """Return the planes to be transposed, or None where lines of x stay lines, or are too short to be worth it."""
    way = transposed_walk(signature, permutation)
    shape, strides = way.shape, way.strides[0]
    if 1 not in strides or strides[-1] == 1 or 0 in shape:
        return None
    inner = strides.index(1)
    if min(shape[-1], shape[inner]) < LANES:
        return None
    own = contiguous_strides(shape)
    others = [axis for axis in range(len(shape) - 1) if axis != inner]
    planes = tuple((shape[axis], strides[axis], own[axis]) for axis in others)
    return Tiles(shape[-1], shape[inner], strides[-1], own[inner], planes)
