# SPDX-License-Identifier: Apache-2.0
"""Thread pool shared by all runs of the process.

The SYCL runtime keeps up to 3 kB for each thread that has ever submitted or waited, and does not free them when the
thread ends: with new threads for each run a process would grow with every run. Starting a thread also takes 50 µs.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from syclsched.execution.core.waiting import Flag

Target = Callable[[], None]

#: Most idle threads kept; further ones end.
_MOST_IDLE: Final = 64
#: Seconds for which interpreter exit waits for idle threads to end.
_GRACE_S: Final = 5.0


class Lease:
    """A pool thread reserved for one function call; from `ThreadPool.start`."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread
        self._ended = Flag()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on that thread, within that call."""
        return self._thread is threading.current_thread() and not self._ended.is_set()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the function has returned and the thread holds no reference to it."""
        self._ended.wait(timeout_s)

    def end(self) -> None:
        """Note that the function has returned; called by the thread."""
        self._ended.set()


class ThreadPool:
    """Reusable threads, each of which runs one function at a time; usable from any thread and from finalisers.

    There is no lock: a finaliser may run at any point, and a deque's append and pop are atomic.
    """

    def __init__(self) -> None:
        self._idle: deque[_PoolThread] = deque()
        self._stopped = False

    def start(self, target: Target, name: str) -> Lease:
        """Call a function on an idle thread, the most recently used one first, or on a new thread."""
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = _PoolThread(self._return)
        return thread.call(target, name)

    def stop(self) -> None:
        """End the idle threads, and wait for them; busy threads end after their function."""
        self._stopped = True
        deadline = time.monotonic() + _GRACE_S
        while self._idle:
            self._idle.pop().stop(max(0.0, deadline - time.monotonic()))

    def forget(self) -> None:
        """Forget all threads in a forked child, where they do not exist."""
        self._idle = deque()

    def _return(self, thread: _PoolThread) -> bool:
        """Return a thread to the pool; return False if the thread must end instead."""
        if self._stopped or len(self._idle) >= _MOST_IDLE:
            return False
        self._idle.append(thread)
        return True


class _PoolThread:
    """One thread of the pool."""

    def __init__(self, return_to_pool: Callable[[_PoolThread], bool]) -> None:
        self._return_to_pool = return_to_pool
        self._requests: queue.SimpleQueue[tuple[Target, str, Lease] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def call(self, target: Target, name: str) -> Lease:
        """Queue a function for the thread; start the thread if it is new."""
        lease = Lease(self._thread)
        self._requests.put((target, name, lease))
        if self._thread.ident is None:
            self._thread.start()
        return lease

    def stop(self, timeout_s: float) -> None:
        """End the thread, and wait for its end."""
        self._requests.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            target, self._thread.name, lease = request
            returned = False
            try:
                target()
                self._thread.name = IDLE
                returned = self._return_to_pool(self)  # before the lease ends, so that the waiting thread can reuse it
            finally:
                del request, target  # their referents must not live until the next request
                lease.end()
            del lease
            if not returned:
                return


#: Name of idle threads.
IDLE: Final = "syclsched idle"
#: The thread pool of this process.
THREADS = ThreadPool()

os.register_at_fork(after_in_child=THREADS.forget)
atexit.register(THREADS.stop)
