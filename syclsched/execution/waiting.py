# SPDX-License-Identifier: Apache-2.0
"""Waits of the caller's thread that end in time and let Ctrl-C through."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Protocol

#: Python can miss a signal that comes just before it blocks; it notices at the end of a slice.
SLICE_S = 0.2


class Waitable(Protocol):
    """What is set once: `Flag`, or ``threading.Event``."""

    def is_set(self) -> bool:
        """Return whether it is set."""

    def set(self) -> None:
        """Set it, for good."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or the seconds are over; return whether it is."""


class Flag:
    """A ``threading.Event`` that is set once, made and set in a fraction of its time: each run needs four.

    It is a lock that is held until then, and which those who wait for it hand on to each other.
    """

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it; any thread may, any number of times."""
        if not self._is_set:
            self._is_set = True
            self._hand_on()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            # In slices: who was interrupted between the two lines may not have handed the lock on.
            left_s = SLICE_S if deadline is None else min(SLICE_S, deadline - time.monotonic())
            if self._lock.acquire(timeout=max(0.0, left_s)):
                self._hand_on()
            elif deadline is not None and time.monotonic() >= deadline:
                break
        return self._is_set

    def _hand_on(self) -> None:
        with suppress(RuntimeError):  # another thread that set it, too, has done so
            self._lock.release()


def after(timeout_s: float | None) -> str:
    """Say how long was waited, for messages: a time limit that had passed before is no time."""
    return f"after {max(0.0, timeout_s or 0.0):g} s"


def wait_flag(flag: Waitable, timeout_s: float | None) -> bool:
    """Wait for a flag."""
    if timeout_s is None:
        while not flag.wait(SLICE_S):
            pass
        return True
    deadline = time.monotonic() + timeout_s
    while not flag.is_set() and (left := deadline - time.monotonic()) > 0:
        flag.wait(min(left, SLICE_S))
    return flag.is_set()
