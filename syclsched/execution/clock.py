# SPDX-License-Identifier: Apache-2.0
"""Device clocks mapped to the host's.

Event times are on a clock of the driver's choosing: the CPU device's is the host's monotonic clock, the FPGA emulator's
is the calendar. A fence on an idle queue, bracketed by two readings of the host's clock, gives the offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from syclsched.devices.fences import submit_fence
from syclsched.devices.host_tasks import wait_for, wait_for_queue
from syclsched.model.plan import Plan

#: Readings per anchor; the one in the narrowest bracket is taken.
READINGS = 5


def now_ns() -> int:
    """Return the host's clock in nanoseconds."""
    return time.perf_counter_ns()


@dataclass(frozen=True, slots=True)
class Anchor:
    """One instant on both clocks."""

    #: The instant.
    device_ns: int
    host_ns: int
    bracket_ns: int  # width of the host's bracket: twice the largest error


@dataclass(frozen=True, slots=True)
class ClockMap:
    """Maps device time to host time through one or two anchors."""

    #: Taken before and after the run; the clocks may drift between them.
    first: Anchor
    last: Anchor

    @property
    def error_ns(self) -> int:
        """How far off the map may be."""
        return max(self.first.bracket_ns, self.last.bracket_ns) // 2

    def later(self, by_ns: int) -> ClockMap:
        """Return the map that gives host times which are later."""
        if by_ns == 0:
            return self
        first, last = (replace(anchor, host_ns=anchor.host_ns + by_ns) for anchor in (self.first, self.last))
        return ClockMap(first, last)

    def to_host_ns(self, device_ns: int) -> int:
        """Return the host's time of a device time, by linear interpolation."""
        span = self.last.device_ns - self.first.device_ns
        offset = self.first.host_ns - self.first.device_ns
        if span <= 0:
            return device_ns + offset
        drift = (self.last.host_ns - self.last.device_ns) - offset
        return device_ns + offset + drift * (device_ns - self.first.device_ns) // span


#: Of what is done by threads of our own.
_HOSTS = ClockMap(Anchor(0, 0, 0), Anchor(0, 0, 0))


def host_clocks(plan: Plan) -> dict[str, ClockMap]:
    """Return the maps of a plan's lanes, by name, whose times are the host's already."""
    return {lane.name: _HOSTS for lane in plan.lanes if lane.kind != "host"}


def take_anchor(
    queue: Any,
    stamp: Callable[[], tuple[int, int]] | None = None,
    *,
    clock: Callable[[], int] = now_ns,
    readings: int = READINGS,
) -> Anchor:
    """Read a device's clock and the host's at one instant, as nearly as can be."""
    found: list[Anchor] = []
    wait_for_queue(queue)
    for _ in range(readings):
        before = clock()
        start, end = _fence_times(queue) if stamp is None else stamp()
        after = clock()
        found.append(Anchor((start + end) // 2, (before + after) // 2, after - before))
    return min(found, key=lambda a: a.bracket_ns)


def read_anchors(
    lanes: Iterable[tuple[int, str, Any]], stamp: Callable[[int], tuple[int, int]] | None = None
) -> dict[str, Anchor]:
    """Read the clock of each device once, on the first of its lanes."""
    found: dict[str, Anchor | None] = {}
    for number, device, queue in lanes:
        if device not in found:
            found[device] = None
            with suppress(Exception):  # whatever the runtime raises
                found[device] = take_anchor(queue, None if stamp is None else partial(stamp, number))
    return {device: anchor for device, anchor in found.items() if anchor is not None}


def moved_on(
    clocks: Mapping[str, ClockMap],
    lanes: Iterable[tuple[int, str, str, Any]],
    stamp: Callable[[int], tuple[int, int]] | None = None,
) -> dict[str, ClockMap]:
    """Return clock maps that end now."""
    lanes, found = list(lanes), dict(clocks)
    anchors = read_anchors([(number, device, queue) for number, _, device, queue in lanes], stamp)
    for _, lane, device, _ in lanes:
        if device in anchors:
            known = clocks.get(lane)
            found[lane] = ClockMap(anchors[device] if known is None else known.first, anchors[device])
    return found


def _fence_times(queue: Any) -> tuple[int, int]:
    event = submit_fence(queue, [])
    wait_for(event)
    return event.profiling_info_start, event.profiling_info_end
