# SPDX-License-Identifier: Apache-2.0
"""A bounded, thread-safe LRU cache."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class BoundedCache:
    """A bounded LRU cache that makes each entry once, whichever thread asks first.

    ``counted`` tells what the bound counts: entries for which it is equal count as one.
    """

    def __init__(self, size: int, counted: Callable[[Any], Hashable] = id) -> None:
        self._size, self._counted = size, counted
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        #: By what is counted, the number of its entries.
        self._counts: Counter[Hashable] = Counter()
        #: Held while an entry is made, so that only one thread makes entries.
        self.lock = threading.RLock()

    def __contains__(self, key: Hashable) -> bool:
        with self.lock:
            return key in self._entries

    def find(self, key: Hashable) -> Any | None:
        """Return the entry of a key; None if there is none."""
        with self.lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the entry of a key, made now if there is none; an exception of ``make`` is not cached."""
        with self.lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                found: T = self._entries[key]
                return found
            made = make()
            self._entries[key] = made
            self._counts[self._counted(made)] += 1
            while len(self._counts) > self._size:
                counted = self._counted(self._entries.popitem(last=False)[1])
                self._counts[counted] -= 1
                if not self._counts[counted]:
                    del self._counts[counted]
            return made
