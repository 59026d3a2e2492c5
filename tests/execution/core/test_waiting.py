# SPDX-License-Identifier: Apache-2.0
"""Flags that are set once, and waits for them."""

from __future__ import annotations

import threading
import time

import pytest

from syclsched.execution.core.waiting import Flag, wait_flag


def test_a_flag_is_set_once_and_stays_set() -> None:
    flag = Flag()
    assert not flag.is_set()
    flag.set()
    flag.set()
    assert flag.is_set()
    assert flag.wait()
    assert flag.wait(0.0)
    assert flag.wait()
    assert wait_flag(flag, None)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, 0.01])
def test_a_wait_for_a_flag_ends_in_time(timeout_s: float) -> None:
    flag = Flag()
    begun = time.monotonic()
    assert not flag.wait(timeout_s)
    assert max(0.0, timeout_s) <= time.monotonic() - begun < 60.0
    assert not wait_flag(flag, timeout_s)
    assert not flag.is_set()


def test_concurrent_sets_wake_all_waiters() -> None:
    for _ in range(20):
        flag, found = Flag(), list[bool]()
        waiting = [threading.Thread(target=lambda: found.append(flag.wait(60.0))) for _ in range(4)]  # noqa: B023
        setting = [threading.Thread(target=flag.set) for _ in range(3)]
        for thread in [*waiting, *setting]:
            thread.start()
        for thread in [*waiting, *setting]:
            thread.join(60.0)
        assert found == [True] * 4


def test_a_lock_held_by_an_interrupted_waiter_blocks_no_wait() -> None:
    flag = Flag()
    flag.set()
    assert flag._lock.acquire(timeout=1.0)  # as by an interrupted waiter
    assert flag.wait()
    assert wait_flag(flag, 1.0)
