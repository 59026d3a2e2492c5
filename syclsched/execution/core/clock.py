# SPDX-License-Identifier: Apache-2.0
"""Maps from device clocks to the host clock.

The driver chooses the clock of event times: the CPU device uses the host's monotonic clock, the FPGA emulator the
calendar. A fence on an idle queue, between two readings of the host clock, gives the offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from syclsched.devices.native.host_tasks import wait_for_queue
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.model.plan import Plan

#: Readings per anchor; the one with the narrowest bracket is used.
READINGS = 5


def now_ns() -> int:
    """Return the host clock in nanoseconds."""
    return time.perf_counter_ns()


@dataclass(frozen=True, slots=True)
class Anchor:
    """One instant on both the device clock and the host clock."""

    device_ns: int
    host_ns: int
    bracket_ns: int  # time between the two host readings: twice the maximum error


@dataclass(frozen=True, slots=True)
class ClockMap:
    """Linear map from device time to host time through one or two anchors."""

    #: Anchors before and after the run; the clocks may drift in between.
    first: Anchor
    last: Anchor

    @property
    def error_ns(self) -> int:
        """Maximum error of the map in nanoseconds."""
        return max(self.first.bracket_ns, self.last.bracket_ns) // 2

    def shifted(self, by_ns: int) -> ClockMap:
        """Return this map with all host times shifted later."""
        if by_ns == 0:
            return self
        first, last = (replace(anchor, host_ns=anchor.host_ns + by_ns) for anchor in (self.first, self.last))
        return ClockMap(first, last)

    def to_host_ns(self, device_ns: int) -> int:
        """Convert a device time to host time by linear interpolation."""
        span = self.last.device_ns - self.first.device_ns
        offset = self.first.host_ns - self.first.device_ns
        if span <= 0:
            return device_ns + offset
        drift = (self.last.host_ns - self.last.device_ns) - offset
        return device_ns + offset + drift * (device_ns - self.first.device_ns) // span


#: Identity map, for work executed by lane threads, which use the host clock.
_IDENTITY = ClockMap(Anchor(0, 0, 0), Anchor(0, 0, 0))


def host_clocks(plan: Plan) -> dict[str, ClockMap]:
    """Return identity clock maps for a plan's device lanes, by name."""
    return {lane.name: _IDENTITY for lane in plan.lanes if lane.kind != "host"}


def take_anchor(
    queue: SyclQueue,
    stamp: Callable[[], tuple[int, int]],
    *,
    clock: Callable[[], int] = now_ns,
    readings: int = READINGS,
) -> Anchor:
    """Read a device clock and the host clock at nearly the same instant."""
    found: list[Anchor] = []
    wait_for_queue(queue)
    for _ in range(readings):
        before = clock()
        start, end = stamp()
        after = clock()
        found.append(Anchor((start + end) // 2, (before + after) // 2, after - before))
    return min(found, key=lambda a: a.bracket_ns)


def read_anchors(
    lanes: Iterable[tuple[int, str, SyclQueue]], stamp: Callable[[int], tuple[int, int]]
) -> dict[str, Anchor]:
    """Read the clock of each device once, on its first lane; omit devices where that fails."""
    found: dict[str, Anchor | None] = {}
    for number, device, queue in lanes:
        if device not in found:
            found[device] = None
            with suppress(Exception):  # the runtime may raise anything
                found[device] = take_anchor(queue, partial(stamp, number))
    return {device: anchor for device, anchor in found.items() if anchor is not None}


def with_new_last_anchor(
    clocks: Mapping[str, ClockMap],
    lanes: Iterable[tuple[int, str, str, SyclQueue]],
    stamp: Callable[[int], tuple[int, int]],
) -> dict[str, ClockMap]:
    """Return clock maps with the last anchor replaced by a new reading."""
    lanes, found = list(lanes), dict(clocks)
    anchors = read_anchors([(number, device, queue) for number, _, device, queue in lanes], stamp)
    for _, lane, device, _ in lanes:
        if device in anchors:
            known = clocks.get(lane)
            found[lane] = ClockMap(anchors[device] if known is None else known.first, anchors[device])
    return found
