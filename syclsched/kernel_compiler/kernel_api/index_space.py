# SPDX-License-Identifier: Apache-2.0
"""SYCL's index spaces: ranges of work-items, and the identity of a work-item or work-group within one.

The methods that return products and linear indices are ordinary Python; a kernel compiles to the same formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from syclsched.errors import ArgumentError


class Range(tuple[int, ...]):
    """Extents of an index space in 1 to 3 dimensions (``sycl::range``).

    Parameters
    ----------
    dim0, dim1, dim2 : int
        Extents; those that are missing or 0 end the range.
    """

    __slots__ = ()

    def __new__(cls, dim0: int, dim1: int | None = None, dim2: int | None = None) -> Range:
        """Check and store the extents."""
        extents = [dim0]
        for extent in (dim1, dim2):
            if not extent:
                break
            extents.append(extent)
        for axis, extent in enumerate(extents):
            if not isinstance(extent, int):
                raise TypeError(f"dim{axis} of a Range must be an int, not {type(extent).__name__}")
        return super().__new__(cls, extents)

    def get(self, index: int) -> int:
        """Return the extent of one dimension."""
        return self[index]

    def size(self) -> int:
        """Return the number of work-items."""
        return prod(self)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self)

    @property
    def dim0(self) -> int:
        """Extent of the first dimension."""
        return self[0]

    @property
    def dim1(self) -> int:
        """Extent of the second dimension; -1 if there is none."""
        return self[1] if len(self) > 1 else -1

    @property
    def dim2(self) -> int:
        """Extent of the third dimension; -1 if there is none."""
        return self[2] if len(self) > 2 else -1


class NdRange:
    """Extents of an index space and of its work-groups (``sycl::nd_range``).

    Parameters
    ----------
    global_size, local_size : Range or iterable of int
        Extents of the whole index space and of a work-group, in the same number of dimensions.
    """

    __slots__ = ("global_range", "local_range")

    def __init__(self, global_size: Iterable[int], local_size: Iterable[int]) -> None:
        for name, size in (("global_size", global_size), ("local_size", local_size)):
            if not isinstance(size, Iterable):
                raise TypeError(f"{name} of an NdRange must be a Range or an iterable of int")
        self.global_range, self.local_range = Range(*global_size), Range(*local_size)
        if len(self.global_range) != len(self.local_range):
            raise ArgumentError(
                f"an NdRange has {len(self.global_range)} global and {len(self.local_range)} local dimensions"
            )
        for axis, (whole, part) in enumerate(zip(self.global_range, self.local_range, strict=True)):
            if part < 1 or whole % part:
                raise ArgumentError(
                    f"dimension {axis} of an NdRange has {whole} work-items, which groups of {part} do not divide"
                )

    def get_global_range(self) -> Range:
        """Return the extents of the index space."""
        return self.global_range

    def get_local_range(self) -> Range:
        """Return the extents of a work-group."""
        return self.local_range

    def __repr__(self) -> str:
        return f"({self.global_range}, {self.local_range})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NdRange):
            return NotImplemented
        return self.global_range == other.global_range and self.local_range == other.local_range

    def __hash__(self) -> int:
        return hash((self.global_range, self.local_range))


def _linear(index: Sequence[int], extents: Sequence[int]) -> int:
    """Return the position of an index in row-major order."""
    position = 0
    for each, extent in zip(index, extents, strict=True):
        position = position * extent + each
    return position


class Item:
    """A work-item of a kernel that is launched over a `Range` (``sycl::item``)."""

    def __init__(self, extent: Range, index: Sequence[int]) -> None:
        self._extent, self._index = extent, tuple(index)

    def get_id(self, idx: int) -> int:
        """Return the work-item's index in one dimension."""
        return self._index[idx]

    def get_linear_id(self) -> int:
        """Return the work-item's index in row-major order."""
        return _linear(self._index, self._extent)

    def get_range(self, idx: int) -> int:
        """Return the number of work-items in one dimension."""
        return self._extent[idx]

    def get_linear_range(self) -> int:
        """Return the number of all work-items."""
        return prod(self._extent)

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the index space."""
        return len(self._extent)


class Group:
    """A work-group of a kernel that is launched over an `NdRange` (``sycl::group``)."""

    def __init__(
        self, global_range: Range, local_range: Range, group_range: Range, index: Sequence[int], *, leader: bool = False
    ) -> None:
        self._global_range, self._local_range, self._group_range = global_range, local_range, group_range
        self._index, self._leader = tuple(index), leader

    def get_group_id(self, dim: int) -> int:
        """Return the group's index in one dimension."""
        return self._index[dim]

    def get_group_linear_id(self) -> int:
        """Return the group's index in row-major order."""
        return _linear(self._index, self._group_range)

    def get_group_range(self, dim: int) -> int:
        """Return the number of groups in one dimension."""
        return self._group_range[dim]

    def get_group_linear_range(self) -> int:
        """Return the number of all groups."""
        return prod(self._group_range)

    def get_local_range(self, dim: int) -> int:
        """Return the number of work-items of a group in one dimension."""
        return self._local_range[dim]

    def get_local_linear_range(self) -> int:
        """Return the number of work-items of a group."""
        return prod(self._local_range)

    @property
    def leader(self) -> bool:
        """Whether the calling work-item is the group's first."""
        return self._leader

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the index space."""
        return len(self._global_range)


class NdItem:
    """A work-item of a kernel that is launched over an `NdRange` (``sycl::nd_item``)."""

    def __init__(self, global_item: Item, local_item: Item, group: Group) -> None:
        self._global_item, self._local_item, self._group = global_item, local_item, group

    def get_global_id(self, idx: int) -> int:
        """Return the work-item's index in one dimension."""
        return self._global_item.get_id(idx)

    def get_global_linear_id(self) -> int:
        """Return the work-item's index in row-major order."""
        return self._global_item.get_linear_id()

    def get_local_id(self, idx: int) -> int:
        """Return the work-item's index within its group in one dimension."""
        return self._local_item.get_id(idx)

    def get_local_linear_id(self) -> int:
        """Return the work-item's index within its group in row-major order."""
        return self._local_item.get_linear_id()

    def get_global_range(self, idx: int) -> int:
        """Return the number of work-items in one dimension."""
        return self._global_item.get_range(idx)

    def get_global_linear_range(self) -> int:
        """Return the number of all work-items."""
        return self._global_item.get_linear_range()

    def get_local_range(self, idx: int) -> int:
        """Return the number of work-items of a group in one dimension."""
        return self._local_item.get_range(idx)

    def get_local_linear_range(self) -> int:
        """Return the number of work-items of a group."""
        return self._local_item.get_linear_range()

    def get_group(self) -> Group:
        """Return the work-item's group."""
        return self._group

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the index space."""
        return self._global_item.dimensions
