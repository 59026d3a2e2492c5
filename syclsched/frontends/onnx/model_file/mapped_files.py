# SPDX-License-Identifier: Apache-2.0
"""Memory-mapped files for weights: arrays are views of the mapping and need no private memory.

`_MappedFile.load` reads weights without accessing the mapping: if the file was truncated, access would kill the process
(SIGBUS), and if it was overwritten, the weights would be wrong. Both raise an error instead.
"""

from __future__ import annotations

import math
import mmap
import os
import threading
from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from syclsched.errors import StorageError

Array = np.ndarray[Any, Any]

#: Open files by identity and state, so that a file with many tensors is mapped once.
_OPEN: Final[WeakValueDictionary[tuple[int, ...], _MappedFile]] = WeakValueDictionary()
_lock = threading.Lock()


class _MappedFile(mmap.mmap):
    """A non-empty file mapped read-only; created by `map_file`."""

    where: str
    _opened_state: tuple[int, int]
    _address: int
    _descriptor: int = -1

    def check(self) -> None:
        """Raise `StorageError` if the file changed since it was opened."""
        if _state(os.fstat(self._descriptor)) != self._opened_state:
            raise StorageError(
                "the file was changed since it was read, and weights in it are needed again",
                where=self.where,
                hint="Load the model again; replace a file that is in use by renaming a new one, not by writing to it",
            )

    def load(self, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """Read an array of the file into new memory."""
        self.check()
        array = np.empty(shape, dtype)
        buffer = memoryview(array.reshape(-1).view(np.uint8).data)
        done = 0
        try:
            while done < len(buffer):
                count = os.preadv(self._descriptor, [buffer[done:]], offset + done)
                if count == 0:
                    break
                done += count
        except OSError as error:
            raise StorageError(f"cannot be read: {error.strerror}", where=self.where) from error
        self.check()
        return array

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def map_file(path: str | os.PathLike[str]) -> _MappedFile:
    """Map a file read-only; while in use, an unchanged file has only one mapping."""
    with _lock:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            key = (status.st_dev, status.st_ino, *_state(status))
            found = _OPEN.get(key)
            if found is None:
                found = _MappedFile(descriptor, status.st_size, access=mmap.ACCESS_READ)
                found.where, found._opened_state = os.fspath(path), _state(status)
                found._address = np.frombuffer(found, np.uint8).ctypes.data
                # The descriptor stays open for later checks and reads: by then the name may be another file's.
                found._descriptor, descriptor = descriptor, -1
                _OPEN[key] = found
            return found
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def mapped_location(array: Array) -> tuple[_MappedFile, int] | None:
    """Return the file an array is a view of and the offset of its first element; None for other arrays."""
    base = _owner(array)
    if not isinstance(base, _MappedFile) or not math.prod(array.shape):
        return None
    return base, array.ctypes.data - base._address


def is_file_backed(array: Array) -> bool:
    """Return whether an array is a view of a file, or of the bytes of a whole model."""
    return isinstance(_owner(array), _MappedFile) or isinstance(_root(array), memoryview)


def _root(array: Array) -> Any:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base


def _owner(array: Array) -> Any:
    root = _root(array)
    return root.obj if isinstance(root, memoryview) else root


def check_unchanged(arrays: Iterable[Array]) -> None:
    """Raise `StorageError` if a file that arrays are views of has changed; see `_MappedFile.check`."""
    for file in {id(place[0]): place[0] for place in map(mapped_location, arrays) if place is not None}.values():
        file.check()


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
