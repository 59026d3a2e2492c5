# SPDX-License-Identifier: Apache-2.0
"""Tensor descriptions for oneDNN: logical extents, data type, and strides or a layout that oneDNN chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a primitive."""

    dims: Shape  # extents in oneDNN's logical order: batch, channels, spatial
    dtype: str  # NumPy dtype name
    #: In elements; None lets the library choose the layout (see `primitives.Primitive.layout`).
    strides: Shape | None

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    def with_any_layout(self) -> Tensor:
        """Return the tensor with the layout left to the library."""
        return replace(self, strides=None)

    def permuted(self, axes: Sequence[int]) -> Tensor:
        """Return the same data with axis ``axes[i]`` at position ``i``."""
        strides = None if self.strides is None else tuple(self.strides[a] for a in axes)
        return Tensor(tuple(self.dims[a] for a in axes), self.dtype, strides)

    def padded_to(self, ndim: int) -> Tensor:
        """Return the tensor with leading extents of 1, as in broadcasting."""
        missing = ndim - len(self.dims)
        strides = None if self.strides is None else (self.size or 1,) * missing + self.strides
        return Tensor((1,) * missing + self.dims, self.dtype, strides)


def contiguous_strides(shape: Shape) -> Shape:
    """Return the strides of a C-contiguous array, in elements."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(extent, 1))
    return tuple(reversed(strides)) if shape else ()


def plain(shape: Shape, dtype: str) -> Tensor:
    """Return the description of a C-contiguous array; a 0-d array counts as one element."""
    shape = shape or (1,)
    return Tensor(shape, dtype, contiguous_strides(shape))


def activations(shape: Shape, dtype: str, *, channels_last: bool) -> Tensor:
    """Return a C-contiguous array (N, C, ...) or (N, ..., C) with its channels second, as oneDNN orders them."""
    tensor = plain(shape, dtype)
    if not channels_last:
        return tensor
    return tensor.permuted((0, len(shape) - 1, *range(1, len(shape) - 1)))
