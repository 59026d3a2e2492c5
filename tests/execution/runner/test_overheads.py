# SPDX-License-Identifier: Apache-2.0
"""Measured overheads of the engine on live devices, and delays separated from dependencies."""

from __future__ import annotations

import pytest

from syclsched.devices import discover, open_devices
from syclsched.execution.runner.overheads import _gaps, with_engine_costs
from syclsched.model.trace import Span
from syclsched.profiling import load_profile


def span(number: int, lane: str, start_s: float, finish_s: float, waits: tuple[int, ...] = ()) -> Span:
    kind = "host" if lane == "host:0" else "compute"
    return Span(
        instruction=number, kind="launch", task=f"t{number}", implementation=None, family="t", lane=lane,
        device=lane.partition(":")[0], lane_kind=kind, submit_s=0.0, start_s=start_s, finish_s=finish_s, waits=waits,
        predicted_start_s=start_s, predicted_finish_s=finish_s,
    )  # fmt: skip


def test_a_gap_begins_when_lane_and_inputs_are_ready() -> None:
    spans = (
        span(0, "cpu:0", 0.0, 1.0),
        span(1, "host:0", 1.5, 2.0, waits=(0,)),  # half a second late
        span(2, "cpu:0", 1.0, 4.0),  # depends on no instruction
        span(3, "cpu:0", 4.25, 5.0, waits=(1,)),  # its lane was busy until 4
        span(4, "cpu:1", 5.0, 6.0, waits=(3,)),  # not between host and device
    )
    assert _gaps(spans) == [0.5, 0.25]


@pytest.mark.sycl
def test_every_device_gets_its_numbers() -> None:
    platform = discover()
    profile = load_profile("cpu")
    with open_devices(platform) as live:
        for device in platform.compute_devices:
            launch = with_engine_costs(profile, device.name, platform, live).launch
            assert launch.submission_s == profile.launch.submission_s
            assert launch.dispatch_s is not None and 0.0 < launch.dispatch_s.value < 1.0
            assert launch.handoff_s is not None and launch.handoff_s.value < 1.0
