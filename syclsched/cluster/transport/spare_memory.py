# SPDX-License-Identifier: Apache-2.0
"""Memory of earlier messages, used again: the operating system has given its pages, which takes as long as a copy."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

#: Smaller memory is not kept: the allocator does so.
_LEAST_BYTES: Final = 256 << 10
#: Memory is used for messages down to this share of its size.
_LEAST_SHARE: Final = 0.5


class SpareMemory:
    """Free memory, up to a number of bytes; usable from any thread."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._free: list[np.ndarray[Any, np.dtype[np.uint8]]] = []  # the longest free first

    def acquire(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return memory of this many bytes."""
        if nbytes >= _LEAST_BYTES:
            with self._lock:
                fitting = [each for each in self._free if nbytes * _LEAST_SHARE <= each.nbytes * _LEAST_SHARE <= nbytes]
                if fitting:
                    best = min(fitting, key=lambda each: each.nbytes)
                    self._free = [each for each in self._free if each is not best]
                    return best[:nbytes]
        return np.empty(nbytes, np.uint8)

    def release(self, memory: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Take back memory without other references."""
        whole = memory if memory.base is None else memory.base
        if not isinstance(whole, np.ndarray) or not _LEAST_BYTES <= whole.nbytes <= self._limit_bytes:
            return
        with self._lock:
            self._free.append(whole)
            while sum(each.nbytes for each in self._free) > self._limit_bytes:
                del self._free[0]

    def clear(self) -> None:
        """Free all memory."""
        with self._lock:
            self._free.clear()
