# SPDX-License-Identifier: Apache-2.0
"""Detection of processes forked after the SYCL runtime was loaded.

The runtime's threads do not exist in such a process: device calls would wait for ever, so they raise an error.
Processes started anew (``spawn``, ``subprocess``) are not affected, nor is a fork before the runtime is loaded.
"""

from __future__ import annotations

import ctypes
import os
import threading

from syclsched.errors import ForkedError

_watching = _forked = False


def watch() -> None:
    """Detect forks from now on: the runtime is loaded."""
    global _watching
    if not _watching:
        _watching = True
        os.register_at_fork(after_in_child=_note_fork)


def check_not_forked(where: str) -> None:
    """Raise ForkedError in a process that was forked after the runtime had been loaded."""
    if _forked:
        raise ForkedError(
            "this process was forked from one that had loaded the SYCL runtime, whose threads do not exist here",
            where=where,
            hint='Start processes with multiprocessing.get_context("spawn"), or fork before the first use of a device',
        )


def is_forked() -> bool:
    """Return whether this process was forked after the runtime had been loaded."""
    return _forked


class LockUnlessForked:
    """A reentrant lock that raises ForkedError in a forked process, where its holder may not exist."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._lock = threading.RLock()
        #: Release the lock: callable for what is too short for ``with``, which takes a microsecond.
        self.release = self._lock.release

    def acquire(self) -> None:
        """Acquire the lock; raises `ForkedError` where that could block for ever."""
        if _forked:
            check_not_forked(self._where)
        self._lock.acquire()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def exit_without_destructors() -> None:
    """Make this process exit without C and C++ destructors, which would wait for the missing threads."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # glibc only: called with the exit code, before handlers registered earlier
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)


def _note_fork() -> None:
    global _forked
    _forked = True
    exit_without_destructors()
