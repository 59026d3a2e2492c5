# SPDX-License-Identifier: Apache-2.0
"""Buffers with red zones for debug runs: separate memory, filled with a pattern, and guard bytes on both sides.

Red zones find a write as far from its buffer as they are large, so they are as large as a fixed amount of memory allows
for the number of buffers. Writes beyond them are found only if they hit another array of the run.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.memory_pool import MemoryBlock
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.errors import MemoryLimitError
from syclsched.execution.core.program import Buffer
from syclsched.execution.memory.buffers import AllocatedBuffer, BufferTable, NumpyArray
from syclsched.model.plan import Plan, PlannedArray

_LOGGER = logging.getLogger("syclsched")
#: Fewest and most guard bytes on each side of a buffer: whole pages, to keep the alignment.
PAGE_BYTES = 4096
MOST_GUARD_BYTES = 1 << 22
#: Guard bytes of all buffers together, each of which is read after every task.
_ALL_GUARD_BYTES = 1 << 26
#: Fill byte: as a floating-point number it gives a NaN with a payload that no arithmetic produces.
POISON = 0xFF


class RedZoneBuffers(BufferTable):
    """A `BufferTable` that detects writes before the start or beyond the end of a buffer."""

    #: Size of the red zones of each buffer, by memory space.
    _guard_bytes: Mapping[str, int] = {}

    def size_zones(self, plan: Plan) -> None:
        """Set the size of the red zones by the number of the plan's buffers and the memory that it leaves unused."""
        made = {(i.uses[0].array, i.uses[0].space) for _, i in plan.instructions() if i.kind == "alloc"}
        count, needed = Counter(space for _, space in made), plan.needed_bytes
        found = {}
        for space in plan.platform.spaces:
            zones = 2 * max(1, count[space.name])
            each = _ALL_GUARD_BYTES // (2 * max(1, len(made)))
            if space.capacity_bytes:
                each = min(each, (space.capacity_bytes - needed.get(space.name, 0)) // 2 // zones)
            found[space.name] = max(PAGE_BYTES, min(MOST_GUARD_BYTES, each) // PAGE_BYTES * PAGE_BYTES)
        self._guard_bytes = found

    def _make(self, buffer: Buffer, *, touch: bool = False) -> AllocatedBuffer:
        array, key = self._arrays[buffer[0]], self._keys[buffer]
        guard = self._guard_bytes.get(buffer[1], PAGE_BYTES)
        try:
            block, found = self._devices.pools.take(key, array.nbytes + 2 * guard)
        except MemoryLimitError:
            _LOGGER.warning("array %r has no red zones: there is no memory for them in %r", *buffer)
            return super()._make(buffer)
        if isinstance(found, np.ndarray):
            found[...] = POISON
            held: NumpyArray | MemoryRange = found[guard : guard + array.nbytes].view(array.dtype).reshape(array.shape)
        else:
            found.memory.memset(POISON)
            held = found.part(guard, array.nbytes)
        raw = found if isinstance(found, np.ndarray) else found.memory
        return _GuardedBuffer(array, held, raw, guard, on_host=self._on_host(key), block=block)

    def live(self) -> dict[Buffer, AllocatedBuffer]:
        """Return all allocated buffers."""
        return dict(self._buffers)

    def find_overruns(self) -> dict[Buffer, int]:
        """Return the buffers with overwritten guard bytes, and the first byte's offset from the buffer's start.

        Overwritten guard bytes are restored, so that each overrun is reported once.
        """
        found: dict[Buffer, int] = {}
        for buffer, live in self._buffers.items():
            if isinstance(live, _GuardedBuffer):
                at = live.written_around()
                if at is not None:
                    found[buffer] = at
        return found


class _GuardedBuffer(AllocatedBuffer):
    """A buffer with guard bytes on both sides."""

    def __init__(
        self,
        array: PlannedArray,
        held: NumpyArray | MemoryRange,
        raw: Any,
        guard_bytes: int,
        *,
        on_host: bool,
        block: MemoryBlock,
    ) -> None:
        super().__init__(array, held, on_host=on_host, owned=True, block=block)
        self._raw = raw
        self._guard_bytes = guard_bytes

    def written_around(self) -> int | None:
        """Return the offset of the first overwritten guard byte from the buffer's start; None if there is none."""
        guard = self._guard_bytes
        for start in (0, guard + self.array.nbytes):
            if self.on_host and not isinstance(self._raw, np.ndarray):
                part = np.asarray(self._raw)[start : start + guard]
            else:
                part = host_copy_of_range(self._raw, start, guard)
            changed = part != POISON
            if changed.any():
                at = start + int(np.argmax(changed)) - guard
                _fill(self._raw, start, guard)
                return at
        return None


def bytes_of(live: AllocatedBuffer) -> NumpyArray:
    """Return a buffer's bytes in host memory; a copy if the buffer is in other memory."""
    if live.on_host:
        return usm_memory.as_bytes(live.numpy(writable=False))
    return host_copy_of_range(live.storage, 0, live.array.nbytes)


def host_copy_of_range(storage: Any, start: int, nbytes: int) -> NumpyArray:
    """Return a byte range of memory of any kind, in host memory."""
    if isinstance(storage, np.ndarray):
        return usm_memory.as_bytes(storage)[start : start + nbytes]
    result = np.empty(nbytes, np.uint8)
    if nbytes:
        storage.sycl_queue.memcpy(result, usm_memory.memory_slice(storage, start, nbytes), nbytes)
    return result


def _fill(raw: Any, start: int, nbytes: int) -> None:
    """Write the fill byte to a range of memory."""
    if isinstance(raw, np.ndarray):
        raw[start : start + nbytes] = POISON
    else:
        usm_memory.memory_slice(raw, start, nbytes).memset(POISON)
