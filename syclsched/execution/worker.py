# SPDX-License-Identifier: Apache-2.0
"""A thread that runs jobs one after another, so that waiting and Python functions hold nobody else up."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from functools import partial

from syclsched.execution.thread_pool import THREADS, Lease

Job = Callable[[], None]
_Jobs = queue.SimpleQueue["Job | None"]


class Worker:
    """One thread with a queue of jobs; taken at the first job.

    Jobs report for themselves. One that raises all the same is told of as threads are that end so
    (``threading.excepthook``), and those behind it are done: somebody waits for them.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: _Jobs = queue.SimpleQueue()
        self._thread: Lease | None = None

    def post(self, job: Job) -> None:
        """Have a job done after those posted before."""
        if self._thread is None:
            self._begin()
        self._jobs.put(job)

    def stop(self) -> None:
        """Let the thread go after the jobs posted so far, and wait for it."""
        if self._thread is not None:
            self._jobs.put(None)
            if not self._thread.is_current:  # whoever drops a runner last may be a job of its own
                self._thread.join()
            self._thread = None

    @property
    def is_current(self) -> bool:
        """Whether its thread is the one that asks."""
        return self._thread is not None and self._thread.is_current

    def _begin(self) -> None:
        # Each thread has jobs of its own: with those of one that had begun when Ctrl-C came, and that nobody knows of,
        # two would do them at once.
        jobs = self._jobs = queue.SimpleQueue()
        try:
            self._thread = THREADS.start(partial(_do_all, jobs), self._name)
        except BaseException:
            self._thread = None
            jobs.put(None)
            raise


def _do_all(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        try:
            job()
        except BaseException:
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
        del job  # what it holds must not live until the next one
