# SPDX-License-Identifier: Apache-2.0
"""Reuse of message buffers for later messages."""

from __future__ import annotations

import numpy as np

from syclsched.cluster.transport.spare_memory import SpareMemory

MIB = 1 << 20


def test_memory_is_reused_for_similar_sizes() -> None:
    spare = SpareMemory(8 * MIB)
    first = spare.acquire(2 * MIB)
    first[:] = 7
    spare.release(first)
    small = spare.acquire(MIB // 2)
    assert not np.shares_memory(small, first)
    again = spare.acquire(MIB + 5)
    assert np.shares_memory(again, first)
    assert again.nbytes == MIB + 5
    assert not np.shares_memory(spare.acquire(MIB + 5), first)  # the buffer is in use
    spare.release(again)
    assert np.shares_memory(spare.acquire(2 * MIB), first)  # the whole buffer was returned


def test_memory_is_limited() -> None:
    spare = SpareMemory(3 * MIB)
    taken = [spare.acquire(MIB) for _ in range(4)]
    for each in taken:
        spare.release(each)
    again = [spare.acquire(MIB) for _ in range(4)]
    used = [[np.shares_memory(new, old) for new in again].count(True) for old in taken]
    assert used == [0, 1, 1, 1]
    large = spare.acquire(4 * MIB)
    spare.release(large)
    assert not np.shares_memory(spare.acquire(4 * MIB), large)


def test_small_memory_is_not_kept() -> None:
    spare = SpareMemory(MIB)
    small = spare.acquire(1000)
    spare.release(small)
    assert not np.shares_memory(spare.acquire(1000), small)


def test_clear_frees_all_memory() -> None:
    spare = SpareMemory(8 * MIB)
    first = spare.acquire(MIB)
    spare.release(first)
    spare.clear()
    assert not np.shares_memory(spare.acquire(MIB), first)
