# SPDX-License-Identifier: Apache-2.0
"""Threads that are used again: a run takes some and gives them back, instead of starting new ones.

The SYCL runtime keeps up to 3 kB for each thread that has ever submitted or waited, and does not give them back when
the thread ends: with new threads for each run a process would grow with every run. It would also take 50 µs for each.
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

from syclsched.execution.waiting import Flag

Target = Callable[[], None]

#: More that have nothing to do end.
_MOST_IDLE: Final = 64
#: For how long the end of the interpreter is held up for idle threads.
_GRACE_S: Final = 5.0


class Lease:
    """A thread for as long as one function takes; from `ThreadPool.start`."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread
        self._ended = Flag()

    @property
    def is_current(self) -> bool:
        """Whether the caller is on that thread, within that function."""
        return self._thread is threading.current_thread() and not self._ended.is_set()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the function has returned, and the thread holds nothing of it any more."""
        self._ended.wait(timeout_s)

    def end(self) -> None:
        """Be told, by the thread, that the function has returned."""
        self._ended.set()


class ThreadPool:
    """Threads that serve one function after another; used from any thread, and by what collects garbage.

    So there is no lock: a deque takes and gives its ends at once.
    """

    def __init__(self) -> None:
        self._idle: deque[_Servant] = deque()
        self._stopped = False

    def start(self, target: Target, name: str) -> Lease:
        """Have a function called on a thread that has nothing else to do: the one that was busy last, or a new one."""
        try:
            servant = self._idle.pop()
        except IndexError:
            servant = _Servant(self._rest)
        return servant.serve(target, name)

    def stop(self) -> None:
        """Let idle threads end, and wait for them; those that are busy end when they are done."""
        self._stopped = True
        deadline = time.monotonic() + _GRACE_S
        while self._idle:
            self._idle.pop().dismiss(max(0.0, deadline - time.monotonic()))

    def forget(self) -> None:
        """In a forked process: none of the threads came along."""
        self._idle = deque()

    def _rest(self, servant: _Servant) -> bool:
        """Take a thread back; return False if it is to end instead."""
        if self._stopped or len(self._idle) >= _MOST_IDLE:
            return False
        self._idle.append(servant)
        return True


class _Servant:
    """One thread of the pool."""

    def __init__(self, rest: Callable[[_Servant], bool]) -> None:
        self._rest = rest
        self._asked: queue.SimpleQueue[tuple[Target, str, Lease] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def serve(self, target: Target, name: str) -> Lease:
        """Have a function called; on another thread."""
        lease = Lease(self._thread)
        self._asked.put((target, name, lease))
        if self._thread.ident is None:
            self._thread.start()
        return lease

    def dismiss(self, timeout_s: float) -> None:
        """Let it end, and wait for that."""
        self._asked.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            target, self._thread.name, lease = asked
            going_on = False
            try:
                target()
                self._thread.name = IDLE
                going_on = self._rest(self)  # before anybody is told, so that who waited finds it again
            finally:
                del asked, target  # what they hold must not live until the next
                lease.end()
            del lease
            if not going_on:
                return


#: Name of threads that have nothing to do.
IDLE: Final = "syclsched idle"
#: That of this process.
THREADS = ThreadPool()

os.register_at_fork(after_in_child=THREADS.forget)
atexit.register(THREADS.stop)
