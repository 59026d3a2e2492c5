# SPDX-License-Identifier: Apache-2.0
"""Messages for one thread from any other, which it may wait for, but not for long."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Inbox(Generic[_T]):
    """A queue that any thread, a finalizer among them, may put something into, and one takes things out of.

    ``queue.SimpleQueue`` has all of it, but CPython's (3.11, ``_queuemodule.c``) waits for ever where a wait of
    microseconds has ended before it finds that another message has been taken already: what is left of the time is
    then negative, which it takes for no limit.
    """

    def __init__(self) -> None:
        self._items: deque[_T] = deque()
        self._nothing_new = threading.Lock()
        self._nothing_new.acquire()

    def put(self, item: _T) -> None:
        """Add a message, and wake who waits."""
        self._items.append(item)
        with suppress(RuntimeError):  # it has been released already
            self._nothing_new.release()

    def empty(self) -> bool:
        """Return whether there is none."""
        return not self._items

    def get(self) -> _T:
        """Take out the oldest message; there must be one."""
        return self._items.popleft()

    def wait(self, longest_s: float) -> None:
        """Wait for a message that was put since this was called last, or for a while; not if there is one."""
        if not self._items:
            self._nothing_new.acquire(timeout=longest_s)
