# SPDX-License-Identifier: Apache-2.0
"""A bounded, thread-safe LRU cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class BoundedCache:
    """A bounded LRU cache that makes each entry once, whichever thread asks first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        #: Held while an entry is made, so that only one thread makes entries.
        self.lock = threading.RLock()

    def __contains__(self, key: Hashable) -> bool:
        with self.lock:
            return key in self._entries

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the entry of a key, made now if there is none; an exception of ``make`` is not cached."""
        with self.lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                found: T = self._entries[key]
                return found
            made = make()
            self._entries[key] = made
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
            return made
