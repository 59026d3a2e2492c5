# SPDX-License-Identifier: Apache-2.0
"""Buffers with red zones for debug runs: separate memory, filled with a pattern, and guard bytes on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.memory_pool import MemoryBlock
from syclsched.errors import MemoryLimitError
from syclsched.execution.core.program import Buffer
from syclsched.execution.memory.buffers import AllocatedBuffer, BufferTable, NumpyArray
from syclsched.model.plan import PlannedArray

#: Guard bytes on each side of a buffer: a page, to keep the alignment.
GUARD_BYTES = 4096
#: Fill byte: as a floating-point number it gives a NaN with a payload that no arithmetic produces.
POISON = 0xFF


class RedZoneBuffers(BufferTable):
    """A `BufferTable` that detects writes before the start or beyond the end of a buffer."""

    def _make(self, buffer: Buffer, *, touch: bool = False) -> AllocatedBuffer:
        array, key = self._arrays[buffer[0]], self._keys[buffer]
        try:
            block, raw = self._devices.pools.take(key, array.nbytes + 2 * GUARD_BYTES)
        except MemoryLimitError:
            return super()._make(buffer)  # the plan may leave too little memory for guard bytes
        storage: Any
        if isinstance(raw, np.ndarray):
            raw[...] = POISON
            storage = raw[GUARD_BYTES : GUARD_BYTES + array.nbytes].view(array.dtype).reshape(array.shape)
        else:
            raw.memset(POISON)
            storage = usm_memory.memory_slice(raw, GUARD_BYTES, array.nbytes)
        return _GuardedBuffer(array, storage, raw, on_host=self._on_host(key), block=block)

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

    def __init__(self, array: PlannedArray, storage: Any, raw: Any, *, on_host: bool, block: MemoryBlock) -> None:
        super().__init__(array, storage, on_host=on_host, owned=True, block=block)
        self._raw = raw

    def written_around(self) -> int | None:
        """Return the offset of the first overwritten guard byte from the buffer's start; None if there is none."""
        end = GUARD_BYTES + self.array.nbytes
        for start in (0, end):
            part = _host_copy_of_range(self._raw, start, GUARD_BYTES)
            changed = np.flatnonzero(part != POISON)
            if changed.size:
                _restore(self._raw, start)
                return start + int(changed[0]) - GUARD_BYTES
        return None


def bytes_of(live: AllocatedBuffer) -> NumpyArray:
    """Return a buffer's bytes in host memory; a copy if the buffer is in other memory."""
    if live.on_host:
        return usm_memory.as_bytes(live.numpy(writable=False))
    return _host_copy_of_range(live.storage, 0, live.array.nbytes)


def _host_copy_of_range(storage: Any, start: int, nbytes: int) -> NumpyArray:
    """Return a byte range of memory of any kind, in host memory."""
    if isinstance(storage, np.ndarray):
        return usm_memory.as_bytes(storage)[start : start + nbytes]
    result = np.empty(nbytes, np.uint8)
    if nbytes:
        storage.sycl_queue.memcpy(result, usm_memory.memory_slice(storage, start, nbytes), nbytes)
    return result


def _restore(raw: Any, start: int) -> None:
    if isinstance(raw, np.ndarray):
        raw[start : start + GUARD_BYTES] = POISON
    else:
        usm_memory.memory_slice(raw, start, GUARD_BYTES).memset(POISON)
