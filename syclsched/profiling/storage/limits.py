# SPDX-License-Identifier: Apache-2.0
"""Plausibility limits of profile numbers, beyond the schema, against hostile or damaged files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from syclsched.errors import FormatError
from syclsched.model.profile import DeviceProfile, LinkFit, PairProfile, Quantity

#: (lowest, highest) plausible value per kind of number, generous by orders of magnitude.
LIMITS: dict[str, tuple[float, float]] = {
    "seconds": (0.0, 3600.0),
    "flops": (1e3, 1e18),
    "bytes_per_s": (1e3, 1e15),
    "slow_down": (0.0, 1e3),
    "watts": (0.0, 1e5),
    "bytes": (0.0, float(1 << 60)),
    "units": (1.0, float(1 << 24)),
    "work_group": (1.0, float(1 << 40)),
    "lanes": (1.0, 1024.0),
}

Check = tuple[str, str, float]


def check_device_profile(profile: DeviceProfile, *, where: str) -> DeviceProfile:
    """Return the profile if every number in it is physically plausible."""
    _check(_device_numbers(profile), where, "DeviceProfile")
    return profile


def check_pair_profile(pair: PairProfile, *, where: str) -> PairProfile:
    """Return the pair profile if every number in it is physically plausible; see `check_device_profile`."""
    _check(_pair_numbers(pair), where, "PairProfile")
    return pair


def _check(numbers: Iterator[Check], where: str, kind: str) -> None:
    for place, unit, value in numbers:
        low, high = LIMITS[unit]
        if not low <= value <= high:
            raise FormatError(
                f"at {place}: expected {low:g} to {high:g} ({unit.replace('_', ' ')}), it is {value:g}",
                where=where,
                hint=f"Expected a {kind} with plausible numbers",
            )


def _quantity(place: str, unit: str, quantity: Quantity | None) -> Iterator[Check]:
    if quantity is not None:
        yield f"{place}.value", unit, quantity.value
        # A spread may be 0 where the value may not.
        yield f"{place}.mad", unit, quantity.mad or LIMITS[unit][0]


def _link(place: str, link: LinkFit | None) -> Iterator[Check]:
    if link is not None:
        yield f"{place}.latency_s", "seconds", link.latency_s
        yield f"{place}.bandwidth_bytes_per_s", "bytes_per_s", link.bandwidth_bytes_per_s
        for index, (size, seconds) in enumerate(link.points):
            yield f"{place}.points.{index}.0", "bytes", size
            yield f"{place}.points.{index}.1", "seconds", seconds


def _device_numbers(profile: DeviceProfile) -> Iterator[Check]:
    identity = profile.identity
    yield "identity.compute_units", "units", identity.compute_units
    yield "identity.max_work_group_size", "work_group", identity.max_work_group_size
    yield "identity.global_memory_bytes", "bytes", identity.global_memory_bytes
    yield "identity.local_memory_bytes", "bytes", identity.local_memory_bytes
    yield "identity.lanes", "lanes", identity.lanes
    for launch_cost in fields(profile.launch):
        yield from _quantity(f"launch.{launch_cost.name}", "seconds", getattr(profile.launch, launch_cost.name))
    for dtype, flops in profile.peak_flops.items():
        yield from _quantity(f"peak_flops.{dtype}", "flops", flops)
    yield from _quantity("triad_bandwidth_bytes_per_s", "bytes_per_s", profile.triad_bandwidth_bytes_per_s)
    for index, (size, bandwidth) in enumerate(profile.bandwidth_curve):
        yield f"bandwidth_curve.{index}.0", "bytes", size
        yield f"bandwidth_curve.{index}.1", "bytes_per_s", bandwidth
    for direction, link in profile.transfers.items():
        yield from _link(f"transfers.{direction}", link)
    for kind, costs in profile.usm.items():
        yield from _quantity(f"usm.{kind}.allocation_s", "seconds", costs.allocation_s)
        yield from _quantity(f"usm.{kind}.bandwidth_bytes_per_s", "bytes_per_s", costs.bandwidth_bytes_per_s)
        reading = costs.read_bandwidth_bytes_per_s
        yield from _quantity(f"usm.{kind}.read_bandwidth_bytes_per_s", "bytes_per_s", reading)
    yield from _quantity("overlap.kernel_kernel", "slow_down", profile.overlap.kernel_kernel)
    yield from _quantity("overlap.copy_kernel", "slow_down", profile.overlap.copy_kernel)
    yield from _quantity("power.idle_w", "watts", profile.power.idle_w)
    yield from _quantity("power.busy_w", "watts", profile.power.busy_w)


def _pair_numbers(pair: PairProfile) -> Iterator[Check]:
    yield from _quantity("event_latency_s", "seconds", pair.event_latency_s)
    yield from _link("link", pair.link)
    yield from _quantity("interference", "slow_down", pair.interference)
