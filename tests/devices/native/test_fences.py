# SPDX-License-Identifier: Apache-2.0
"""Fences on in-order queues: later submissions start after the fence."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_shape import OTHER_DEVICE
from support.running import DTYPE, MIX, SPIN

from syclsched.devices import discover, open_devices
from syclsched.devices.memory import usm_memory
from syclsched.devices.native.fences import lane_queue, submit_fence
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.programs.task_compiler import compile_task
from syclsched.model.operation import Signature

pytestmark = pytest.mark.sycl
SIZE = 1000


@pytest.mark.parametrize("name", ["cpu", OTHER_DEVICE])
def test_kernel_behind_a_fence_waits_for_copies_of_another_queue(name: str) -> None:
    platform = discover()
    with open_devices(platform) as live:
        kernels, copies = (lane_queue(live.queue(name)) for _ in range(2))
        signature = Signature({"x": (SIZE,), "y": (SIZE,)}, {"x": DTYPE, "y": DTYPE}, {"a": 2})
        mix = compile_task(MIX, MIX.implementations[0], signature, kernels, platform.device(name).limits)
        for repeat in range(100):
            buffers = [usm_memory.allocate(kernels, 8 * SIZE, "shared") for _ in "xy"]
            views = [usm_memory.as_numpy(b, (SIZE,), DTYPE) for b in buffers]
            for view in views:
                view[...] = -1
            source = np.arange(SIZE) + repeat
            first = copies.memcpy_async(buffers[0], usm_memory.as_bytes(source), 8 * SIZE, [])
            second = copies.memcpy_async(buffers[1], usm_memory.as_bytes(source), 8 * SIZE, [first])
            arrays = {
                n: MemoryRange.around(b).usm_array((SIZE,), DTYPE, kernels) for n, b in zip("xy", buffers, strict=True)
            }
            submit_fence(kernels, [second])
            mix.bind(arrays).submit(kernels, []).wait()
            np.testing.assert_array_equal(views[1], 5 * source + np.arange(SIZE))


@pytest.mark.parametrize("name", ["cpu", OTHER_DEVICE])
def test_fence_completes_after_its_dependencies(name: str) -> None:
    platform = discover()
    with open_devices(platform) as live:
        busy, other = (lane_queue(live.queue(name)) for _ in range(2))
        signature = Signature({"y": (1,)}, {"y": DTYPE}, {"turns": 1_000_000})
        spin = compile_task(SPIN, SPIN.implementations[0], signature, busy, platform.device(name).limits)
        buffer = usm_memory.allocate(busy, 8, "shared")
        work = spin.bind({"y": MemoryRange.around(buffer).usm_array((1,), DTYPE, busy)})
        for _ in range(10):
            event = work.submit(busy, [])
            submit_fence(other, [event]).wait()
            assert event.execution_status.name == "complete"
