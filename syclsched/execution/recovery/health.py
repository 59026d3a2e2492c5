# SPDX-License-Identifier: Apache-2.0
"""Which devices can still be used: those that answer, and have not failed too often."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from syclsched.devices import faultpoints
from syclsched.devices.fences import lane_queue, submit_fence

#: A device that failed in so many recoveries is not used any more, even if it answers.
MOST_STRIKES: Final = 3
#: A device that has not done nothing at all by then is lost.
PATIENCE_S: Final = 5.0


class Health:
    """What is known of the devices of a run, or of all runs of a runner."""

    def __init__(self, live: Any) -> None:
        self._live = live
        self._strikes: Counter[str] = Counter()
        self._lost: set[str] = set()
        self._lock = threading.Lock()

    @property
    def lost(self) -> tuple[str, ...]:
        """Devices that do not answer."""
        with self._lock:
            return tuple(sorted(self._lost))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Devices that are not to be used."""
        if not self._strikes:  # the usual case, asked before every run; what is lost has failed, too
            return ()
        with self._lock:
            often = {device for device, strikes in self._strikes.items() if strikes >= MOST_STRIKES}
            return tuple(sorted(self._lost | often))

    def blame(self, devices: Iterable[str]) -> None:
        """Note that devices failed, and find out whether they still answer."""
        for device in devices:
            answers = device in self._lost or _answers(self._live, device)
            with self._lock:
                self._strikes[device] += 1
                if not answers:
                    self._lost.add(device)


def _answers(live: Any, device: str) -> bool:
    """Return whether a device does what is asked of it: a copy of one byte, on a queue of its own."""
    try:
        queue = lane_queue(live.queue(device))
        if faultpoints.active is not None:
            faultpoints.active.uses(queue)
        event = submit_fence(queue, [])
        deadline = time.monotonic() + PATIENCE_S
        while event.execution_status.name != "complete":
            if time.monotonic() > deadline:
                return False
            time.sleep(1e-4)
    except Exception:  # whatever the runtime raises, the device is of no use
        return False
    return True
