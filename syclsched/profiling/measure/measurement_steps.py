# SPDX-License-Identifier: Apache-2.0
"""Measurement steps of one device, in order, and the resulting profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from syclsched.errors import MeasurementError
from syclsched.model.operation import Operation, Signature
from syclsched.model.platform import Device
from syclsched.model.profile import (
    DeviceIdentity,
    DeviceProfile,
    LaunchCosts,
    LinkFit,
    Overlap,
    Power,
    Provenance,
    Quantity,
    UsmCosts,
)
from syclsched.model.usm import UsmKind
from syclsched.profiling.measure import bandwidth, launch, overlap, throughput, transfers
from syclsched.profiling.measure.bench import Bench
from syclsched.profiling.measure.microkernels import empty_operation, fma_operation, triad_operation
from syclsched.profiling.measure.power import find_counters, measure_power
from syclsched.profiling.measure.session_budget import SessionBudget


@dataclass(slots=True)
class ProfileDraft:
    """A partially measured profile."""

    launch: LaunchCosts | None = None
    first_launch: Quantity | None = None
    peak_flops: dict[str, Quantity] = field(default_factory=dict)
    triad: Quantity | None = None
    curve: tuple[tuple[int, float], ...] = ()
    transfers: dict[transfers.Direction, LinkFit] = field(default_factory=dict)
    usm: dict[UsmKind, UsmCosts] = field(default_factory=dict)
    kernel_kernel: Quantity | None = None
    copy_kernel: Quantity | None = None
    lanes: int = 1
    power: Power = field(default_factory=Power)
    notes: list[str] = field(default_factory=list)


MeasurementStep = tuple[str, Callable[[Bench, ProfileDraft], None]]


def device_steps(device: Device, budget: SessionBudget) -> Iterator[MeasurementStep]:
    """Yield the measurement steps of a device, those that every profile needs first."""
    dtypes = throughput.measurable_dtypes(device)
    yield "kernels", lambda b, d: b.compile_ahead(_kernels(device, dtypes))
    yield "launches", lambda b, d: setattr(d, "launch", launch.measure_launch(b, budget))
    yield f"throughput {dtypes[0]}", partial(_throughput, dtypes[0], budget)
    yield "triad", lambda b, d: setattr(d, "triad", _triad(b, budget))
    for dtype in dtypes[1:]:
        yield f"throughput {dtype}", partial(_throughput, dtype, budget)
    for direction in transfers.DIRECTIONS:
        yield f"copies {direction}", partial(_transfer, direction, budget)
    yield "overlap of kernels", partial(_overlap, budget)
    yield "overlap with copies", lambda b, d: setattr(d, "copy_kernel", overlap.measure_copy_kernel(b, budget))
    yield "bandwidth curve", lambda b, d: setattr(d, "curve", bandwidth.measure_curve(b, budget))
    for kind in bandwidth.usm_kinds(device):
        yield f"USM {kind}", partial(_usm, kind, budget)
    yield "first launch", lambda b, d: setattr(d, "first_launch", launch.measure_first_launch(b, budget))
    if find_counters(device.kind):
        yield "power", lambda b, d: setattr(d, "power", _power(b, budget))


def _kernels(device: Device, dtypes: Iterable[str]) -> Iterator[tuple[Operation, Signature]]:
    """Yield the operations that the steps measure, with signatures: one program of all takes a fraction of the time."""
    triad_dtype = bandwidth.triad_dtype(device)
    operations = {
        empty_operation(): "float32",
        triad_operation(triad_dtype): triad_dtype,
        **{fma_operation(dtype): dtype for dtype in dtypes},
    }
    for operation, dtype in operations.items():
        names = [each.name for each in operation.arrays]
        yield operation, Signature(dict.fromkeys(names, (1,)), dict.fromkeys(names, dtype))


def _throughput(dtype: str, budget: SessionBudget, bench: Bench, draft: ProfileDraft) -> None:
    draft.peak_flops[dtype] = throughput.measure_throughput(bench, dtype, budget)


def _transfer(direction: transfers.Direction, budget: SessionBudget, bench: Bench, draft: ProfileDraft) -> None:
    draft.transfers[direction] = transfers.measure_transfer(bench, direction, budget)


def _usm(kind: UsmKind, budget: SessionBudget, bench: Bench, draft: ProfileDraft) -> None:
    draft.usm[kind] = bandwidth.measure_usm(bench, kind, budget)


def _triad(bench: Bench, budget: SessionBudget) -> Quantity:
    # SYCL reports only a CPU's second-level cache, so use Linux too; not for GPUs, which have their own caches.
    caches = [int(bench.queue.sycl_device.global_mem_cache_size)]
    if bench.device.kind != "gpu":
        caches.append(bandwidth.last_level_cache_bytes())
    size = bandwidth.triad_bytes(bench.device, max(caches))
    return bandwidth.measure_triad(bench, budget, working_set_bytes=size)


def _overlap(budget: SessionBudget, bench: Bench, draft: ProfileDraft) -> None:
    draft.kernel_kernel = overlap.measure_kernel_kernel(bench, budget)
    draft.lanes = overlap.measure_lanes(bench, budget, draft.kernel_kernel)


def _power(bench: Bench, budget: SessionBudget) -> Power:
    chain, iterations = overlap.large_kernel(bench)

    def run_busy() -> None:
        end = bench.sampler.clock() + budget.power_s
        while bench.sampler.clock() < end:
            chain.seconds(iterations)

    return measure_power(bench.device.kind, run_busy, budget.power_s)


def _identity_of(device: Device, lanes: int, *, host_accessible: bool) -> DeviceIdentity:
    if device.kind == "host" or device.backend == "host":
        raise MeasurementError("the host has no profile", where=f"device {device.name!r}")
    return DeviceIdentity(
        key=device.key,
        name=device.description,
        kind=device.kind,
        backend=device.backend,
        vendor=device.vendor,
        driver_version=device.driver_version,
        compute_units=device.compute_units,
        max_work_group_size=device.max_work_group_size,
        global_memory_bytes=max(device.global_memory_bytes, 1),
        local_memory_bytes=device.local_memory_bytes,
        aspects=device.aspects,
        dtypes=device.dtypes,
        host_accessible=host_accessible,
        lanes=lanes,
    )


def finish(
    device: Device, draft: ProfileDraft, provenance: Provenance, *, host_accessible: bool
) -> DeviceProfile | None:
    """Return the measured profile, or None if launch costs, throughput or bandwidth are missing."""
    if draft.launch is None or draft.triad is None or not draft.peak_flops:
        return None
    return DeviceProfile(
        identity=_identity_of(device, draft.lanes, host_accessible=host_accessible),
        provenance=provenance,
        launch=replace(draft.launch, jit_first_launch_s=draft.first_launch),
        peak_flops=dict(draft.peak_flops),
        triad_bandwidth_bytes_per_s=draft.triad,
        bandwidth_curve=draft.curve,
        transfers=dict(draft.transfers),
        usm=dict(draft.usm),
        overlap=Overlap(draft.kernel_kernel, draft.copy_kernel),
        power=draft.power,
    )
