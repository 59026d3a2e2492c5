# SPDX-License-Identifier: Apache-2.0
"""Command lists that are submitted repeatedly: the same results each time, in portions, and with a replaced command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from syclsched.devices.memory import usm_memory
from syclsched.devices.programs.executables import CopySubmission
from syclsched.devices.submission import command_list
from syclsched.devices.submission.command_list import CommandList
from syclsched.devices.submission.submission_loop import SubmissionLoop

pytestmark = pytest.mark.sycl
NewLoop = Callable[..., SubmissionLoop]


def storage_of(queue: Any, value: int) -> tuple[Any, np.ndarray[Any, Any]]:
    storage = usm_memory.allocate(queue, 8, "shared")
    view = usm_memory.as_numpy(storage, (1,), "int64")
    view[...] = value
    return storage, view


@pytest.mark.parametrize("portion", [1, 2, 128])
def test_repeated_lists_execute_their_copies_each_time(
    queues: list[Any], new_loop: NewLoop, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    monkeypatch.setattr(command_list, "COMMANDS_PER_CALL", portion)
    monkeypatch.setattr(command_list, "MAX_IN_FLIGHT", 2 * portion)
    places = [storage_of(queues[0], 0) for _ in range(6)]
    first, second = np.array([1]), np.array([2])
    loop = new_loop(queues, 10)

    def from_host(source: np.ndarray[Any, Any]) -> Any:
        return loop.copy(0, 0, [], places[0][0], usm_memory.as_bytes(source), 8)

    commands = [from_host(first)]
    # Alternate lanes: each command waits for the one before.
    commands += [loop.copy(i, i % 2, [i - 1], places[i][0], places[i - 1][0], 8) for i in range(1, 6)]
    listed = CommandList(loop, commands)
    assert len(listed) == 6
    for source in (first, second, first):
        listed.replace(from_host(source))
        listed.begin()
        assert listed.submit() == 6
        listed.wait()
        assert [int(view[0]) for _, view in places] == [int(source[0])] * 6
        times = listed.submit_ns()
        assert listed.slots == list(range(6))
        assert list(times) == sorted(times)
        start_ns, end_ns = listed.times()
        assert list(zip(start_ns, end_ns, strict=True)) == loop.times(range(6))
        assert all(loop.has_event(slot) for slot in range(6))
        assert loop.failed() == {}
        loop.reset()
        assert not any(loop.has_event(slot) for slot in range(6))


def test_a_command_of_several_submissions_is_replaced_whole(queues: list[Any], new_loop: NewLoop) -> None:
    places = [storage_of(queues[0], 0) for _ in range(3)]
    loop = new_loop(queues, 10)

    def two_copies(value: int) -> Any:
        kept.append(np.array([value, 10 * value]))
        first, second = (usm_memory.as_bytes(kept[-1][i : i + 1]) for i in (0, 1))
        steps = [CopySubmission(places[0][0], first, 8), CopySubmission(places[1][0], second, 8)]
        return loop.sequence(0, 0, [], steps)

    kept: list[np.ndarray[Any, Any]] = []
    listed = CommandList(loop, [two_copies(1), loop.copy(1, 0, [0], places[2][0], places[1][0], 8)])
    for value in (1, 2, 3):
        listed.replace(two_copies(value))
        listed.begin()
        assert listed.submit() == 3
        listed.wait()
        assert [int(view[0]) for _, view in places] == [value, 10 * value, 10 * value]
        loop.reset()


def test_a_stopped_list_reports_its_position_and_restarts(queues: list[Any], new_loop: NewLoop) -> None:
    loop = new_loop(queues, 10)
    listed = CommandList(loop, [loop.fence(i, 0, []) for i in range(5)])
    loop.stop()
    assert loop.stopped
    assert listed.submit() == 0
    assert [command.slot for command in listed.commands_from(2)] == [2, 3, 4]
    loop.reset()
    listed.begin()
    assert listed.submit(2) == 2
    assert len(listed.event_ranges()) == 1
    assert listed.submit(1) == 2
    assert listed.submit() == 5
    assert len(listed.event_ranges(1)) == 1
    listed.wait()
