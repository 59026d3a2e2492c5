# SPDX-License-Identifier: Apache-2.0
"""Detection of processes forked after the SYCL runtime was loaded.

The runtime's threads do not exist in such a process: device calls would wait for ever, so they raise an error.
Processes started anew (``spawn``, ``subprocess``) are not affected, nor is a fork before the runtime is loaded.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial

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
        lock = threading.RLock()
        #: Acquire and release the lock: functions of C, for sections too short for ``with``, which takes a microsecond.
        #: Acquiring it raises `ForkedError` in a forked process, where it could block for ever.
        self.acquire: Callable[[], object] = lock.acquire
        self.release = lock.release
        if _forked:
            self._refuse()
        else:
            _locks.add(self)

    def _refuse(self) -> None:
        """Raise an error whenever the lock is to be acquired."""
        self.acquire = partial(check_not_forked, self._where)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


_locks: weakref.WeakSet[LockUnlessForked] = weakref.WeakSet()


def exit_without_destructors() -> None:
    """Make this process exit without C and C++ destructors, which would wait for the missing threads."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # glibc only: called with the exit code, before handlers registered earlier
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)


def _note_fork() -> None:
    global _forked
    _forked = True
    for lock in _locks:
        lock._refuse()
    exit_without_destructors()
