# SPDX-License-Identifier: Apache-2.0
"""Workers: jobs in order, also after interrupts and errors."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from syclsched.execution.core import worker as module
from syclsched.execution.core.thread_pool import Lease, ThreadPool
from syclsched.execution.core.worker import WorkerThread


class Interrupted:
    """Threads whose start Ctrl-C interrupts: the thread runs, and the starter has not been told."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self.leases: list[Lease] = []

    def start(self, target: Any, name: str) -> Lease:
        self.leases.append(self._pool.start(target, name))
        if len(self.leases) == 1:
            raise KeyboardInterrupt
        return self.leases[-1]


def test_interrupted_start_leaves_no_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Interrupted(ThreadPool())
    monkeypatch.setattr(module, "THREADS", threads)
    worker, entered, go = WorkerThread("test"), threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        entered.set()
        assert go.wait(60)
        order.append("first")

    with pytest.raises(KeyboardInterrupt):
        worker.post(first)
    worker.post(first)
    assert entered.wait(60)
    worker.post(lambda: order.append("second"))
    threads.leases[0].join(1.0)  # no worker refers to the thread, and it has no jobs
    assert order == []
    go.set()
    worker.stop()
    assert order == ["first", "second"]
    threads.leases[0].join(60)
    assert not threads.leases[0].is_current


def test_a_raising_job_is_reported_and_later_jobs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    worker, done = WorkerThread("test"), threading.Event()

    def fail() -> None:
        raise ZeroDivisionError

    worker.post(fail)
    worker.post(done.set)
    assert done.wait(60)
    worker.stop()
    assert [(each.exc_type, each.thread is not None) for each in told] == [(ZeroDivisionError, True)]
