# SPDX-License-Identifier: Apache-2.0
"""The pools of a platform's memory spaces, one for each kind of memory in them, and memory cut from them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from syclsched.devices import faultpoints, memory
from syclsched.devices.pool import ALIGNMENT_BYTES, Block, MemoryInfo, MemoryPool, Together
from syclsched.errors import MemoryLimitError
from syclsched.model.platform import Platform
from syclsched.model.usm import MemoryKind, PoolKey, PoolKeys

_PAGE_BYTES: Final = 4096


class Pools:
    """Pools by memory space and kind, made when they are first used."""

    def __init__(self, platform: Platform, allocator_queue: Callable[[str], Any]) -> None:
        self._platform = platform
        self._allocator_queue = allocator_queue
        self._lock = threading.Lock()
        self._pools: dict[PoolKey, MemoryPool] = {}
        self._queues: dict[PoolKey, Any] = {}
        self._spaces = {space.name: Together(space.capacity_bytes) for space in platform.spaces}
        usual = PoolKeys(platform)
        self._usual = {space.name: usual["", space.name] for space in platform.spaces}
        _all.add(self)

    def take(self, where: str | PoolKey, nbytes: int, *, touch: bool = False) -> tuple[Block, Any]:
        """Return memory of a space."""
        key = self._usual[where] if isinstance(where, str) else where
        pool = self._pools.get(key) or self._make(key)
        if key.kind == "plain":
            return (block := pool.take(nbytes, touch=_touch if touch else None)), np.asarray(_HostBytes(block))
        if faultpoints.active is not None:
            self._may_fail(key, nbytes)
        block = pool.take(nbytes, touch=self._toucher(key) if touch else None)
        return block, memory.of_block(block, self._queues[key])

    def kind(self, space: str) -> MemoryKind:
        """Return the kind of memory that is usual in a space; see `syclsched.model.usm.usual_kind`."""
        return self._usual[space].kind

    def info(self) -> dict[str, MemoryInfo]:
        """Return what the pools hold, by space, for those that were used."""
        with self._lock:
            used = {key.space for key in self._pools}
        return {space: together.info() for space, together in self._spaces.items() if space in used}

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

    def _make(self, key: PoolKey) -> MemoryPool:
        with self._lock:
            found = self._pools.get(key)
            if found is None:
                found = self._pools[key] = MemoryPool(
                    self._allocator(key), key.space, alignment_bytes=ALIGNMENT_BYTES, together=self._spaces[key.space]
                )
            return found

    def _toucher(self, key: PoolKey) -> Callable[[Any], None] | None:
        """Return what writes to all pages of fresh memory: not of that which is no part of the host's."""
        if key.kind != "device":
            return _touch
        return _set if self._platform.space(key.space).host_accessible else None

    def _may_fail(self, key: PoolKey, nbytes: int) -> None:
        """Fail where that is injected: whether a pool has to ask the runtime is chance."""
        try:
            if faultpoints.active is not None:
                faultpoints.active.allocates(self._queues[key], nbytes)
        except MemoryError as error:
            raise MemoryLimitError(f"{nbytes} bytes could not be allocated", where=f"memory {key.space!r}") from error

    def _allocator(self, key: PoolKey) -> Callable[[int], tuple[Any, int]]:
        kind = key.kind
        if kind == "plain":
            return _host_bytes
        queue = self._queues[key] = self._allocator_queue(key.context or key.space)

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


def _set(owner: Any) -> None:
    """Write to all of memory that the runtime does not let the host address, though it is the host's."""
    owner.memset(0)
