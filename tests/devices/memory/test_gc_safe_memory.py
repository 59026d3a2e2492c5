# SPDX-License-Identifier: Apache-2.0
"""Release of USM memory: with the last reference, and by garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from support.opened import is_usm, live_on

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.memory_pool import MemoryPool
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.model.usm import UsmKind

pytestmark = pytest.mark.sycl
NBYTES = 1 << 20


@pytest.fixture
def queue() -> Any:
    platform, live = live_on(None)
    return live.allocator_queue(platform.compute_devices[0].space)


@pytest.fixture
def without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def in_a_cycle(held: object) -> None:
    """Make an object garbage that only the cycle collector finds."""
    cycle: list[object] = [held]
    cycle.append(cycle)


@pytest.mark.parametrize("kind", ["device", "shared", "host"])
@pytest.mark.parametrize("how", ["alone", "as an array", "a part"])
def test_memory_in_a_cycle_is_freed_by_garbage_collection(
    queue: Any, without_collections: None, kind: UsmKind, how: str
) -> None:
    made = usm_memory.allocate(queue, NBYTES, kind)
    pointer = int(made._pointer)
    if how == "as an array":
        made = MemoryRange.around(made).usm_array((NBYTES // 4,), "float32", queue)
    elif how == "a part":
        made = usm_memory.memory_slice(made, 0, 64)
    in_a_cycle(made)
    del made
    assert is_usm(pointer, queue)
    gc.collect()
    assert not is_usm(pointer, queue)


def test_memory_is_freed_with_its_last_reference(queue: Any, without_collections: None) -> None:
    made = usm_memory.allocate(queue, NBYTES, "shared")
    pointer = int(made._pointer)
    view = usm_memory.memory_slice(made, 0, 64)
    del made
    assert is_usm(pointer, queue)
    del view
    assert not is_usm(pointer, queue)


def test_a_view_does_not_keep_a_released_block_allocated(queue: Any, without_collections: None) -> None:
    def allocate(nbytes: int) -> tuple[Any, int]:
        made = usm_memory.allocate(queue, nbytes, "shared")
        return made, int(made._pointer)

    pool = MemoryPool(allocate, "test")
    block = pool.take(NBYTES)
    view = usm_memory.block_memory(block, queue).memory
    pool.close()
    assert is_usm(block.pointer, queue)
    block.give_back()
    assert not is_usm(block.pointer, queue)
    del view
