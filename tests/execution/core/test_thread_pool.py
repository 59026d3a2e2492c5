# SPDX-License-Identifier: Apache-2.0
"""The thread pool: reuse, no references to finished jobs, and the end with the process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

from syclsched.execution.core.thread_pool import IDLE, ThreadPool
from syclsched.execution.core.worker import WorkerThread


def idents(pool: ThreadPool, count: int) -> set[int]:
    """Return the identifiers of the threads on which functions are called, one after another."""
    found: set[int] = set()
    for _ in range(count):
        pool.start(lambda: found.add(threading.get_ident()), "test").join()
    return found


def test_consecutive_jobs_share_one_thread() -> None:
    pool = ThreadPool()
    assert len(idents(pool, 20)) == 1
    pool.stop()


def test_concurrent_jobs_have_threads_that_are_reused() -> None:
    pool, go, found = ThreadPool(), threading.Event(), set()

    def wait() -> None:
        found.add(threading.get_ident())
        go.wait(60)

    leases = [pool.start(wait, "test") for _ in range(5)]
    leases[0].join(0.01)
    assert all(not lease.is_current for lease in leases)
    go.set()
    for lease in leases:
        lease.join()
    assert len(found) == 5
    assert idents(pool, 5) <= found
    pool.stop()


def test_a_thread_has_the_name_of_its_job() -> None:
    pool, names = ThreadPool(), []
    pool.start(lambda: names.append(threading.current_thread()), "of a lane").join()
    assert names[0].name == IDLE
    pool.start(lambda: names.append(threading.current_thread().name), "of another").join()
    assert names[1] == "of another"
    pool.stop()


def test_finished_jobs_are_not_referenced() -> None:
    class Run:
        def do(self) -> None:
            pass

    pool, run = ThreadPool(), Run()
    gone = weakref.ref(run)
    pool.start(run.do, "test").join()
    del run
    assert gone() is None
    pool.stop()


def test_a_raising_job_ends_only_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    pool, threads = ThreadPool(), []

    def fail() -> None:
        threads.append(threading.current_thread())
        raise ZeroDivisionError

    pool.start(fail, "test").join()
    threads[0].join(60)
    assert [each.exc_type for each in reported] == [ZeroDivisionError]
    assert len(idents(pool, 3)) == 1
    pool.stop()


def test_stopped_pool_has_no_threads_and_starts_others() -> None:
    pool, threads = ThreadPool(), []
    pool.start(lambda: threads.append(threading.current_thread()), "test").join()
    pool.stop()
    assert not threads[0].is_alive()
    pool.start(lambda: threads.append(threading.current_thread()), "test").join()
    threads[1].join(60)
    assert not threads[1].is_alive()


def test_more_idle_threads_than_are_kept_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syclsched.execution.core.thread_pool._MOST_IDLE", 2)
    pool, go, threads = ThreadPool(), threading.Event(), []

    def wait() -> None:
        threads.append(threading.current_thread())
        go.wait(60)

    leases = [pool.start(wait, "test") for _ in range(6)]
    go.set()
    for lease in leases:
        lease.join()
    left = [thread for thread in threads if thread.name == IDLE]
    pool.stop()
    for thread in threads:
        thread.join(60)
    assert len(left) >= 2
    assert not any(thread.is_alive() for thread in threads)


def test_worker_stopped_by_its_own_job_does_not_deadlock() -> None:
    worker, done = WorkerThread("test"), threading.Event()
    worker.post(lambda: (worker.stop(), done.set()))
    assert done.wait(60)


def test_garbage_may_start_threads_while_others_start() -> None:
    pool, ran = ThreadPool(), threading.Event()

    class Dropped:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            pool.start(ran.set, "of garbage")

    Dropped()
    gc.collect()
    assert ran.wait(60)
    pool.stop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    program = """
import os, threading
from syclsched.execution.core.thread_pool import THREADS
THREADS.start(lambda: None, "before").join()
child = os.fork()
if child == 0:
    ran = threading.Event()
    THREADS.start(ran.set, "after")
    os._exit(0 if ran.wait(30) else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0
