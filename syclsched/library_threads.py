# SPDX-License-Identifier: Apache-2.0
"""Limit on the threads of BLAS libraries in this process, in force while runs or measurements call host functions.

The limits of such libraries hold for the whole process. While several runs have one, the smallest applies; after the
last, each library has as many threads as before. A limit never raises what the user has set, as with
``OPENBLAS_NUM_THREADS``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class LibraryThreads:
    """Limits that are in force, and the libraries they apply to; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a garbage collection under the lock may end another run
        self._limits: Counter[int] = Counter()
        #: The libraries found, and the number of modules at that time: an import may load further ones. 0: none found.
        self._libraries: list[Any] = []
        self._modules = 0
        #: The smallest limit that was applied last.
        self._applied: int | None = None
        #: Threads of the limited libraries without limits, by the library's file.
        self._own: dict[str, int] = {}

    @contextmanager
    def at_most(self, threads: int) -> Iterator[None]:
        """Limit the libraries to a number of threads within the block."""
        self.begin(threads)
        try:
            yield
        finally:
            self.end(threads)

    def begin(self, threads: int) -> None:
        """Put a limit in force; to be ended with `end`."""
        with self._lock:
            self._limits[threads] += 1
            self._apply()

    def end(self, threads: int) -> None:
        """End a limit that `begin` put in force."""
        with self._lock:
            self._limits -= Counter((threads,))
            self._apply()

    def look_again(self) -> None:
        """Apply the limits to libraries, too, that were loaded since they began."""
        with self._lock:
            if self._limits and self._modules != len(sys.modules):
                self._apply()

    def expect_library(self) -> None:
        """Say that a library may have been loaded by other means than an import."""
        with self._lock:
            self._modules = 0

    def forget(self) -> None:
        """End all limits: in a forked child, which has none of the runs."""
        self._lock = threading.RLock()
        self._limits.clear()
        self._apply()

    def _apply(self) -> None:
        """Give the libraries the threads of the smallest limit, or their own."""
        most = min(self._limits, default=None)
        if most == self._applied and (most is None or self._modules == len(sys.modules)):
            return  # another run has it in force: setting takes 20 µs
        self._applied = most
        if most is not None and most < (os.cpu_count() or 1):
            if self._modules != len(sys.modules):  # looking up takes milliseconds
                self._find()
            for library in self._libraries:
                own = self._own.setdefault(library.filepath, library.num_threads)
                _set_threads(library, min(own, most))
        elif self._own:
            for library in self._libraries:
                if library.filepath in self._own:
                    _set_threads(library, self._own.pop(library.filepath))

    def _find(self) -> None:
        """Look up the loaded libraries."""
        import threadpoolctl

        self._libraries = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
        self._modules = len(sys.modules)


def _set_threads(library: Any, threads: int) -> None:
    """Set a library's number of threads, whichever thread calls."""
    # Recent versions of threadpoolctl ignore calls of other threads than that of the first one.
    release = getattr(library, "clear_controlling_thread", None)
    for step in (release, lambda **_: library.set_num_threads(threads), release):
        if step is not None:
            step(force=True)


#: The limits of this process.
LIBRARY_THREADS = LibraryThreads()

os.register_at_fork(after_in_child=LIBRARY_THREADS.forget)
