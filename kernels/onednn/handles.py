# SPDX-License-Identifier: Apache-2.0
"""Owning handles of oneDNN objects, and small thread-safe LRU caches."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from syclsched.kernels.onednn.library import DnnlLibrary
from syclsched.kernels.onednn.status import check

Made = TypeVar("Made")


class Handle:
    """An owning pointer to a oneDNN object, which is destroyed with the handle."""

    __slots__ = ("_destroy", "pointer")

    def __init__(self, library: DnnlLibrary, kind: str) -> None:
        self.pointer = ctypes.c_void_p()
        self._destroy = getattr(library, f"dnnl_{kind}_destroy")

    def make(self, create: Callable[..., int], *arguments: Any, what: str) -> Handle:
        """Create the object with a function of the library."""
        check(create(ctypes.byref(self.pointer), *arguments), what)
        return self

    def __del__(self) -> None:
        # At interpreter exit, the library and this module's globals may already be torn down.
        if self.pointer.value is not None and sys is not None and not sys.is_finalizing():
            self._destroy(self.pointer)


class DnnlCache(Generic[Made]):
    """A thread-safe LRU cache."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.RLock()
        self._made: OrderedDict[Hashable, Made] = OrderedDict()

    def __len__(self) -> int:
        return len(self._made)

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return the value of a key, made by ``make`` if missing; only one thread makes values at a time."""
        with self._lock:
            # The garbage collector may call `clear` between any two steps: it can close devices.
            try:
                made = self._made.pop(key)
            except KeyError:
                made = make()
            self._made[key] = made
            if len(self._made) > self.capacity:
                for oldest in [*self._made][: -self.capacity]:
                    self._made.pop(oldest, None)
            return made

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._made.clear()
