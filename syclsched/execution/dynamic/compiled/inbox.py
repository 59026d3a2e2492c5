# SPDX-License-Identifier: Apache-2.0
"""Message queue from any thread to one thread, with short timed waits."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Inbox(Generic[_T]):
    """A multi-producer, single-consumer queue; producers may be finalizers.

    ``queue.SimpleQueue`` is not used: CPython's (3.11, ``_queuemodule.c``) can wait for ever. If a time-out of
    microseconds expires before it notices that a message was already taken, the remaining time is negative, which it
    treats as no limit.
    """

    def __init__(self) -> None:
        self._items: deque[_T] = deque()
        self._wakeup = threading.Lock()
        self._wakeup.acquire()

    def put(self, item: _T) -> None:
        """Add a message, and wake the consumer."""
        self._items.append(item)
        with suppress(RuntimeError):  # it has been released already
            self._wakeup.release()

    def empty(self) -> bool:
        """Return whether there is no message."""
        return not self._items

    def get(self) -> _T:
        """Remove and return the oldest message; there must be one."""
        return self._items.popleft()

    def wait(self, longest_s: float) -> None:
        """Wait for a message, at most this long; return at once if there is one."""
        if not self._items:
            self._wakeup.acquire(timeout=longest_s)
