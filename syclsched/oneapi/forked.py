# SPDX-License-Identifier: Apache-2.0
"""A process forked from one that had loaded the SYCL runtime cannot use it: its threads are not there any more.

Whatever it asked of a device it would wait for, for ever. So it is refused, with a reason. Processes that are started
anew (``spawn``, ``subprocess``) are not concerned, nor is a fork before the runtime was loaded.
"""

from __future__ import annotations

import ctypes
import os
import threading

from ..errors import ForkedError

_watching = _forked = False


def watch() -> None:
    """Notice forks from now on: the runtime is loaded."""
    global _watching
    if not _watching:
        _watching = True
        os.register_at_fork(after_in_child=_note)


def check_not_forked(where: str) -> None:
    """Refuse to go on in a process that was forked after the runtime had been loaded."""
    if _forked:
        raise ForkedError(
            "this process was forked from one that had loaded the SYCL runtime, whose threads did not come along",
            where=where,
            hint='Start processes with multiprocessing.get_context("spawn"), or fork before the first use of a device',
        )


def is_forked() -> bool:
    """Return whether this process was forked after the runtime had been loaded."""
    return _forked


class LockUnlessForked:
    """A reentrant lock, refused in a process that was forked: a thread that held it then did not come along."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Wait for the lock; raises `ForkedError` where it would be for ever."""
        check_not_forked(self._where)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def exit_without_destructors() -> None:
    """Let this process end, when it does, without the destructors of C and C++, which would wait for those threads."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # of glibc: called with the exit code, before all that was registered earlier
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)


def _note() -> None:
    global _forked
    _forked = True
    exit_without_destructors()
