# SPDX-License-Identifier: Apache-2.0
"""Buffers of a debugged run: each in memory of its own, filled with a pattern, with room before and behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.devices import memory
from syclsched.devices.pool import Block
from syclsched.errors import MemoryLimitError
from syclsched.execution.buffers import BufferTable, LiveBuffer, NumpyArray
from syclsched.execution.program import Buffer
from syclsched.model.plan import PlannedArray

#: Bytes before and behind each buffer. A page, so that alignment stays.
GUARD_BYTES = 4096
#: What memory is filled with: of it floating-point numbers are NaN, with a payload that no arithmetic makes.
POISON = 0xFF


class GuardedBufferTable(BufferTable):
    """A `BufferTable` that notices what is written beyond the end of a buffer, or before its beginning."""

    def _make(self, buffer: Buffer, *, touch: bool = False) -> LiveBuffer:
        array, key = self._arrays[buffer[0]], self._keys[buffer]
        try:
            block, raw = self._live.pools.take(key, array.nbytes + 2 * GUARD_BYTES)
        except MemoryLimitError:
            return super()._make(buffer)  # a plan may leave no room for guards
        storage: Any
        if isinstance(raw, np.ndarray):
            raw[...] = POISON
            storage = raw[GUARD_BYTES : GUARD_BYTES + array.nbytes].view(array.dtype).reshape(array.shape)
        else:
            raw.memset(POISON)
            storage = memory.part(raw, GUARD_BYTES, array.nbytes)
        return _Guarded(array, storage, raw, on_host=self._on_host(key), block=block)

    def live(self) -> dict[Buffer, LiveBuffer]:
        """Return all buffers that are there now."""
        return dict(self._buffers)

    def overrun(self) -> dict[Buffer, int]:
        """Return the buffers around which something was written, and where: bytes from the buffer's beginning.

        What was found is mended, so that it is found once.
        """
        found: dict[Buffer, int] = {}
        for buffer, live in self._buffers.items():
            if isinstance(live, _Guarded):
                at = live.written_around()
                if at is not None:
                    found[buffer] = at
        return found


class _Guarded(LiveBuffer):
    """A buffer with room around it."""

    def __init__(self, array: PlannedArray, storage: Any, raw: Any, *, on_host: bool, block: Block) -> None:
        super().__init__(array, storage, on_host=on_host, owned=True, block=block)
        self._raw = raw

    def written_around(self) -> int | None:
        """Return where something was written around it, from its beginning in bytes; None if nothing was."""
        end = GUARD_BYTES + self.array.nbytes
        for start in (0, end):
            part = as_bytes_there(self._raw, start, GUARD_BYTES)
            changed = np.flatnonzero(part != POISON)
            if changed.size:
                _mend(self._raw, start)
                return start + int(changed[0]) - GUARD_BYTES
        return None


def bytes_of(live: LiveBuffer) -> NumpyArray:
    """Return a buffer's bytes in the host's memory; a copy if they are elsewhere."""
    if live.on_host:
        return memory.as_bytes(live.numpy(writable=False))
    return as_bytes_there(live.storage, 0, live.array.nbytes)


def as_bytes_there(storage: Any, start: int, nbytes: int) -> NumpyArray:
    """Return some bytes of memory of any kind, in the host's memory."""
    if isinstance(storage, np.ndarray):
        return memory.as_bytes(storage)[start : start + nbytes]
    result = np.empty(nbytes, np.uint8)
    if nbytes:
        storage.sycl_queue.memcpy(result, memory.part(storage, start, nbytes), nbytes)
    return result


def _mend(raw: Any, start: int) -> None:
    if isinstance(raw, np.ndarray):
        raw[start : start + GUARD_BYTES] = POISON
    else:
        memory.part(raw, start, GUARD_BYTES).memset(POISON)
