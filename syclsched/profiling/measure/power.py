# SPDX-License-Identifier: Apache-2.0
"""Power from the operating system's energy counters: powercap RAPL for CPUs, hwmon for Intel GPUs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from syclsched.model.profile import Power, Quantity

_SYS = Path("/sys")

#: Shortest useful interval: the counters are updated about every millisecond.
MIN_INTERVAL_S = 0.05

#: Kernel drivers whose hwmon device has an energy counter of a whole GPU.
_GPU_DRIVERS = ("i915", "xe")


@dataclass(frozen=True, slots=True)
class EnergyCounter:
    """One counter of microjoules."""

    path: Path  # file that holds the count
    range_uj: float  # value at which it wraps around; 0 if it does not
    label: str  # its name, for the profile's ``source``

    def read_uj(self) -> float:
        """Return the count."""
        return float(self.path.read_text())

    def joules(self, before_uj: float, after_uj: float) -> float:
        """Return the energy between two counts, over at most one wrap-around."""
        difference = after_uj - before_uj
        return (difference + self.range_uj if difference < 0 else difference) * 1e-6


def find_counters(kind: str, sys: Path = _SYS) -> tuple[EnergyCounter, ...]:
    """Return the readable energy counters of a device of a kind."""
    found = _rapl(sys) if kind == "cpu" else _hwmon(sys) if kind == "gpu" else []
    return tuple(c for c in found if _readable(c))


def _rapl(sys: Path) -> list[EnergyCounter]:
    counters = []
    for folder in sorted((sys / "class/powercap").glob("intel-rapl:*")):
        if folder.name.count(":") == 1 and _text(folder / "name").startswith("package"):
            limit = _text(folder / "max_energy_range_uj")
            counters.append(EnergyCounter(folder / "energy_uj", float(limit or 0), f"powercap {folder.name}"))
    return counters


def _hwmon(sys: Path) -> list[EnergyCounter]:
    folders = [f for f in sorted((sys / "class/hwmon").glob("hwmon*")) if _text(f / "name") in _GPU_DRIVERS]
    counters = [EnergyCounter(f / "energy1_input", 0.0, f"hwmon {_text(f / 'name')}") for f in folders]
    return counters if len(counters) == 1 else []


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _readable(counter: EnergyCounter) -> bool:
    try:
        counter.read_uj()
    except (OSError, ValueError):
        return False
    return True


def average_power(
    counters: tuple[EnergyCounter, ...], work: Callable[[], None], *, clock: Callable[[], float] = time.perf_counter
) -> Quantity | None:
    """Return the average power while ``work`` runs, in watts; None if it cannot be measured."""
    if not counters:
        return None
    try:
        before = [c.read_uj() for c in counters]
        start = clock()
        work()
        elapsed = clock() - start
        after = [c.read_uj() for c in counters]
    except (OSError, ValueError):
        return None
    if elapsed < MIN_INTERVAL_S:
        return None
    energy = sum(c.joules(b, a) for c, b, a in zip(counters, before, after, strict=True))
    return Quantity(energy / elapsed, samples=1, source=" + ".join(c.label for c in counters))


def measure_power(kind: str, run_busy: Callable[[], None], idle_s: float, *, sys: Path = _SYS) -> Power:
    """Measure a device's idle and busy power; empty where the operating system has no counters."""
    counters = find_counters(kind, sys)
    if not counters:
        return Power()
    idle = average_power(counters, lambda: time.sleep(idle_s))
    return Power(idle_w=idle, busy_w=average_power(counters, run_busy))
