# SPDX-License-Identifier: Apache-2.0
"""Sleep until devices say that something has completed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
import time

from syclsched.naps import nap_s

#: How long is slept between two looks, at least and at most.
_NAPS_S = 50e-6, 1e-3
#: Python can miss a signal that comes just before it blocks; it notices at the end of a slice.
_SLICE_S = 0.2

_lock = threading.Lock()
#: Never closed: a runtime may write to one long after its stream has ended.
_unused: list[int] = []


class Alarm:
    """An eventfd that runtimes add to when something completes, and naps for those that do not.

    It may ring for nothing: whoever was woken looks whether what he waits for is there.
    """

    def __init__(self) -> None:
        self._fd: int | None = None
        if hasattr(os, "eventfd"):
            with _lock:
                self._fd = _unused.pop() if _unused else os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    @property
    def fd(self) -> int | None:
        """What is to be added to; None where there are no eventfds."""
        return self._fd

    def sleep(self, begun_s: float, rings: bool) -> None:
        """Sleep until it rings, or for a slice of time."""
        if rings and self._fd is not None:
            waiting = select.poll()  # select.select takes no descriptor above 1,023
            waiting.register(self._fd, select.POLLIN)
            waiting.poll(_SLICE_S * 1e3)
            self._quieten()
        else:
            time.sleep(nap_s(time.perf_counter() - begun_s, *_NAPS_S))

    async def sleep_async(self, begun_s: float, rings: bool) -> None:
        """Do so in a coroutine."""
        if not rings or self._fd is None:
            await asyncio.sleep(nap_s(time.perf_counter() - begun_s, *_NAPS_S))
            return
        loop = asyncio.get_running_loop()
        rang = asyncio.Event()
        loop.add_reader(self._fd, rang.set)
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(rang.wait(), _SLICE_S)
        finally:
            loop.remove_reader(self._fd)
            self._quieten()

    def ring(self) -> None:
        """Wake whoever sleeps, or is about to; any thread may."""
        if self._fd is not None:
            os.eventfd_write(self._fd, 1)

    def close(self) -> None:
        """Keep it for the next stream."""
        if self._fd is not None:
            with _lock:
                _unused.append(self._fd)
            self._fd = None

    def _quieten(self) -> None:
        assert self._fd is not None
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return
