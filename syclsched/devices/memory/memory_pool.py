# SPDX-License-Identifier: Apache-2.0
"""A memory pool: allocations without calls of the runtime and without page faults.

Small blocks are cut from slabs; large ones are allocations of their own. Freed memory of both kinds is kept for reuse.
The first write to fresh pages takes longer than their allocation (on the CPU device 350 us for a MiB), so memory is
touched once, when it is allocated.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

from syclsched.devices.memory.free_extents import FreeExtents, Place
from syclsched.errors import ExecutionError, MemoryLimitError

#: Alignment of blocks: OpenCL's widest vector (16 elements of 8 bytes), as for the runtime's own allocations; two cache
#: lines.
ALIGNMENT_BYTES: Final = 128
#: Small blocks are cut from allocations of this size.
SLAB_BYTES: Final = 1 << 21
#: Blocks up to this fraction of a slab are cut from slabs.
_SLAB_PARTS: Final = 8
#: Under a memory limit a slab is at most this fraction of it, and there are no slabs if they would be tiny, because the
#: unused part of a slab is reserved, too.
_LIMIT_PARTS: Final = 64
_LEAST_SLAB_BYTES: Final = 1 << 16
#: Unused memory that is kept in any case; a pool keeps up to its peak use if that is more.
KEPT_BYTES: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """The memory of a pool, in bytes."""

    in_use_bytes: int = 0  # as requested
    blocks: int = 0  # number of blocks in use
    padding_bytes: int = 0  # added to blocks for their alignment
    #: Allocated from the runtime and not freed: in use, padding, and unused.
    reserved_bytes: int = 0
    #: Peaks since the start.
    peak_in_use_bytes: int = 0
    peak_reserved_bytes: int = 0
    limit_bytes: int = 0  # capacity of the space; 0 if unknown
    allocations: int = 0  # number of allocations from the runtime

    def __add__(self, other: MemoryInfo) -> MemoryInfo:
        """Return the sum of both."""
        return MemoryInfo(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def padded(nbytes: int, alignment_bytes: int = ALIGNMENT_BYTES) -> int:
    """Return the bytes a block occupies, at least one alignment unit: SYCL has no allocation of size zero."""
    return max(-(-nbytes // alignment_bytes), 1) * alignment_bytes


class MemoryBlock:
    """A block of a pool's memory; it is freed by `give_back` or with the last reference to it."""

    __slots__ = ("__weakref__", "_returned", "nbytes", "owner", "place", "pointer")

    def __init__(self, place: Place, nbytes: int, owner: Any, pointer: int, returned: deque[tuple[Place, int]]) -> None:
        self.place = place
        self.nbytes = nbytes
        self.owner: Any = owner
        self.pointer = pointer
        self._returned: deque[tuple[Place, int]] | None = returned

    def give_back(self) -> None:
        """Free the block at once, even if it is still referenced; doing so twice does nothing."""
        returned, self._returned = self._returned, None
        self.owner = None  # references to a freed block must not keep the runtime's memory alive
        if returned is not None:
            returned.append((self.place, self.nbytes))

    # This takes no lock: it runs wherever the last reference is dropped, also inside the pool.
    __del__ = give_back


class SpaceAccounting:
    """Shared accounting of the pools of one memory space, one for each kind: limit, lock and peaks."""

    def __init__(self, limit_bytes: int = 0) -> None:
        self.limit = limit_bytes
        self.lock = threading.Lock()
        self.pools: list[MemoryPool] = []
        self.in_use = self.reserved = self.peak_in_use = self.peak_reserved = 0

    def use(self, nbytes: int) -> None:
        """Count further bytes as in use."""
        self.in_use += nbytes
        self.peak_in_use = max(self.peak_in_use, self.in_use)

    def reserve(self, nbytes: int) -> None:
        """Count further bytes as allocated from the runtime."""
        self.reserved += nbytes
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def info(self) -> MemoryInfo:
        """Return the memory of the space: peaks are those of all its pools together."""
        found = sum((pool.info() for pool in tuple(self.pools)), MemoryInfo())
        with self.lock:
            return replace(
                found,
                peak_in_use_bytes=self.peak_in_use,
                peak_reserved_bytes=self.peak_reserved,
                limit_bytes=self.limit,
            )


class MemoryPool:
    """A pool of memory of one kind in one space; thread-safe."""

    def __init__(
        self,
        allocate: Callable[[int], tuple[Any, int]],
        name: str,
        *,
        limit_bytes: int = 0,
        alignment_bytes: int = ALIGNMENT_BYTES,
        slab_bytes: int = SLAB_BYTES,
        together: SpaceAccounting | None = None,
    ) -> None:
        self._allocate = allocate
        self.name = name
        self._together = SpaceAccounting(limit_bytes) if together is None else together
        self._together.pools.append(self)
        self._limit = limit_bytes = self._together.limit
        self._alignment = alignment_bytes
        slab = min(slab_bytes, limit_bytes // _LIMIT_PARTS) if limit_bytes else slab_bytes
        self._slab = slab // alignment_bytes * alignment_bytes if slab >= _LEAST_SLAB_BYTES else 0
        self._lock = self._together.lock
        self._returned: deque[tuple[Place, int]] = deque()
        #: Regions by number: owner of the memory, address, size.
        self._regions: dict[int, tuple[Any, int, int]] = {}
        self._slabs: set[int] = set()
        self._extents = FreeExtents()
        #: Unused large regions by size, those freed last at the end.
        self._idle: OrderedDict[int, list[int]] = OrderedDict()
        self._idle_bytes = 0
        self._next = 0
        self._in_use = self._blocks = self._padding = self._reserved = self._allocations = 0
        self._peak_in_use = self._peak_reserved = 0
        self._closed = False

    def take(self, nbytes: int, *, touch: Callable[[Any], None] | None = None) -> MemoryBlock:
        """Allocate a block."""
        return self.take_all((nbytes,), touch=touch)[0]

    def take_all(self, sizes: Sequence[int], *, touch: Callable[[Any], None] | None = None) -> list[MemoryBlock]:
        """Allocate blocks of these sizes, small ones side by side; none if they do not all fit."""
        made: list[MemoryBlock] = []
        with self._lock:
            if self._closed:
                raise ExecutionError("the devices are closed", where=f"memory {self.name!r}")
            for pool in self._together.pools:
                pool._collect()
            wide = [padded(nbytes, self._alignment) for nbytes in sizes]
            while len(made) < len(sizes):
                first = last = len(made)
                total = wide[last]
                while (last := last + 1) < len(wide) and total + wide[last] <= self._slab // _SLAB_PARTS:
                    total += wide[last]
                region, start = self._place(total, touch)
                owner, address, _ = self._regions[region]
                for nbytes, size in zip(sizes[first:last], wide[first:last], strict=True):
                    made.append(MemoryBlock((region, start), nbytes, owner, address + start, self._returned))
                    start += size
                used = sum(sizes[first:last])
                self._in_use += used
                self._blocks += last - first
                self._padding += total - used
                self._peak_in_use = max(self._peak_in_use, self._in_use)
                self._together.use(used)
        return made

    def info(self) -> MemoryInfo:
        """Return the memory of the pool."""
        with self._lock:
            self._collect()
            return MemoryInfo(
                self._in_use,
                self._blocks,
                self._padding,
                self._in_use + self._padding if self._closed else self._reserved,
                self._peak_in_use,
                self._peak_reserved,
                self._limit,
                self._allocations,
            )

    def trim(self) -> int:
        """Return unused memory to the runtime; return how many bytes that was."""
        with self._lock:
            self._collect()
            return self._release(self._reserved)

    def close(self) -> None:
        """Return all memory to the runtime; blocks in use follow when they are freed."""
        with self._lock:
            self._closed = True
            self._collect()
            self._release(self._reserved)
            self._regions.clear()  # each block keeps its own
            self._slabs.clear()

    # --- private methods, called with the lock held -----------------------------------------------

    def _collect(self) -> None:
        """Take freed blocks back into the pool."""
        if not self._returned:
            return
        cut: list[tuple[int, int, int]] = []  # blocks of slabs: region, start, end
        while self._returned:
            (region, start), nbytes = self._returned.popleft()
            size = padded(nbytes, self._alignment)
            self._in_use -= nbytes
            self._together.in_use -= nbytes
            self._blocks -= 1
            self._padding -= size - nbytes
            if region not in self._regions:
                continue  # the pool was closed
            if region in self._slabs:
                cut.append((region, start, start + size))
            else:
                self._idle.setdefault(size, []).append(region)
                self._idle.move_to_end(size)
                self._idle_bytes += size
        # A run's blocks are adjacent: neighbours are freed together.
        cut.sort()
        at = 0
        while at < len(cut):
            region, start, end = cut[at]
            at += 1
            while at < len(cut) and cut[at][:2] == (region, end):
                end = cut[at][2]
                at += 1
            self._extents.give((region, start), end - start)

    def _place(self, size: int, touch: Callable[[Any], None] | None) -> Place:
        if size > self._slab // _SLAB_PARTS:
            idle = self._idle.get(size)
            if idle:
                region = idle.pop()
                if not idle:
                    del self._idle[size]
                self._idle_bytes -= size
                return region, 0
            return self._new_region(size, touch), 0
        place = self._extents.take(size)
        if place is None:
            region = self._new_region(self._slab, touch)
            self._slabs.add(region)
            self._extents.add_region(region, self._slab)
            place = self._extents.take(size)
            assert place is not None
        return place

    def _new_region(self, size: int, touch: Callable[[Any], None] | None) -> int:
        held = self._together.reserved + size
        if self._limit and held > self._limit:
            self._release_any(held - self._limit)
        kept = max(self._peak_in_use, KEPT_BYTES)
        if self._idle_bytes + size > kept:
            self._release(self._idle_bytes + size - kept)
        try:
            owner, address = self._allocate(size)
        except MemoryLimitError:
            if not self._release_any(self._together.reserved):
                raise
            owner, address = self._allocate(size)
        if touch is not None:
            touch(owner)
        region, self._next = self._next, self._next + 1
        self._regions[region] = owner, address, size
        self._reserved += size
        self._allocations += 1
        self._peak_reserved = max(self._peak_reserved, self._reserved)
        self._together.reserve(size)
        return region

    def _release_any(self, wanted: int) -> int:
        """Return unused memory to the runtime, this pool's first, up to ``wanted`` bytes; return the bytes freed."""
        freed = self._release(wanted)
        for pool in self._together.pools:
            if freed < wanted and pool is not self:
                freed += pool._release(wanted - freed)
        return freed

    def _release(self, wanted: int) -> int:
        """Return unused memory to the runtime, unused longest first, up to ``wanted`` bytes; return the bytes freed."""
        freed = 0
        while freed < wanted and self._idle:
            size, regions = next(iter(self._idle.items()))
            del self._regions[regions.pop(0)]
            if not regions:
                del self._idle[size]
            self._idle_bytes -= size
            self._unreserve(size)
            freed += size
        if freed < wanted:
            for region in [r for r in self._slabs if self._extents.remove_region(r, self._slab)]:
                self._slabs.discard(region)
                del self._regions[region]
                self._unreserve(self._slab)
                freed += self._slab
        return freed

    def _unreserve(self, nbytes: int) -> None:
        self._reserved -= nbytes
        self._together.reserved -= nbytes
