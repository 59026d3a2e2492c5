# SPDX-License-Identifier: Apache-2.0
"""Minimum effective task granularity of a platform."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from syclsched.model.platform import Device, Platform
from syclsched.simulation.overheads import host_overheads

#: Devices with a greater interference factor share cores: two of them do no more work than one.
_SAME_CORES = 0.5


@dataclass(frozen=True, slots=True)
class Granularity:
    """Overhead of a task, and the shortest duration at which it does not limit the throughput.

    One thread submits all tasks, one after another, and spends ``overhead_s`` on each: for the submission to the
    runtime and for the engine. So ``lanes`` lanes are kept busy only by tasks of ``lanes * overhead_s`` or longer; with
    shorter ones the submitting thread is the bottleneck. Task Bench calls the granularity below which efficiency falls
    under a threshold the minimum effective task granularity, METG (Slaughter et al., "Task Bench: a parameterized
    benchmark for evaluating parallel runtime performance", SC 2020); the one here is that at which the lanes are just
    kept busy.
    """

    #: Submitting thread's time per task; 0 on a platform without submission costs.
    overhead_s: float
    #: Part of it saved per task that becomes a step of another: the engine's, as a step is still submitted.
    saved_s: float
    lanes: int  # compute lanes of the SYCL devices; lanes that share cores count once

    @property
    def minimum_s(self) -> float:
        """The minimum effective granularity: tasks shorter than this are tiny."""
        return self.lanes * self.overhead_s


def granularity(platform: Platform) -> Granularity:
    """Return a platform's granularity."""
    overhead_s = host_overheads(platform).submission_s
    lanes = sum(
        concurrent_lanes(platform, device) for device in without_shared_cores(platform, platform.compute_devices)
    )
    return Granularity(overhead_s, max(0.0, overhead_s - platform.submission_s), max(1, lanes))


def without_shared_cores(platform: Platform, devices: Iterable[Device]) -> tuple[Device, ...]:
    """Return the devices that do not share cores with an earlier one."""
    kept: list[Device] = []
    for device in devices:
        if all(platform.interference(device.name, other.name) <= _SAME_CORES for other in kept):
            kept.append(device)
    return tuple(kept)


def concurrent_lanes(platform: Platform, device: Device) -> int:
    """Return how many lanes of a device compute at the same time: all, or one if they share cores."""
    return device.lanes if platform.interference(device.name, device.name) <= _SAME_CORES else 1
