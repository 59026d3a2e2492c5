# SPDX-License-Identifier: Apache-2.0
"""Memory pools of open devices: real USM, its views, and the accounting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from syclsched.devices import open_devices
from syclsched.devices.memory.space_pools import memory_info
from syclsched.errors import ExecutionError
from syclsched.model.platform import HOST, Platform
from syclsched.model.usm import default_kind

pytestmark = pytest.mark.sycl


def discrete(platform: Platform) -> Platform:
    """The platform as if no device could reach the host's memory."""
    return replace(platform, spaces=tuple(replace(s, host_accessible=s.name == HOST) for s in platform.spaces))


@pytest.fixture
def platform() -> Platform:
    from support.opened import live_on

    return live_on(None)[0]


def test_the_memory_kind_follows_from_host_access(platform: Platform) -> None:
    together = replace(platform, spaces=tuple(replace(s, host_accessible=True) for s in platform.spaces))
    assert {s.name: default_kind(s, together) for s in together.spaces} == {
        s.name: "plain" if s.name == HOST else "shared" for s in together.spaces
    }
    apart = discrete(platform)
    assert {s.name: default_kind(s, apart) for s in apart.spaces} == {
        s.name: "host" if s.name == HOST else "device" for s in apart.spaces
    }


@pytest.mark.parametrize("apart", [False, True])
def test_blocks_can_be_written_and_read_in_every_space(platform: Platform, apart: bool) -> None:
    platform = discrete(platform) if apart else platform
    with open_devices(platform) as live:
        for space in (s.name for s in platform.spaces):
            held = []
            for size in (0, 1, 1000, 1 << 19, 1 << 22):
                block, storage = live.pools.take(space, size, touch=True)
                assert block.pointer % 128 == 0
                pattern = np.arange(size, dtype=np.uint8)
                if isinstance(storage, np.ndarray):
                    storage[:] = pattern
                elif size:
                    storage.queue.memcpy_async(storage.memory, pattern, size, []).wait()
                held.append((storage, pattern, block))
            for storage, pattern, _ in held:
                back = np.zeros_like(pattern)
                if isinstance(storage, np.ndarray):
                    back[:] = storage
                elif len(back):
                    storage.queue.memcpy_async(back, storage.memory, len(back), []).wait()
                np.testing.assert_array_equal(back, pattern)
            info = live.memory()[space]
            assert info.in_use_bytes == sum(block.nbytes for *_, block in held)
            assert info.blocks == 5
            del block, storage, held, _
            assert live.memory()[space].in_use_bytes == 0
        assert live.trim_memory() > 0
        assert all(info.reserved_bytes == 0 for info in live.memory().values())


def test_a_view_keeps_its_memory_even_when_the_devices_are_closed(platform: Platform) -> None:
    live = open_devices(platform)
    space = platform.compute_devices[0].space
    block, storage = live.pools.take(space, 800)
    assert not isinstance(storage, np.ndarray)
    array = storage.usm_array((100,), "int64", live.queue(platform.compute_devices[0].name))
    del block, storage
    assert live.memory()[space].blocks == 1
    live.close()
    array[:] = 5
    assert int(array[99]) == 5
    with pytest.raises(ExecutionError, match="closed"):
        live.pools.take(space, 1)


def test_all_open_devices_are_added_up(platform: Platform) -> None:
    space = platform.compute_devices[0].space
    before: Any = memory_info().get(space)
    with open_devices(platform) as first, open_devices(platform) as second:
        kept = [live.pools.take(space, 100) for live in (first, second)]
        assert memory_info()[space].in_use_bytes == (before.in_use_bytes if before else 0) + 200
        del kept


def test_referenced_closed_devices_are_not_counted(platform: Platform) -> None:
    space = platform.compute_devices[0].space
    before = memory_info().get(space)
    with open_devices(platform) as live:
        kept = live.pools.take(space, 100)
        assert (
            memory_info()[space].limit_bytes == (before.limit_bytes if before else 0) + live.memory()[space].limit_bytes
        )
    assert memory_info().get(space) == before and kept is not None
