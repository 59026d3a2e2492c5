# SPDX-License-Identifier: Apache-2.0
"""Processor use by other processes, from /proc/stat, before and during a measurement."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")

#: Share of the machine's processor time other processes may take before it counts as busy.
BUSY_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Processor seconds of all cores together since boot."""

    busy_s: float  # not idle, including time that the hypervisor took for other machines
    total_s: float  # including idle time
    own_s: float  # spent by this process, all its threads, user and system


def parse_stat(text: str, ticks_per_s: float) -> tuple[float, float]:
    """Return (busy, total) processor seconds from the text of /proc/stat."""
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] == "cpu":
            ticks = [float(f) for f in fields[1:9]]
            idle = sum(ticks[3:5])
            return (sum(ticks) - idle) / ticks_per_s, sum(ticks) / ticks_per_s
    return 0.0, 0.0


def read_times(path: Path = _STAT) -> CpuTimes | None:
    """Return the processor times now, or None where the system does not report them."""
    try:
        busy, total = parse_stat(path.read_text(), float(os.sysconf("SC_CLK_TCK")))
    except (OSError, ValueError):
        return None
    own = os.times()
    return CpuTimes(busy, total, own.user + own.system)


def others_share(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Return the share of processor time of other processes between two readings, 0 to 1, or None if unknown."""
    if before is None or after is None or after.total_s <= before.total_s:
        return None
    others = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return min(max(others / (after.total_s - before.total_s), 0.0), 1.0)


def watch(
    duration_s: float, *, read: Callable[[], CpuTimes | None] = read_times, pause: Callable[[float], None] = time.sleep
) -> float | None:
    """Return the share of processor time of other processes while this process sleeps; None if unknown."""
    before = read()
    pause(duration_s)
    return others_share(before, read())


def is_quiet(load: float | None) -> bool:
    """Return whether a measurement under this load can be trusted; where the system reports no load, all can."""
    return load is None or load <= BUSY_SHARE


class LoadMeter:
    """The load of the machine by other processes, over the time since a reading a little while ago; thread-safe.

    The system counts processor time in ticks of 10 ms, so shorter spans than a quarter of a second tell little.
    """

    #: Least seconds of processor time, of all cores together, between the readings that are compared.
    LEAST_S = 0.25

    def __init__(self, read: Callable[[], CpuTimes | None] = read_times) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._readings: deque[CpuTimes] = deque()
        self.load()

    def load(self) -> float | None:
        """Return the share of the machine that other processes took lately; None if unknown."""
        now = self._read()
        if now is None:
            return None
        with self._lock:
            readings = self._readings
            # The oldest reading kept is the newest one that is old enough, or the first of all.
            while len(readings) > 1 and now.total_s - readings[1].total_s >= self.LEAST_S:
                readings.popleft()
            before = readings[0] if readings else None
            readings.append(now)
        return others_share(before, now)
