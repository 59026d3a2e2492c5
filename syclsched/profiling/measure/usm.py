# SPDX-License-Identifier: Apache-2.0
"""USM kinds: allocation cost, and kernel bandwidth on each kind."""

from __future__ import annotations

from syclsched.devices.memory.usm_memory import allocate
from syclsched.model.platform import Device
from syclsched.model.profile import UsmCosts
from syclsched.model.usm import USM_KINDS, UsmKind
from syclsched.profiling.measure.bandwidth import USM_TRIAD_BYTES, measure_reading, measure_triad
from syclsched.profiling.measure.bench import Bench
from syclsched.profiling.measure.session_budget import MIB, SessionBudget

#: Size of the allocation that is timed.
ALLOCATION_BYTES = MIB


def usm_kinds(device: Device) -> tuple[UsmKind, ...]:
    """Return the USM kinds that a device supports, by its aspects."""
    return tuple(k for k in USM_KINDS if f"usm_{k}_allocations" in device.aspects)


def measure_usm(bench: Bench, kind: UsmKind, budget: SessionBudget) -> UsmCosts:
    """Measure allocation time, triad bandwidth and read bandwidth of one USM kind."""

    def allocate_and_free() -> None:
        allocate(bench.queue, ALLOCATION_BYTES, kind)

    allocate_and_free()
    allocation = bench.sampler.sample_until(bench.sampler.timed(allocate_and_free), budget.point_s)
    bandwidth = measure_triad(bench, budget, working_set_bytes=USM_TRIAD_BYTES, kind=kind)
    if kind == "device":
        return UsmCosts(allocation, bandwidth)
    bench.release()
    reading = measure_reading(bench, budget, working_set_bytes=USM_TRIAD_BYTES, kind=kind)
    return UsmCosts(allocation, bandwidth, reading)
