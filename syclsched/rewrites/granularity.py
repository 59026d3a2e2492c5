# SPDX-License-Identifier: Apache-2.0
"""How small a task may be: the platform's minimum effective granularity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from syclsched.model.platform import Device, Platform
from syclsched.simulation.overheads import host_overheads

#: Devices that slow each other down by more than this share their cores: two of them do no more than one.
_SAME_CORES = 0.5


@dataclass(frozen=True, slots=True)
class Granularity:
    """What a task costs besides its work, and how long it must be for that not to matter.

    One thread submits all tasks, one after another, and spends ``overhead_s`` on each: a submission to the runtime, and
    the engine's own work. So ``lanes`` lanes are kept busy only by tasks of ``lanes * overhead_s`` or longer; below,
    the submitting thread sets the pace, not the devices. Task Bench calls the granularity below which efficiency falls
    under a threshold the minimum effective task granularity, METG (Slaughter et al., "Task Bench: a parameterized
    benchmark for evaluating parallel runtime performance", SC 2020); this is the one at which the lanes are just fed.
    """

    #: The submitting thread's time per task; 0 on a platform without submission cost, one of pure arithmetic.
    overhead_s: float
    #: What of it is saved for each task that becomes a step of another: the engine's part; a step is submitted still.
    saved_s: float
    lanes: int  # compute lanes of the SYCL devices, those that share cores counted once

    @property
    def minimum_s(self) -> float:
        """The minimum effective granularity: tasks shorter than this are tiny."""
        return self.lanes * self.overhead_s


def granularity(platform: Platform) -> Granularity:
    """Return a platform's granularity."""
    overhead_s = host_overheads(platform).submission_s
    lanes = sum(lanes_apart(platform, device) for device in apart(platform, platform.compute_devices))
    return Granularity(overhead_s, max(0.0, overhead_s - platform.submission_s), max(1, lanes))


def apart(platform: Platform, devices: Iterable[Device]) -> tuple[Device, ...]:
    """Return devices that do not share cores."""
    kept: list[Device] = []
    for device in devices:
        if all(platform.interference(device.name, other.name) <= _SAME_CORES for other in kept):
            kept.append(device)
    return tuple(kept)


def lanes_apart(platform: Platform, device: Device) -> int:
    """Return how many lanes of a device compute at once: all, or one if they take turns."""
    return device.lanes if platform.interference(device.name, device.name) <= _SAME_CORES else 1
