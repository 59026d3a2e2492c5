# SPDX-License-Identifier: Apache-2.0
"""The pools of a platform's memory spaces: which kind of memory each is of, and memory cut from them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from syclsched.devices import faultpoints, memory
from syclsched.devices.memory import MemoryKind
from syclsched.devices.pool import ALIGNMENT_BYTES, Block, MemoryInfo, MemoryPool
from syclsched.errors import MemoryLimitError
from syclsched.model.platform import HOST, MemorySpace, Platform

_PAGE_BYTES: Final = 4096


def kind_of(space: MemorySpace, platform: Platform) -> MemoryKind:
    """Return the kind of memory a space is made of.

    Parameters
    ----------
    space : MemorySpace
        A space of the platform.
    platform : Platform
        Its devices.

    Returns
    -------
    str
        ``shared`` where host and device use the same memory: nothing moves, and the host may touch it. ``device``
        where they do not: pages that move by themselves would do so at times no plan knows. For the host's own memory
        ``host``, which is pinned, if some device has memory of its own: copies to and from it then need no staging;
        else ``numpy``, plain memory that needs no runtime.
    """
    if space.name != HOST:
        return "shared" if space.host_accessible else "device"
    return "numpy" if all(each.host_accessible for each in platform.spaces) else "host"


class Pools:
    """Pools by memory space, made when they are first used.

    Parameters
    ----------
    platform : Platform
        Its spaces and their capacities.
    allocator_queue : callable
        Returns the queue that USM memory of a space is to be allocated on, by name.
    """

    def __init__(self, platform: Platform, allocator_queue: Callable[[str], Any]) -> None:
        self._platform = platform
        self._allocator_queue = allocator_queue
        self._lock = threading.Lock()
        self._pools: dict[str, MemoryPool] = {}
        self._queues: dict[str, Any] = {}
        self._kinds = {space.name: kind_of(space, platform) for space in platform.spaces}
        _all.add(self)

    def take(self, space: str, nbytes: int, *, touch: bool = False) -> tuple[Block, Any]:
        """Return memory of a space.

        Parameters
        ----------
        space : str
            Its name.
        nbytes : int
            Size.
        touch : bool, optional
            Whether to write to every page of what had to be got for this, if the host can.

        Returns
        -------
        (Block, dpctl.memory.* or numpy.ndarray)
            What gives it back; and the memory, in the host's space as bytes where that is plain memory. It refers to
            the block, so that whoever has it has it for good.

        Raises
        ------
        MemoryLimitError
            If it cannot be had.
        ExecutionError
            If the devices are closed.
        """
        kind, pool = self._kinds[space], self.pool(space)
        if faultpoints.active is not None and kind != "numpy":
            self._may_fail(space, nbytes)
        block = pool.take(nbytes, touch=_touch if touch and kind != "device" else None)
        if kind == "numpy":
            return block, np.asarray(_HostBytes(block))
        return block, memory.of_block(block, self._queues[space])

    def pool(self, space: str) -> MemoryPool:
        """Return the pool of a space."""
        with self._lock:
            found = self._pools.get(space)
            if found is None:
                place = self._platform.space(space)
                found = self._pools[space] = MemoryPool(
                    self._allocator(place), space, limit_bytes=place.capacity_bytes, alignment_bytes=ALIGNMENT_BYTES
                )
            return found

    def kind(self, space: str) -> MemoryKind:
        """Return the kind of memory a space is made of; see `kind_of`."""
        return self._kinds[space]

    def info(self) -> dict[str, MemoryInfo]:
        """Return what the pools hold, by space, for those that were used."""
        with self._lock:
            pools = dict(self._pools)
        return {space: pool.info() for space, pool in pools.items()}

    def trim(self) -> int:
        """Give back to the runtime what nobody uses; return how many bytes that was."""
        with self._lock:
            pools = list(self._pools.values())
        return sum(pool.trim() for pool in pools)

    def close(self) -> None:
        """Give everything back: what is in use, when it is used no more."""
        with self._lock:
            for pool in self._pools.values():
                pool.close()
            self._queues.clear()

    def _may_fail(self, space: str, nbytes: int) -> None:
        """Fail where that is injected: whether a pool has to ask the runtime is chance."""
        try:
            if faultpoints.active is not None:
                faultpoints.active.allocates(self._queues[space], nbytes)
        except MemoryError as error:
            raise MemoryLimitError(f"{nbytes} bytes could not be allocated", where=f"memory {space!r}") from error

    def _allocator(self, place: MemorySpace) -> Callable[[int], tuple[Any, int]]:
        kind = self._kinds[place.name]
        if kind == "numpy":
            return _host_bytes
        queue = self._queues[place.name] = self._allocator_queue(place.name)

        def allocate(nbytes: int) -> tuple[Any, int]:
            made = memory.allocate(queue, nbytes, kind)
            return made, int(made._pointer)

        return allocate


#: All there are, for `memory_info`.
_all: weakref.WeakSet[Pools] = weakref.WeakSet()


def memory_info() -> dict[str, MemoryInfo]:
    """Return what syclsched holds of every memory space in this process, in all open devices together.

    Returns
    -------
    dict of str to MemoryInfo
        By name of the space; peaks and limits are those of the open devices added up.
    """
    found: dict[str, MemoryInfo] = {}
    for pools in list(_all):
        for space, info in pools.info().items():
            found[space] = info + found[space] if space in found else info
    return found


class _HostBytes:
    """A block of the host's plain memory, as NumPy takes memory of others; kept by the array made of it."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.__array_interface__ = {
            "data": (block.pointer, False),
            "shape": (block.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def _host_bytes(nbytes: int) -> tuple[Any, int]:
    try:
        # Where plain memory begins is the C library's business.
        made = np.empty(nbytes + ALIGNMENT_BYTES, np.uint8)
    except MemoryError as error:
        raise MemoryLimitError(f"{nbytes} bytes of the host's memory could not be allocated") from error
    return made, -(-made.ctypes.data // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _touch(owner: Any) -> None:
    """Write to every page of memory the host can address."""
    view = owner if isinstance(owner, np.ndarray) else np.asarray(owner)
    view[::_PAGE_BYTES] = 0
