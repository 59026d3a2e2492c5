# SPDX-License-Identifier: Apache-2.0
"""Decomposition of transpositions into planes whose rows become columns."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.kernels.onednn.operations.data_movement import MOST_LINES
from syclsched.kernels.tensor.writing.iteration_space import IterationSpace, contiguous_strides, iteration_space
from syclsched.kernels.tensor.writing.kernel_writer import LANES
from syclsched.model.operation import Signature


@dataclass(frozen=True, slots=True)
class TransposePlanes:
    """A transposition as planes of x whose rows are written as columns."""

    # Extents of a plane of x; columns are contiguous in x, rows in y.
    rows: int
    columns: int
    row_stride: int  # between rows, in x
    column_stride: int  # between columns, in y
    planes: tuple[tuple[int, int, int], ...]  # extent, stride in x and stride in y of every other axis

    @property
    def is_thin(self) -> bool:
        """Whether there are fewer rows than a square tile has: their elements are interleaved."""
        return self.rows < LANES


def _strides(signature: Signature, permutation: tuple[int, ...]) -> tuple[int, ...]:
    strides = contiguous_strides(signature.shapes["x"])
    return tuple(strides[axis] for axis in permutation)


def transposed_space(signature: Signature, permutation: tuple[int, ...]) -> IterationSpace:
    """Return the iteration space of y, with the strides of x."""
    return iteration_space(signature.shapes["y"], [_strides(signature, permutation)])


def transpose_planes(signature: Signature, permutation: tuple[int, ...]) -> TransposePlanes | None:
    """Return the planes to transpose; None if lines of x stay lines or are too short.

    If the rows are few, the columns are contiguous in y.
    """
    space = transposed_space(signature, permutation)
    shape, strides = space.shape, space.strides[0]
    if 1 not in strides or strides[-1] == 1 or 0 in shape:
        return None
    inner = strides.index(1)
    is_thin = shape[-1] <= MOST_LINES and inner == len(shape) - 2
    if shape[inner] < LANES or (shape[-1] < LANES and not is_thin):
        return None
    y_strides = contiguous_strides(shape)
    others = [axis for axis in range(len(shape) - 1) if axis != inner]
    planes = tuple((shape[axis], strides[axis], y_strides[axis]) for axis in others)
    return TransposePlanes(shape[-1], shape[inner], strides[-1], y_strides[inner], planes)
