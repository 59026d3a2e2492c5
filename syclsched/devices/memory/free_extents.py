# SPDX-License-Identifier: Apache-2.0
"""Free list of memory regions: best fit with immediate coalescing. Pure.

Boundary tags as in Knuth, The Art of Computer Programming 1, 2.5.
"""

from __future__ import annotations

from bisect import bisect_left, insort

#: Number of a region and byte offset in it.
Place = tuple[int, int]


class FreeExtents:
    """The free extents of numbered memory regions."""

    def __init__(self) -> None:
        self._size: dict[Place, int] = {}
        self._start: dict[Place, int] = {}
        self._by_size: list[tuple[int, int, int]] = []
        #: Total size of all free extents.
        self.free_bytes = 0

    def add_region(self, region: int, nbytes: int) -> None:
        """Add a whole region as free; its number must be new."""
        self._put(region, 0, nbytes)
        self.free_bytes += nbytes

    def remove_region(self, region: int, nbytes: int) -> bool:
        """Remove a whole region; return False and change nothing if a part of it is in use."""
        if self._size.get((region, 0)) != nbytes:
            return False
        self._drop(region, 0)
        self.free_bytes -= nbytes
        return True

    def take(self, nbytes: int) -> Place | None:
        """Allocate the beginning of the smallest extent that is large enough; None if there is none."""
        at = bisect_left(self._by_size, (nbytes, -1, -1))
        if at == len(self._by_size):
            return None
        size, region, start = self._by_size[at]
        self._drop(region, start)
        if size > nbytes:
            self._put(region, start + nbytes, size - nbytes)
        self.free_bytes -= nbytes
        return region, start

    def give(self, place: Place, nbytes: int) -> None:
        """Free an allocated extent."""
        region, start = place
        end = start + nbytes
        self.free_bytes += nbytes
        before = self._start.get((region, start))
        if before is not None:
            self._drop(region, before)
            start = before
        after = self._size.get((region, end))
        if after is not None:
            self._drop(region, end)
            end += after
        self._put(region, start, end - start)

    def __len__(self) -> int:
        """Return the number of free extents."""
        return len(self._size)

    def _put(self, region: int, start: int, nbytes: int) -> None:
        self._size[region, start] = nbytes
        self._start[region, start + nbytes] = start
        insort(self._by_size, (nbytes, region, start))

    def _drop(self, region: int, start: int) -> None:
        nbytes = self._size.pop((region, start))
        del self._start[region, start + nbytes]
        del self._by_size[bisect_left(self._by_size, (nbytes, region, start))]
