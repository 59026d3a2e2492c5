# SPDX-License-Identifier: Apache-2.0
"""Ranges of USM memory: parts, views, and the lazy creation of dpctl's objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.memory_pool import MemoryPool
from syclsched.devices.native.memory_range import MemoryRange

pytestmark = pytest.mark.sycl


def new_range(queue: Any, nbytes: int) -> MemoryRange:
    def allocate(size: int) -> tuple[Any, int]:
        made = usm_memory.allocate(queue, size, "shared")
        return made, int(made._pointer)

    return usm_memory.block_memory(MemoryPool(allocate, "test").take(nbytes), queue)


def test_parts_and_views_are_of_the_same_memory(queues: list[Any]) -> None:
    whole = new_range(queues[0], 800)
    values = usm_memory.as_numpy(whole, (100,), "int64")
    values[...] = np.arange(100)
    part = whole.part(80, 160)
    assert part.nbytes == 160
    assert part._pointer == whole._pointer + 80
    assert int(part.memory._pointer) == part._pointer
    array = part.usm_array((4, 5), "int64", queues[1])
    assert array.sycl_queue == queues[1]
    array[1, 2] = -1
    queues[1].wait()
    assert values[17] == -1
    assert whole.part(0, 0) is whole, "SYCL has no memory of size zero"


def test_dpctl_objects_are_made_once_and_only_on_request(queues: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    whole = new_range(queues[0], 800)
    kind = whole._kind
    monkeypatch.setattr(whole, "_kind", lambda interface: made.append(interface) or kind(interface))
    part = whole.part(0, 400)
    usm_memory.as_numpy(whole, (100,), "int64")
    assert not made
    assert whole.memory is whole.memory
    assert len(made) == 1
    assert MemoryRange.around(whole.memory).memory is whole.memory
    assert part.memory is not whole.memory
