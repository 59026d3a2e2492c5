# SPDX-License-Identifier: Apache-2.0
"""Spread of computing threads over cores: a caller about to sleep frees its core for one of two threads on another."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from syclsched.devices.native.submission_library import find_submission_loop


@pytest.fixture
def library() -> Any:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this process has one core")
    loaded = ctypes.CDLL(str(find_submission_loop()))
    loaded.syclsched_spread_new.restype = ctypes.c_void_p
    loaded.syclsched_spread_delete.argtypes = [ctypes.c_void_p]
    loaded.syclsched_spread_end.argtypes = [ctypes.c_void_p]
    loaded.syclsched_spread.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    return loaded


@pytest.fixture
def spread(library: Any) -> Iterator[int]:
    made = library.syclsched_spread_new()
    yield made
    library.syclsched_spread_delete(made)


@pytest.fixture
def computing() -> Iterator[tuple[int, int]]:
    """Start two computing threads; the caller keeps to one core meanwhile."""
    over, ids = threading.Event(), []

    def compute() -> None:
        ids.append(threading.get_native_id())
        while not over.is_set():
            hashlib.pbkdf2_hmac("sha256", b"", b"", 20000)  # without the GIL

    allowed = os.sched_getaffinity(0)
    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    os.sched_setaffinity(0, {min(allowed)})
    while len(ids) < 2:
        time.sleep(0.001)
    yield ids[0], ids[1]
    over.set()
    os.sched_setaffinity(0, allowed)
    for thread in threads:
        thread.join()


def core_of(thread: int) -> int:
    with open(f"/proc/self/task/{thread}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[36])


def learn(library: Any, spread: int) -> None:
    """Let the library sample which threads compute."""
    assert library.syclsched_spread(spread, 0) == -1
    time.sleep(0.05)
    assert library.syclsched_spread(spread, 0) == -1


def test_one_of_two_threads_on_a_core_moves_to_the_callers_core(
    library: Any, spread: int, computing: tuple[int, int]
) -> None:
    cores = os.sched_getaffinity(computing[0])
    here, there = sorted(cores)[:2]
    learn(library, spread)
    end = time.monotonic() + 30.0
    while time.monotonic() < end:  # the system may have moved one itself, and other processes may want the cores
        for thread in computing:
            os.sched_setaffinity(thread, {there})
        for thread in computing:
            os.sched_setaffinity(thread, cores)
        moved = library.syclsched_spread(spread, 0)
        found = sorted(core_of(thread) for thread in computing)
        assert all(os.sched_getaffinity(thread) == cores for thread in computing)
        if moved == 1 and found == [here, there]:
            return
        if moved == -1:  # the library samples threads at intervals
            time.sleep(0.002)
    pytest.fail("two threads stayed on one core")


@pytest.mark.parametrize("bound", [0, 1])
def test_the_thread_that_is_not_bound_to_its_core_moves(
    library: Any, spread: int, computing: tuple[int, int], bound: int
) -> None:
    cores = os.sched_getaffinity(computing[0])
    here, there = sorted(cores)[:2]
    os.sched_setaffinity(computing[bound], {there})
    learn(library, spread)
    end = time.monotonic() + 30.0
    while time.monotonic() < end:
        os.sched_setaffinity(computing[1 - bound], {there})
        os.sched_setaffinity(computing[1 - bound], cores)
        moved = library.syclsched_spread(spread, 0)
        if moved == 1 and core_of(computing[1 - bound]) == here:
            assert os.sched_getaffinity(computing[bound]) == {there}
            return
        if moved == -1:
            time.sleep(0.002)
    pytest.fail("two threads stayed on one core")


def test_an_unbound_thread_avoids_the_cores_of_bound_threads(
    library: Any, spread: int, computing: tuple[int, int]
) -> None:
    cores = os.sched_getaffinity(computing[0])
    os.sched_setaffinity(0, cores)  # the cores that a thread may use are the caller's
    bound, waiting = computing
    there = sorted(cores)[1]

    def comes_to_keep_to(wanted: set[int]) -> bool:
        end = time.monotonic() + 60.0
        while os.sched_getaffinity(waiting) != wanted and time.monotonic() < end:
            library.syclsched_spread(spread, waiting)  # threads are listed at intervals, then sampled
            time.sleep(0.01)
        return os.sched_getaffinity(waiting) == wanted

    os.sched_setaffinity(bound, {there})
    assert comes_to_keep_to(cores - {there})
    os.sched_setaffinity(bound, cores)
    assert comes_to_keep_to(cores)


def test_threads_stay_where_the_user_wants_them(library: Any, spread: int, computing: tuple[int, int]) -> None:
    there = sorted(os.sched_getaffinity(computing[0]))[1]
    for thread in computing:
        os.sched_setaffinity(thread, {there})
    learn(library, spread)
    assert {library.syclsched_spread(spread, 0) for _ in range(20)} == {0, -1}
    assert [core_of(thread) for thread in computing] == [there, there]


def test_the_thread_that_does_not_count_is_not_moved(library: Any, spread: int, computing: tuple[int, int]) -> None:
    cores = os.sched_getaffinity(computing[0])
    there = sorted(cores)[1]
    learn(library, spread)
    moved = 1
    for _ in range(5):  # on a busy machine a thread of an earlier test may count, too, and share the core
        for thread in computing:
            os.sched_setaffinity(thread, {there})
        os.sched_setaffinity(computing[1], cores)
        moved = library.syclsched_spread(spread, computing[0])
        if moved == 0:
            break
        time.sleep(0.05)
    assert moved == 0


def test_the_spread_is_checked_again_after_a_slower_run(library: Any, spread: int) -> None:
    learn(library, spread)
    assert library.syclsched_spread(spread, 0) == 0
    assert library.syclsched_spread(spread, 0) == -1
    hashlib.pbkdf2_hmac("sha256", b"", b"", 20000)
    library.syclsched_spread_end(spread)
    assert library.syclsched_spread(spread, 0) == -1
    time.sleep(0.02)
    library.syclsched_spread_end(spread)
    assert library.syclsched_spread(spread, 0) == 0
