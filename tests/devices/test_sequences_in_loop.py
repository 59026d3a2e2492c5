# SPDX-License-Identifier: Apache-2.0
"""Sequences in the compiled submission loop: one instruction of several kernels, with one event and one span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.running import DTYPE, MIX

from syclsched.devices import discover
from syclsched.devices.memory import usm_memory
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.programs.executables import KernelSubmission
from syclsched.devices.programs.task_compiler import compile_task
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import ExecutionError
from syclsched.model.operation import Signature

pytestmark = pytest.mark.sycl
SIZE = 100


@pytest.fixture
def queue(queues: list[Any]) -> Any:
    """An in-order queue of a device."""
    return queues[0]


@pytest.fixture
def loop(queue: Any, new_loop: Callable[..., SubmissionLoop]) -> SubmissionLoop:
    """Make a submission loop for it, for SYCL or native queues."""
    return new_loop([queue], 10)


class Mixed:
    """An array on which kernels are submitted, and its expected values after a number of them."""

    def __init__(self, queue: Any) -> None:
        signature = Signature({"x": (SIZE,), "y": (SIZE,)}, {"x": DTYPE, "y": DTYPE}, {"a": 2})
        limits = discover().device("cpu").limits
        compiled = compile_task(MIX, MIX.implementations[0], signature, queue, limits)
        arrays = {}
        for name in ("x", "y"):
            storage = usm_memory.allocate(queue, 8 * SIZE, "shared")
            usm_memory.as_numpy(storage, (SIZE,), DTYPE)[...] = np.arange(SIZE)
            arrays[name] = MemoryRange.around(storage).usm_array((SIZE,), DTYPE, queue)
            self.y = usm_memory.as_numpy(storage, (SIZE,), DTYPE)
        submission = compiled.bind(arrays)
        assert isinstance(submission, KernelSubmission)
        self.kernel = submission
        # Three work-items to a group do not divide the work-items.
        self.wrong = KernelSubmission(submission.kernel, submission.arguments, [SIZE], [3])

    def after(self, kernels: int) -> Any:
        value = np.arange(SIZE)
        for _ in range(kernels):
            value = 2 * np.arange(SIZE) + 3 * value + np.arange(SIZE)
        return value


def test_a_sequence_is_done_in_order_and_has_one_event(queue: Any, loop: SubmissionLoop) -> None:
    mixed = Mixed(queue)
    commands = [
        loop.kernel(0, 0, [], mixed.kernel),
        loop.sequence(1, 0, [0], [mixed.kernel] * 4),
        loop.sequence(2, 0, [1], [mixed.kernel]),
        loop.fence(3, 0, [2]),
    ]
    batch = loop.submit(commands)
    loop.wait(batch)
    assert (batch.done, batch.further) == (4, 3)
    assert batch.made_count == 7 + batch.fences
    assert len(batch.submit_ns) == 4
    assert batch.submit_ns == sorted(batch.submit_ns)
    assert all(loop.has_event(slot) and loop.is_complete(slot) for slot in range(4))
    np.testing.assert_array_equal(mixed.y, mixed.after(6))


def test_a_sequence_begins_with_its_first_kernel(queue: Any, loop: SubmissionLoop) -> None:
    mixed = Mixed(queue)
    loop.wait(loop.submit([loop.kernel(0, 0, [], mixed.kernel), loop.sequence(1, 0, [], [mixed.kernel] * 50)]))
    (_, alone_end_ns), (start_ns, end_ns) = loop.times([0, 1])
    (last_start_ns,), (last_end_ns,) = loop._times([1])  # the times of its last kernel only
    assert end_ns == last_end_ns
    assert alone_end_ns <= start_ns < last_start_ns


def test_a_run_that_was_stopped_submits_no_sequence(queue: Any, loop: SubmissionLoop) -> None:
    mixed = Mixed(queue)
    loop.stop()
    batch = loop.submit([loop.sequence(0, 0, [], [mixed.kernel] * 3)])
    assert (batch.done, batch.submit_ns) == (0, [])
    assert not loop.has_event(0)


def test_refused_first_step_leaves_the_rest(queue: Any, loop: SubmissionLoop) -> None:
    mixed = Mixed(queue)
    batch = loop.submit([loop.fence(0, 0, []), loop.sequence(1, 0, [], [mixed.wrong, mixed.kernel])])
    loop.wait(batch)
    assert batch.done == 1
    np.testing.assert_array_equal(mixed.y, mixed.after(0))


def test_a_later_step_that_is_refused_ends_the_run(queue: Any, loop: SubmissionLoop) -> None:
    mixed = Mixed(queue)
    with pytest.raises(ExecutionError, match="refused in the middle of a sequence"):
        loop.submit([loop.sequence(7, 0, [], [mixed.kernel, mixed.wrong, mixed.kernel])])
    np.testing.assert_array_equal(mixed.y, mixed.after(1))  # the caller has waited for all submissions
