# SPDX-License-Identifier: Apache-2.0
"""Memory: bandwidth of the STREAM triad beyond the caches and over working sets, and costs of each USM kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from syclsched.devices.memory.usm_memory import allocate
from syclsched.errors import MeasurementError
from syclsched.model.platform import Device
from syclsched.model.profile import Quantity, UsmCosts
from syclsched.model.usm import USM_KINDS, UsmKind
from syclsched.profiling.measure.bench import Bench, event_seconds
from syclsched.profiling.measure.microkernels import triad_operation
from syclsched.profiling.measure.session_budget import MIB, SessionBudget
from syclsched.profiling.statistics import rate

#: STREAM's rule: the arrays together are at least four times the last-level cache.
CACHE_MULTIPLE = 4
MIN_TRIAD_BYTES = 48 * MIB
MAX_TRIAD_BYTES = 1536 * MIB

#: For the comparison of USM kinds: working set, and the allocation that is timed.
_USM_TRIAD_BYTES = 48 * MIB
_ALLOCATION_BYTES = MIB

_SCALAR = 3.0
_PERIOD = 7000  # of both arrays that are read
_CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_SUFFIXES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_level_cache_bytes(folder: Path = _CPU_CACHES) -> int:
    """Return the size of the largest cache Linux reports for the first core; 0 if it reports none."""
    sizes = [0]
    for file in folder.glob("index*/size"):
        try:
            text = file.read_text().strip()
            sizes.append(int(text.rstrip("KMG")) * _SUFFIXES.get(text[-1:], 1))
        except (OSError, ValueError):
            continue
    return max(sizes)


def triad_bytes(device: Device, cache_bytes: int) -> int:
    """Return the working set of the triad: beyond the caches, within an eighth of the memory."""
    wanted = max(MIN_TRIAD_BYTES, CACHE_MULTIPLE * cache_bytes)
    limits = [MAX_TRIAD_BYTES]
    if device.global_memory_bytes:
        limits.append(max(device.global_memory_bytes // 8, 1 << 16))
    return min(wanted, *limits)


def triad_dtype(device: Device) -> str:
    """Return float64 where the device has it, else float32."""
    return "float64" if "float64" in device.dtypes else "float32"


def triad(
    bench: Bench, working_set_bytes: int, kind: UsmKind = "device", written: UsmKind | None = None
) -> tuple[Callable[[], float], int]:
    """Set up a triad and check its result once; return a sampler of seconds, and the bytes moved."""
    dtype = np.dtype(triad_dtype(bench.device))
    count = max(working_set_bytes // (3 * dtype.itemsize), 1)
    # Repeated, as remainders of every index take ten times as long, and there are many such arrays.
    b, c = (np.resize((np.arange(_PERIOD) % period).astype(dtype), count) for period in (1000, 7))
    a = bench.array(np.zeros(count, dtype), written or kind)
    arrays = {"a": a, "b": bench.array(b, kind), "c": bench.array(c, kind)}
    executable = bench.compile(triad_operation(dtype.name), arrays, {"s": _SCALAR})
    submission = executable.bind({**arrays, "s": _SCALAR})
    submission.submit(bench.queue, [])
    if not np.array_equal(bench.read(arrays["a"]), b + dtype.type(_SCALAR) * c):
        raise MeasurementError("the triad gives wrong results", where=f"device {bench.device.name!r}")

    def sample() -> float:
        event = submission.submit(bench.queue, [])
        event.wait()
        return event_seconds(event)

    sample()
    return sample, 3 * count * dtype.itemsize


def measure_triad(bench: Bench, budget: SessionBudget, *, working_set_bytes: int, kind: UsmKind = "device") -> Quantity:
    """Measure the triad's bandwidth over one working set."""
    sample, moved = triad(bench, working_set_bytes, kind)
    return rate(bench.sampler.sample_until(sample, budget.number_s), moved)


def _measure_reading(bench: Bench, budget: SessionBudget, *, working_set_bytes: int, kind: UsmKind) -> Quantity:
    """Measure the read bandwidth of a USM kind: a triad that writes to memory of kind ``device``."""
    sample, moved = triad(bench, working_set_bytes, kind, "device")
    return rate(bench.sampler.sample_until(sample, budget.number_s), moved * 2 // 3)


def measure_curve(bench: Bench, budget: SessionBudget) -> tuple[tuple[int, float], ...]:
    """Measure the triad's bandwidth over a range of working sets; return pairs of bytes and bytes per second."""
    points = []
    for size in sorted(budget.curve_bytes):
        if bench.device.global_memory_bytes and size > bench.device.global_memory_bytes // 8:
            break
        sample, moved = triad(bench, size)
        points.append((moved, rate(bench.sampler.sample_until(sample, budget.point_s), moved).value))
        bench.release()
    return tuple(points)


def usm_kinds(device: Device) -> tuple[UsmKind, ...]:
    """Return the USM kinds that a device supports, by its aspects."""
    return tuple(k for k in USM_KINDS if f"usm_{k}_allocations" in device.aspects)


def measure_usm(bench: Bench, kind: UsmKind, budget: SessionBudget) -> UsmCosts:
    """Measure allocation time, triad bandwidth and read bandwidth of one USM kind."""

    def allocate_and_free() -> None:
        allocate(bench.queue, _ALLOCATION_BYTES, kind)

    allocate_and_free()
    allocation = bench.sampler.sample_until(bench.sampler.timed(allocate_and_free), budget.point_s)
    bandwidth = measure_triad(bench, budget, working_set_bytes=_USM_TRIAD_BYTES, kind=kind)
    if kind == "device":
        return UsmCosts(allocation, bandwidth)
    bench.release()
    reading = _measure_reading(bench, budget, working_set_bytes=_USM_TRIAD_BYTES, kind=kind)
    return UsmCosts(allocation, bandwidth, reading)
