# SPDX-License-Identifier: Apache-2.0
"""Conversion of device clocks to the host's clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gpu_shape import OTHER_DEVICE

from syclsched.execution.core import clock
from syclsched.execution.core.clock import Anchor, ClockMap


@given(offset=st.integers(-(2**62), 2**62), drift_ppm=st.integers(-500, 500), at=st.integers(0, 10**10))
def test_two_anchors_undo_offset_and_drift(offset: int, drift_ppm: int, at: int) -> None:
    def device(host_ns: int) -> int:
        return host_ns + host_ns * drift_ppm // 1_000_000 + offset

    mapped = ClockMap(Anchor(device(0), 0, 10), Anchor(device(10**10), 10**10, 10))
    assert abs(mapped.to_host_ns(device(at)) - at) <= 3_000, "second order in 500 ppm over ten seconds"


def test_one_anchor_gives_the_offset() -> None:
    anchor = Anchor(1_000, 50, 10)
    assert ClockMap(anchor, anchor).to_host_ns(1_200) == 250


def test_the_reading_in_the_narrowest_bracket_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wait_for_queue", lambda queue: None)
    stamps, times = iter([(100, 110), (200, 220), (300, 310)]), iter([0, 50, 60, 70, 80, 120])
    anchor = clock.take_anchor(None, lambda: next(stamps), clock=lambda: next(times), readings=3)
    assert anchor == Anchor(device_ns=210, host_ns=65, bracket_ns=10)


@pytest.mark.sycl
@pytest.mark.parametrize("device", ["cpu", OTHER_DEVICE])
@pytest.mark.parametrize("native", [False, True])
def test_stamps_of_the_compiled_loop_are_on_the_clock_of_its_times(device: str, native: bool) -> None:
    from syclsched.devices import discover, open_devices
    from syclsched.devices.native.fences import lane_queue
    from syclsched.devices.native.submission_library import load_library
    from syclsched.devices.submission.submission_loop import SubmissionLoop

    platform = discover()
    if device not in {d.name for d in platform.devices}:
        pytest.skip(f"no device {device!r} here")
    with open_devices(platform) as live:
        queue: Any = lane_queue(live.queue(device))
        loop = SubmissionLoop(load_library(), {0: queue}, 2)
        if native:
            loop.use_native_queues()
        first = clock.take_anchor(queue, lambda: loop.stamp(0))
        before = clock.now_ns()
        loop.wait(loop.submit([loop.fence(1, 0, [])]))
        after = clock.now_ns()
        mapped = ClockMap(first, clock.take_anchor(queue, lambda: loop.stamp(0)))
        ((start, end),) = loop.times([1])
        loop.close()
    slack = max(mapped.first.bracket_ns, mapped.last.bracket_ns)
    assert before - slack <= mapped.to_host_ns(start) <= mapped.to_host_ns(end) <= after + slack
