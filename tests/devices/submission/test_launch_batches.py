# SPDX-License-Identifier: Apache-2.0
"""Batches of launches: the results of single launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.running import DTYPE, MIX

from syclsched.devices import discover
from syclsched.devices.memory import usm_memory
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.programs.arguments import BoundArray
from syclsched.devices.programs.executables import KernelExecutable, KernelSubmission
from syclsched.devices.programs.task_compiler import compile_task
from syclsched.devices.submission.launch_batches import launch_commands
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.model.operation import Signature

pytestmark = pytest.mark.sycl
SIZE = 100


@pytest.mark.parametrize("implementation", [0, 1], ids=["bare pointers", "shapes passed"])
def test_each_launch_has_its_own_arrays_and_waits(
    queues: list[Any], new_loop: Callable[..., SubmissionLoop], implementation: int
) -> None:
    signature = Signature({"x": (SIZE,), "y": (SIZE,)}, {"x": DTYPE, "y": DTYPE}, {"a": 2})
    limits = discover().device("cpu").limits
    mix = compile_task(MIX, MIX.implementations[implementation], signature, queues[0], limits)
    assert isinstance(mix, KernelExecutable)
    memory = [usm_memory.allocate(queues[0], 8 * SIZE, "shared") for _ in range(21)]
    values = [usm_memory.as_numpy(each, (SIZE,), DTYPE) for each in memory]
    expected = []
    for n, value in enumerate(values):
        value[...] = n
        expected.append(value.copy())
    ranges = [MemoryRange.around(each) for each in memory]
    # Launch n reads what launch n - 1 of the other lane writes.
    for n in range(20):
        expected[n + 1] = 2 * expected[n] + 3 * expected[n + 1] + np.arange(SIZE)
    loop = new_loop(queues)
    commands = {}
    for lane in (0, 1):
        slots = list(range(lane, 20, 2))
        arrays = {name: BoundArray(ranges[lane + at], (SIZE,), DTYPE, queues[lane]) for at, name in enumerate("xy")}
        first = mix.bind(arrays)
        assert isinstance(first, KernelSubmission)
        assert mix.array_names == ["x", "y"]
        addresses = [[int(memory[n]._pointer), int(memory[n + 1]._pointer)] for n in slots]
        waits = [[n - 1] if n else [] for n in slots]
        commands.update(zip(slots, launch_commands(loop, lane, slots, waits, first, addresses), strict=True))
    for n, command in commands.items():
        assert (command.slot, command.lane) == (n, n % 2)
    batch = loop.submit([commands[n] for n in range(20)])
    assert batch.done == 20
    loop.wait(batch)
    for found, wanted in zip(values, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
