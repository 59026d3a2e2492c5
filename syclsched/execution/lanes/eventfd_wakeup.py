# SPDX-License-Identifier: Apache-2.0
"""Eventfd wake-up: a thread or coroutine sleeps until a device signals a completion."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time

from syclsched.backoff import backoff

#: Shortest and longest sleep between two polls, for runtimes that do not signal.
_POLL_INTERVALS_S = 50e-6, 1e-3
#: Longest single wait: Python can miss a signal that arrives just before it blocks.
_SLICE_S = 0.2

_lock = threading.Lock()
#: Descriptors for reuse; never closed, because a runtime may write to one long after its stream has ended.
_unused: list[int] = []


class EventFd:
    """An eventfd that runtimes write to on completion, with polling back-off for runtimes that do not.

    Wake-ups may be spurious: the woken thread must check its own condition.
    """

    def __init__(self) -> None:
        self._fd: int | None = None
        if hasattr(os, "eventfd"):
            with _lock:
                self._fd = _unused.pop() if _unused else os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    @property
    def fd(self) -> int | None:
        """The file descriptor to write to; None where the system has no eventfd."""
        return self._fd

    def sleep(self, begun_s: float, has_signals: bool) -> None:
        """Sleep until a signal or the end of a time slice; ``has_signals`` is whether the runtime signals."""
        if has_signals and self._fd is not None:
            poller = select.poll()  # select.select takes no descriptor above 1,023
            poller.register(self._fd, select.POLLIN)
            poller.poll(_SLICE_S * 1e3)
            self._drain()
        else:
            time.sleep(backoff(time.perf_counter() - begun_s, *_POLL_INTERVALS_S))

    async def sleep_async(self, begun_s: float, has_signals: bool) -> None:
        """Sleep in a coroutine; see `sleep`."""
        import asyncio  # imports fifty modules, which only coroutines need

        if not has_signals or self._fd is None:
            await asyncio.sleep(backoff(time.perf_counter() - begun_s, *_POLL_INTERVALS_S))
            return
        loop = asyncio.get_running_loop()
        signalled = asyncio.Event()
        loop.add_reader(self._fd, signalled.set)
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(signalled.wait(), _SLICE_S)
        finally:
            loop.remove_reader(self._fd)
            self._drain()

    def signal(self) -> None:
        """Wake the sleeping thread, or one that is about to sleep; callable on any thread."""
        if self._fd is not None:
            os.eventfd_write(self._fd, 1)

    def close(self) -> None:
        """Keep the descriptor for the next stream."""
        if self._fd is not None:
            with _lock:
                _unused.append(self._fd)
            self._fd = None

    def _drain(self) -> None:
        assert self._fd is not None
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return
