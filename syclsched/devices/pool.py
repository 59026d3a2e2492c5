# SPDX-License-Identifier: Apache-2.0
"""Pools of memory, so that getting some costs neither a call of the runtime nor page faults.

Small blocks are cut from slabs; large ones are allocations of their own. Both are kept when they are given back, for
the next who asks. The first write to fresh pages takes longer than getting them (on the CPU device 350 us for a MiB),
so that memory is touched once, when it is got.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

from syclsched.devices.extents import Extents, Place
from syclsched.errors import ExecutionError, MemoryLimitError

#: Where blocks begin: OpenCL's widest vector (sixteen of 8 bytes), which the runtime's own allocations are good for;
#: two cache lines.
ALIGNMENT_BYTES: Final = 128
#: Small blocks are cut from allocations of this size.
SLAB_BYTES: Final = 1 << 21
#: A slab is worth it for blocks up to this part of it.
_SLAB_PARTS: Final = 8
#: Under a limit a slab is no more than this part of it, and there is none if it would be tiny: what of a slab is not in
#: use is still held.
_LIMIT_PARTS: Final = 64
_LEAST_SLAB_BYTES: Final = 1 << 16
#: Memory that is kept though nobody uses it, besides as much as was in use at most.
KEPT_BYTES: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """What a pool holds."""

    in_use_bytes: int = 0  # as it was asked for
    blocks: int = 0  # how many blocks that is
    padding_bytes: int = 0  # besides, so that blocks begin at multiples of the alignment
    #: All that was got of the runtime and not given back to it: in use, padding, and what is kept for later.
    reserved_bytes: int = 0
    #: The most there was of either, since the beginning.
    peak_in_use_bytes: int = 0
    peak_reserved_bytes: int = 0
    limit_bytes: int = 0  # capacity of the space; 0 if it is not known
    allocations: int = 0  # how many times the runtime was asked for memory

    def __add__(self, other: MemoryInfo) -> MemoryInfo:
        """Return both together."""
        return MemoryInfo(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def padded(nbytes: int, alignment_bytes: int = ALIGNMENT_BYTES) -> int:
    """Return the bytes a block takes; SYCL has no allocation of size zero."""
    return max(-(-nbytes // alignment_bytes), 1) * alignment_bytes


class Block:
    """A piece of a pool's memory; it goes back when `give_back` is called, or when nothing refers to it any more."""

    __slots__ = ("__weakref__", "_returned", "nbytes", "owner", "place", "pointer")

    def __init__(self, place: Place, nbytes: int, owner: Any, pointer: int, returned: deque[tuple[Place, int]]) -> None:
        self.place = place
        self.nbytes = nbytes
        self.owner: Any = owner
        self.pointer = pointer
        self._returned: deque[tuple[Place, int]] | None = returned

    def give_back(self) -> None:
        """Give it back at once, whoever may still refer to it; doing so twice does nothing."""
        returned, self._returned = self._returned, None
        self.owner = None  # the pool's now: whoever refers to this still must not keep the memory from the runtime
        if returned is not None:
            returned.append((self.place, self.nbytes))

    # A lock would not do here: this runs wherever a reference goes, also within the pool.
    __del__ = give_back


class Together:
    """The pools of one memory space: of one kind each, they share its capacity and one lock."""

    def __init__(self, limit_bytes: int = 0) -> None:
        self.limit = limit_bytes
        self.lock = threading.Lock()
        self.pools: list[MemoryPool] = []
        self.in_use = self.reserved = self.peak_in_use = self.peak_reserved = 0

    def use(self, nbytes: int) -> None:
        """Note that so many bytes more are in use."""
        self.in_use += nbytes
        self.peak_in_use = max(self.peak_in_use, self.in_use)

    def reserve(self, nbytes: int) -> None:
        """Note that so many bytes more were got of the runtime."""
        self.reserved += nbytes
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def info(self) -> MemoryInfo:
        """Return what the space holds: peaks are those of all its pools at once."""
        found = sum((pool.info() for pool in tuple(self.pools)), MemoryInfo())
        with self.lock:
            return replace(
                found,
                peak_in_use_bytes=self.peak_in_use,
                peak_reserved_bytes=self.peak_reserved,
                limit_bytes=self.limit,
            )


class MemoryPool:
    """Memory of one kind in one space; used from any thread."""

    def __init__(
        self,
        allocate: Callable[[int], tuple[Any, int]],
        name: str,
        *,
        limit_bytes: int = 0,
        alignment_bytes: int = ALIGNMENT_BYTES,
        slab_bytes: int = SLAB_BYTES,
        together: Together | None = None,
    ) -> None:
        self._allocate = allocate
        self.name = name
        self._together = Together(limit_bytes) if together is None else together
        self._together.pools.append(self)
        self._limit = limit_bytes = self._together.limit
        self._alignment = alignment_bytes
        slab = min(slab_bytes, limit_bytes // _LIMIT_PARTS) if limit_bytes else slab_bytes
        self._slab = slab // alignment_bytes * alignment_bytes if slab >= _LEAST_SLAB_BYTES else 0
        self._lock = self._together.lock
        self._returned: deque[tuple[Place, int]] = deque()
        #: Regions by number: what keeps the memory, its address, its size.
        self._regions: dict[int, tuple[Any, int, int]] = {}
        self._slabs: set[int] = set()
        self._extents = Extents()
        #: Idle large regions by size, those given back last at the end.
        self._idle: OrderedDict[int, list[int]] = OrderedDict()
        self._idle_bytes = 0
        self._next = 0
        self._in_use = self._blocks = self._padding = self._reserved = self._allocations = 0
        self._peak_in_use = self._peak_reserved = 0
        self._closed = False

    def take(self, nbytes: int, *, touch: Callable[[Any], None] | None = None) -> Block:
        """Return a block."""
        size = padded(nbytes, self._alignment)
        with self._lock:
            if self._closed:
                raise ExecutionError("the devices are closed", where=f"memory {self.name!r}")
            for pool in self._together.pools:
                pool._collect()
            place = self._place(size, touch)
            owner, address, _ = self._regions[place[0]]
            self._in_use += nbytes
            self._blocks += 1
            self._padding += size - nbytes
            self._peak_in_use = max(self._peak_in_use, self._in_use)
            self._together.use(nbytes)
            return Block(place, nbytes, owner, address + place[1], self._returned)

    def info(self) -> MemoryInfo:
        """Return what there is."""
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
        """Give back to the runtime what nobody uses; return how many bytes that was."""
        with self._lock:
            self._collect()
            return self._release(self._reserved)

    def close(self) -> None:
        """Give everything back: what is in use, when it is used no more."""
        with self._lock:
            self._closed = True
            self._collect()
            self._release(self._reserved)
            self._regions.clear()  # each block keeps its own
            self._slabs.clear()

    # --- inside, with the lock --------------------------------------------------------------------

    def _collect(self) -> None:
        """Take in what was given back."""
        while self._returned:
            place, nbytes = self._returned.popleft()
            region, size = place[0], padded(nbytes, self._alignment)
            self._in_use -= nbytes
            self._together.in_use -= nbytes
            self._blocks -= 1
            self._padding -= size - nbytes
            if region not in self._regions:
                continue  # the pool was closed
            if region in self._slabs:
                self._extents.give(place, size)
            else:
                self._idle.setdefault(size, []).append(region)
                self._idle.move_to_end(size)
                self._idle_bytes += size

    def _place(self, size: int, touch: Callable[[Any], None] | None) -> Place:
        if size > self._slab // _SLAB_PARTS:
            waiting = self._idle.get(size)
            if waiting:
                region = waiting.pop()
                if not waiting:
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
        """Give back what is idle here, and then of the space's other pools, until so many bytes are."""
        done = self._release(wanted)
        for pool in self._together.pools:
            if done < wanted and pool is not self:
                done += pool._release(wanted - done)
        return done

    def _release(self, wanted: int) -> int:
        """Give back to the runtime what is idle, longest first, until so many bytes are; return how many were."""
        done = 0
        while done < wanted and self._idle:
            size, regions = next(iter(self._idle.items()))
            del self._regions[regions.pop(0)]
            if not regions:
                del self._idle[size]
            self._idle_bytes -= size
            self._unreserve(size)
            done += size
        if done < wanted:
            for region in [r for r in self._slabs if self._extents.remove_region(r, self._slab)]:
                self._slabs.discard(region)
                del self._regions[region]
                self._unreserve(self._slab)
                done += self._slab
        return done

    def _unreserve(self, nbytes: int) -> None:
        self._reserved -= nbytes
        self._together.reserved -= nbytes
