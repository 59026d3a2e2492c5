# SPDX-License-Identifier: Apache-2.0
"""The memory pools of a platform, one for each memory space and kind of memory."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.available_memory import check_available
from syclsched.devices.memory.memory_pool import ALIGNMENT_BYTES, MemoryBlock, MemoryInfo, MemoryPool, SpaceAccounting
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.submission import faultpoints
from syclsched.errors import MemoryLimitError
from syclsched.model.platform import HOST, Platform
from syclsched.model.usm import MemoryKind, PoolKey, PoolKeys

_PAGE_BYTES: Final = 4096


class SpacePools:
    """Memory pools by memory space and kind, made when first used."""

    def __init__(self, platform: Platform, allocator_queue: Callable[[str], SyclQueue]) -> None:
        self._platform = platform
        self._allocator_queue = allocator_queue
        self._lock = threading.Lock()
        self._pools: dict[PoolKey, MemoryPool] = {}
        self._queues: dict[PoolKey, SyclQueue] = {}
        self._spaces = {space.name: SpaceAccounting(space.capacity_bytes) for space in platform.spaces}
        usual = PoolKeys(platform)
        self._usual = {space.name: usual["", space.name] for space in platform.spaces}
        _all.add(self)

    def take(
        self, where: str | PoolKey, nbytes: int, *, touch: bool = False
    ) -> tuple[MemoryBlock, usm_memory.NumpyArray | MemoryRange]:
        """Allocate a block of memory in a space; return the block and the memory."""
        return self.take_all(self._usual[where] if isinstance(where, str) else where, (nbytes,), touch=touch)[0]

    def take_all(
        self, key: PoolKey, sizes: Sequence[int], *, touch: bool = False
    ) -> list[tuple[MemoryBlock, usm_memory.NumpyArray | MemoryRange]]:
        """Allocate blocks of these sizes from one pool, or none; return the blocks and their memory."""
        pool = self._pools.get(key) or self._make(key)
        if key.kind == "plain":
            blocks = pool.take_all(sizes, touch=_touch if touch else None)
            return [(block, np.asarray(_HostBytes(block))) for block in blocks]
        if faultpoints.active is not None:
            for nbytes in sizes:
                self._may_fail(key, nbytes)
        blocks = pool.take_all(sizes, touch=self._toucher(key) if touch else None)
        return [(block, usm_memory.block_memory(block, self._queues[key])) for block in blocks]

    def kind(self, space: str) -> MemoryKind:
        """Return the usual kind of memory of a space; see `syclsched.model.usm.default_kind`."""
        return self._usual[space].kind

    def info(self) -> dict[str, MemoryInfo]:
        """Return the memory of the pools by space, for spaces that were used."""
        with self._lock:
            used = {key.space for key in self._pools}
        return {space: together.info() for space, together in self._spaces.items() if space in used}

    def trim(self) -> int:
        """Return unused memory to the runtime; return how many bytes that was."""
        with self._lock:
            pools = list(self._pools.values())
        return sum(pool.trim() for pool in pools)

    def close(self) -> None:
        """Return all memory to the runtime; blocks in use follow when they are freed."""
        _all.discard(self)
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
        """Return a function that writes to all pages of fresh memory; None if it is not the host's memory."""
        if key.kind != "device":
            return _touch
        return _write_all if self._platform.space(key.space).host_accessible else None

    def _may_fail(self, key: PoolKey, nbytes: int) -> None:
        """Raise where an allocation failure is injected, whether or not the pool would call the runtime."""
        try:
            if faultpoints.active is not None:
                faultpoints.active.allocates(self._queues[key], nbytes)
        except MemoryError as error:
            raise MemoryLimitError(
                f"{nbytes} bytes could not be allocated", where=f"memory {key.space!r}", space=key.space
            ) from error

    def _allocator(self, key: PoolKey) -> Callable[[int], tuple[Any, int]]:
        kind = key.kind
        if kind == "plain":
            return _host_bytes
        queue = self._queues[key] = self._allocator_queue(key.context or key.space)

        in_host_memory = self._platform.space(key.space).host_accessible

        def allocate(nbytes: int) -> tuple[Any, int]:
            if in_host_memory:
                check_available(nbytes, key.space)
            made = usm_memory.allocate(queue, nbytes, kind)
            return made, int(made._pointer)

        return allocate


#: All instances that are not closed, for `memory_info`.
_all: weakref.WeakSet[SpacePools] = weakref.WeakSet()


def memory_info() -> dict[str, MemoryInfo]:
    """Return syclsched's use of every memory space in this process, over all open devices.

    Returns
    -------
    dict of str to MemoryInfo
        By name of the space; peaks and limits are the sums over the open devices.

    Examples
    --------
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph()
    >>> task = graph.kernel(get("fill"), x=graph.array("x", (1000,)), value=1.0)
    >>> with syclsched.run(graph, policy="single:cpu") as run:
    ...     run.wait()
    ...     info = syclsched.memory_info()["cpu"]
    >>> 8000 <= info.in_use_bytes <= info.reserved_bytes
    True
    """
    found: dict[str, MemoryInfo] = {}
    for pools in list(_all):
        for space, info in pools.info().items():
            found[space] = info + found[space] if space in found else info
    return found


class _HostBytes:
    """NumPy array interface of a block of plain host memory, which it keeps alive."""

    def __init__(self, block: MemoryBlock) -> None:
        self.block = block
        self.__array_interface__ = {
            "data": (block.pointer, False),
            "shape": (block.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def _host_bytes(nbytes: int) -> tuple[Any, int]:
    check_available(nbytes, HOST)
    try:
        # NumPy does not guarantee the alignment of plain memory.
        made = np.empty(nbytes + ALIGNMENT_BYTES, np.uint8)
    except MemoryError as error:
        raise MemoryLimitError(f"{nbytes} bytes of the host's memory could not be allocated") from error
    return made, -(-made.ctypes.data // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _touch(owner: Any) -> None:
    """Write to every page of memory that the host can address."""
    view = owner if isinstance(owner, np.ndarray) else np.asarray(owner)
    view[::_PAGE_BYTES] = 0


def _write_all(owner: Any) -> None:
    """Write to all pages of host memory that the runtime does not let the host address."""
    owner.memset(0)
