# SPDX-License-Identifier: Apache-2.0
"""A thread that runs jobs one after another, so that waiting and Python functions hold nobody else up."""

from __future__ import annotations

import queue
from collections.abc import Callable

from syclsched.execution.thread_pool import THREADS, Lease

Job = Callable[[], None]


class Worker:
    """One thread with a queue of jobs; taken at the first job.

    Jobs report for themselves and must not raise.

    Parameters
    ----------
    name : str
        Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: Lease | None = None

    def post(self, job: Job) -> None:
        """Have a job done after those posted before."""
        if self._thread is None:
            self._thread = THREADS.start(self._run, self._name)
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

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # what it holds must not live until the next one
