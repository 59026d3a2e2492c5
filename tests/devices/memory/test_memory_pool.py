# SPDX-License-Identifier: Apache-2.0
"""Memory pools: aligned blocks that never overlap, coalescing, and the release of all memory."""

from __future__ import annotations

import random
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from syclsched.devices.memory.free_extents import FreeExtents
from syclsched.devices.memory.memory_pool import KEPT_BYTES, SLAB_BYTES, MemoryBlock, MemoryInfo, MemoryPool
from syclsched.errors import ExecutionError, MemoryLimitError


class Runtime:
    """A runtime with made-up addresses that records releases."""

    def __init__(self, most: int | None = None) -> None:
        self.next, self.most = 1 << 20, most
        self.held: dict[int, int] = {}
        self.touched: list[int] = []

    def allocate(self, nbytes: int) -> tuple[Any, int]:
        if self.most is not None and sum(self.held.values()) + nbytes > self.most:
            raise MemoryLimitError("no more")
        runtime, address = self, self.next

        class Memory:
            def __init__(self) -> None:
                self.address = address

            def __del__(self) -> None:
                del runtime.held[address]

        self.held[address] = nbytes
        self.next += nbytes + 4096 - nbytes % 4096
        return Memory(), address

    def touch(self, owner: Any) -> None:
        self.touched.append(owner.address)


class PoolMachine(RuleBasedStateMachine):
    """Random allocations and releases."""

    def __init__(self) -> None:
        super().__init__()
        self.runtime = Runtime()
        self.pool = MemoryPool(self.runtime.allocate, "somewhere", slab_bytes=1 << 16)
        self.blocks: list[MemoryBlock] = []

    @rule(nbytes=st.one_of(st.integers(0, 3000), st.integers(0, 200_000)), touch=st.booleans())
    def take(self, nbytes: int, touch: bool) -> None:
        self.blocks.append(self.pool.take(nbytes, touch=self.runtime.touch if touch else None))

    @rule(sizes=st.lists(st.one_of(st.integers(0, 3000), st.integers(0, 200_000)), max_size=12), touch=st.booleans())
    def take_all(self, sizes: list[int], touch: bool) -> None:
        found = self.pool.take_all(sizes, touch=self.runtime.touch if touch else None)
        assert [block.nbytes for block in found] == sizes
        self.blocks += found

    @precondition(lambda self: self.blocks)
    @rule(index=st.integers(0, 1 << 16), explicitly=st.booleans())
    def give_back(self, index: int, explicitly: bool) -> None:
        block = self.blocks.pop(index % len(self.blocks))
        if explicitly:
            block.give_back()
            block.give_back()  # the second release has no effect

    @rule()
    def trim(self) -> None:
        self.pool.trim()

    @invariant()
    def blocks_are_apart_aligned_and_in_memory_that_is_held(self) -> None:
        spans = sorted((b.pointer, b.pointer + b.nbytes) for b in self.blocks)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert all(start % 128 == 0 for start, _ in spans)
        for start, end in spans:
            assert any(base <= start and end <= base + size for base, size in self.runtime.held.items())

    @invariant()
    def the_books_are_right(self) -> None:
        info = self.pool.info()
        assert info.in_use_bytes == sum(b.nbytes for b in self.blocks)
        assert info.blocks == len(self.blocks)
        assert info.reserved_bytes == sum(self.runtime.held.values())
        assert info.in_use_bytes + info.padding_bytes <= info.reserved_bytes <= info.peak_reserved_bytes
        assert info.in_use_bytes <= info.peak_in_use_bytes

    def teardown(self) -> None:
        self.blocks.clear()
        self.pool.trim()
        assert self.pool.info() == MemoryInfo(
            peak_in_use_bytes=self.pool.info().peak_in_use_bytes,
            peak_reserved_bytes=self.pool.info().peak_reserved_bytes,
            allocations=self.pool.info().allocations,
        )
        assert not self.runtime.held


TestPool = PoolMachine.TestCase


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_freed_extents_are_coalesced(sizes: list[int], order: random.Random) -> None:
    extents = FreeExtents()
    extents.add_region(0, 4096)
    taken = [(place, n) for n in sizes if (place := extents.take(n)) is not None]
    spans = sorted((place[1], place[1] + n) for place, n in taken)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert extents.free_bytes == 4096 - sum(n for _, n in taken)
    assert not extents.remove_region(0, 4096)
    order.shuffle(taken)
    for place, n in taken:
        extents.give(place, n)
    assert len(extents) == 1
    assert extents.remove_region(0, 4096)
    assert extents.free_bytes == 0


def test_the_smallest_stretch_that_fits_is_taken() -> None:
    extents = FreeExtents()
    for region, size in enumerate((500, 100, 200)):
        extents.add_region(region, size)
    assert extents.take(150) == (2, 0)
    assert extents.take(50) == (2, 150)
    assert extents.take(600) is None


def test_released_blocks_are_reused_and_touched_once() -> None:
    runtime = Runtime()
    pool = MemoryPool(runtime.allocate, "somewhere")
    for _ in range(20):
        blocks = [pool.take(n, touch=runtime.touch) for n in (100, 5000, SLAB_BYTES, 3 * SLAB_BYTES)]
        del blocks
    assert pool.info().allocations == len(runtime.touched) == 3


def test_unused_memory_is_freed_to_stay_within_the_limit() -> None:
    runtime = Runtime()
    pool = MemoryPool(runtime.allocate, "small", limit_bytes=1000 * 128)
    for size in range(100, 1000, 50):
        block = pool.take(size * 128)
        assert pool.info().reserved_bytes <= 1000 * 128
        del block


def test_unused_memory_is_freed_if_the_runtime_is_out_of_memory() -> None:
    runtime = Runtime(most=1000 * 128)
    pool = MemoryPool(runtime.allocate, "small", slab_bytes=0)
    for size in range(100, 1000, 50):
        block = pool.take(size * 128)
        del block
    held = pool.take(900 * 128)
    with pytest.raises(MemoryLimitError):
        pool.take(900 * 128)
    assert held.nbytes == runtime.held[held.pointer]


def test_all_blocks_are_taken_or_none() -> None:
    runtime = Runtime(most=3 * SLAB_BYTES)
    pool = MemoryPool(runtime.allocate, "somewhere", slab_bytes=SLAB_BYTES)
    with pytest.raises(MemoryLimitError):
        pool.take_all([SLAB_BYTES] * 5)
    assert pool.info().blocks == 0
    assert pool.info().in_use_bytes == 0
    assert len(pool.take_all([SLAB_BYTES] * 3)) == 3


def test_no_more_is_kept_than_was_in_use_at_once_or_a_little() -> None:
    pool = MemoryPool(Runtime().allocate, "somewhere")
    for size in range(1, 100):
        block = pool.take(size * SLAB_BYTES)
        del block
    assert pool.info().reserved_bytes <= KEPT_BYTES + 3 * 100 * SLAB_BYTES


def test_trimmed_memory_does_not_count_as_kept() -> None:
    pool = MemoryPool(Runtime().allocate, "somewhere")
    pool.take(KEPT_BYTES * 3 // 4).give_back()
    assert pool.trim() == KEPT_BYTES * 3 // 4
    pool.take(KEPT_BYTES // 2).give_back()
    pool.take(KEPT_BYTES // 4).give_back()
    assert pool.info().reserved_bytes == KEPT_BYTES * 3 // 4
    pool.take(KEPT_BYTES // 2)
    assert pool.info().allocations == 3


def test_a_closed_pool_allocates_nothing_and_keeps_blocks_in_use() -> None:
    runtime = Runtime()
    pool = MemoryPool(runtime.allocate, "somewhere")
    small, large = pool.take(100), pool.take(SLAB_BYTES)
    pool.close()
    with pytest.raises(ExecutionError, match="closed"):
        pool.take(1)
    assert len(runtime.held) == 2
    del small
    assert len(runtime.held) == 1
    large.give_back()
    del large
    assert not runtime.held
    assert pool.info().reserved_bytes == 0


def test_many_threads_never_get_the_same_memory() -> None:
    memory = np.zeros(1 << 24, np.uint8)
    top = [0]

    def allocate(nbytes: int) -> tuple[Any, int]:
        top[0] += nbytes
        return object(), top[0] - nbytes

    pool = MemoryPool(allocate, "somewhere", slab_bytes=1 << 16)
    wrong: list[int] = []

    def work(number: int) -> None:
        choose = random.Random(number)
        held: list[MemoryBlock] = []
        for _ in range(300):
            held.append(pool.take(choose.randrange(1, 20_000)))
            at = held[-1]
            memory[at.pointer : at.pointer + at.nbytes] = number
            if len(held) > 8:
                gone = held.pop(choose.randrange(8))
                if not (memory[gone.pointer : gone.pointer + gone.nbytes] == number).all():
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.info().in_use_bytes == 0
