# SPDX-License-Identifier: Apache-2.0
"""Is somebody else using the machine? Read from /proc/stat, before and during a measurement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")

#: Share of the machine's processor time other processes may take before it counts as busy.
BUSY_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Processor seconds of all cores together since boot.

    Parameters
    ----------
    busy_s : float
        Spent working, for anybody, or taken by the hypervisor for other machines.
    total_s : float
        Passed, idle time included.
    own_s : float
        Spent by this process, all its threads, user and system.
    """

    busy_s: float
    total_s: float
    own_s: float


def parse_stat(text: str, ticks_per_s: float) -> tuple[float, float]:
    """Return (busy, total) processor seconds from the text of /proc/stat.

    Parameters
    ----------
    text : str
        Its first line is ``cpu  user nice system idle iowait irq softirq steal guest guest_nice``; guest time
        is contained in user time.
    ticks_per_s : float
        Unit of its numbers.

    Returns
    -------
    tuple of float
        Busy and total seconds; (0, 0) if the line is not there.
    """
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] == "cpu":
            ticks = [float(f) for f in fields[1:9]]
            idle = sum(ticks[3:5])
            return (sum(ticks) - idle) / ticks_per_s, sum(ticks) / ticks_per_s
    return 0.0, 0.0


def read_times(path: Path = _STAT) -> CpuTimes | None:
    """Return the processor times now, or None where the system does not tell."""
    try:
        busy, total = parse_stat(path.read_text(), float(os.sysconf("SC_CLK_TCK")))
    except (OSError, ValueError):
        return None
    own = os.times()
    return CpuTimes(busy, total, own.user + own.system)


def others_share(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Return the share of the machine that others took between two readings, 0 to 1; None if it is not known."""
    if before is None or after is None or after.total_s <= before.total_s:
        return None
    others = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return min(max(others / (after.total_s - before.total_s), 0.0), 1.0)


def watch(
    duration_s: float, *, read: Callable[[], CpuTimes | None] = read_times, pause: Callable[[float], None] = time.sleep
) -> float | None:
    """Observe the machine for a moment while this process does nothing.

    Parameters
    ----------
    duration_s : float
        How long.
    read, pause : callable, optional
        Replaced in tests.

    Returns
    -------
    float or None
        Share of the machine that others take.
    """
    before = read()
    pause(duration_s)
    return others_share(before, read())
