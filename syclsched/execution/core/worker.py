# SPDX-License-Identifier: Apache-2.0
"""Worker thread with a job queue, for blocking waits and Python functions."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from functools import partial

from syclsched.execution.core.thread_pool import THREADS, Lease

Job = Callable[[], None]
_Jobs = queue.SimpleQueue["Job | None"]


class WorkerThread:
    """One thread with a queue of jobs; taken from the thread pool at the first job.

    Jobs handle their own errors. An exception that escapes a job goes to ``threading.excepthook``, and later jobs are
    still executed, because other threads wait for them.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: _Jobs = queue.SimpleQueue()
        self._thread: Lease | None = None

    def post(self, job: Job) -> None:
        """Queue a job; jobs run in the order of posting."""
        if self._thread is None:
            self._begin()
        self._jobs.put(job)

    def stop(self) -> None:
        """End the thread after the jobs posted so far, and wait for it."""
        if self._thread is not None:
            self._jobs.put(None)
            if not self._thread.is_current:  # the last reference to a runner may be dropped by one of its own jobs
                self._thread.join()
            self._thread = None

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the worker's thread."""
        return self._thread is not None and self._thread.is_current

    def _begin(self) -> None:
        # Give every thread its own queue: Ctrl-C during start-up can leave an orphan thread, which must not consume
        # jobs of the next one.
        jobs = self._jobs = queue.SimpleQueue()
        try:
            self._thread = THREADS.start(partial(_run_jobs, jobs), self._name)
        except BaseException:
            self._thread = None
            jobs.put(None)
            raise


def _run_jobs(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        try:
            job()
        except BaseException:
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
        del job  # its referents must not live until the next job
