# SPDX-License-Identifier: Apache-2.0
"""Device health: devices that do not respond, or failed too often, are excluded."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from syclsched.devices.native.fences import lane_queue, submit_fence
from syclsched.devices.submission import faultpoints

if TYPE_CHECKING:
    from syclsched.devices.native.sycl_types import SyclEvent
    from syclsched.devices.opened_devices import OpenDevices

#: A device that failed in this many recoveries is excluded, even if it responds.
MOST_STRIKES: Final = 3
#: A device that has not completed an empty command after this many seconds is lost.
PATIENCE_S: Final = 5.0


class DeviceHealth:
    """Failures of the devices of one run, or of all runs of a runner."""

    def __init__(self, devices: OpenDevices) -> None:
        self._devices = devices
        self._strikes: Counter[str] = Counter()
        self._lost: set[str] = set()
        self._lock = threading.Lock()

    @property
    def lost(self) -> tuple[str, ...]:
        """Devices that do not respond."""
        with self._lock:
            return tuple(sorted(self._lost))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Devices that must not be used."""
        if not self._strikes:  # the usual case, checked before every run; a lost device has strikes, too
            return ()
        with self._lock:
            often = {device for device, strikes in self._strikes.items() if strikes >= MOST_STRIKES}
            return tuple(sorted(self._lost | often))

    def record_failures(self, devices: Iterable[str]) -> None:
        """Record failures of devices, and test whether they still respond."""
        for device in devices:
            responds = device in self._lost or _responds(self._devices, device)
            with self._lock:
                self._strikes[device] += 1
                if not responds:
                    self._lost.add(device)


def lost_devices(devices: OpenDevices) -> tuple[str, ...]:
    """Return the devices that do not respond."""
    return tuple(each.name for each in devices.platform.compute_devices if not _responds(devices, each.name))


def _responds(devices: OpenDevices, device: str) -> bool:
    """Return whether a device completes an empty command (a one-byte copy on a new queue) in time."""
    try:
        queue = lane_queue(devices.queue(device))
        if faultpoints.active is not None:
            faultpoints.active.uses(queue)
        return complete_in_time([submit_fence(queue, [])])
    except Exception:  # for any error of the runtime, the device is unusable
        return False


def complete_in_time(events: Iterable[SyclEvent]) -> bool:
    """Wait for events of devices that may be lost, at most `PATIENCE_S`; return whether all have completed."""
    waited, deadline = list(events), time.monotonic() + PATIENCE_S
    while any(event.execution_status.name != "complete" for event in waited):
        if time.monotonic() > deadline:
            return False
        time.sleep(1e-4)
    return True
