# SPDX-License-Identifier: Apache-2.0
"""Application of device profiles to a platform: lanes, links, interferences, submission cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import permutations

from syclsched.model.platform import HOST, Device, Interference, Link, Platform
from syclsched.model.profile import DeviceProfile, LinkFit, PairProfile, Quantity
from syclsched.profiling.storage.profile_store import ProfileStore


def attach(platform: Platform, store: ProfileStore | None = None) -> Platform:
    """Return the platform with the stored profiles of its devices."""
    store = store if store is not None else ProfileStore()
    devices = platform.compute_devices
    profiles = {d.key: p for d in devices if (p := store.load(d.key)) is not None}
    pairs = (store.load_pair(a.key, b.key) for a, b in permutations(devices, 2) if a.key != b.key)
    return with_profiles(platform, profiles, filter(None, pairs))


def with_profiles(platform: Platform, profiles: Mapping[str, DeviceProfile], pairs: Iterable[PairProfile]) -> Platform:
    """Return the platform with these profiles; `attach` without a store."""
    devices = tuple(_with_profile(d, profiles.get(d.key)) for d in platform.devices)
    by_keys = {(p.first, p.second): p for p in pairs}
    known = [d.profile for d in devices if d.profile is not None]
    return replace(
        platform,
        devices=devices,
        links=tuple(_measured_link(link, devices, by_keys) for link in platform.links),
        interferences=_interferences(platform, devices, by_keys),
        submission_s=_least_host_cost((p.launch.submission_s for p in known), platform.submission_s) or 0.0,
        dispatch_s=_least_host_cost((p.launch.dispatch_s for p in known), platform.dispatch_s),
        handoff_s=_least_host_cost((p.launch.handoff_s for p in known), platform.handoff_s),
    )


def _least_host_cost(quantities: Iterable[Quantity | None], otherwise: float | None) -> float | None:
    """Return the least of the profiles' host costs.

    All devices share one host: with any other choice a further device could make a plan slower.
    """
    return min((q.value for q in quantities if q is not None), default=otherwise)


def _with_profile(device: Device, profile: DeviceProfile | None) -> Device:
    if profile is None or device.is_host:
        return device
    # Other processes hide whether kernels on two queues run at the same time.
    lanes = device.lanes if profile.provenance.busy else profile.identity.lanes
    return replace(device, profile=profile, lanes=lanes)


def _measured_link(link: Link, devices: tuple[Device, ...], pairs: Mapping[tuple[str, str], PairProfile]) -> Link:
    sources = [d for d in devices if d.space == link.source and not d.is_host]
    destinations = [d for d in devices if d.space == link.destination and not d.is_host]
    if link.source == HOST:
        return _first_transfer(link, destinations, "h2d")
    if link.destination == HOST:
        return _first_transfer(link, sources, "d2h")
    for source in sources:
        for destination in destinations:
            pair = pairs.get((source.key, destination.key))
            if pair is not None and pair.link is not None:
                return _fitted(link, pair.link, measured=pair.link.source is None)
    return link


def _first_transfer(link: Link, devices: list[Device], direction: str) -> Link:
    for device in devices:
        if device.profile is not None:
            transfers: Mapping[str, LinkFit] = {str(k): v for k, v in device.profile.transfers.items()}
            if direction in transfers:
                return _fitted(link, transfers[direction], measured=device.profile.origin == "measured")
    return link


def _fitted(link: Link, fit: LinkFit, *, measured: bool) -> Link:
    return replace(
        link,
        latency_s=fit.latency_s,
        bandwidth_bytes_per_s=fit.bandwidth_bytes_per_s,
        origin="measured" if measured else "spec-sheet",
    )


def _interferences(
    platform: Platform, devices: tuple[Device, ...], pairs: Mapping[tuple[str, str], PairProfile]
) -> tuple[Interference, ...]:
    found = {frozenset((i.first, i.second)): i for i in platform.interferences}
    compute = [d for d in devices if not d.is_host]
    for index, first in enumerate(compute):
        own = first.profile.overlap.kernel_kernel if first.profile is not None else None
        if own is not None and first.lanes > 1:
            found[frozenset((first.name,))] = Interference(first.name, first.name, own.value, "measured")
        for second in compute[index + 1 :]:
            pair = pairs.get((first.key, second.key)) or pairs.get((second.key, first.key))
            names = frozenset((first.name, second.name))
            # On a busy machine devices that share cores may seem independent: then the assumption is the better guess.
            if pair is not None and pair.interference is not None and not (pair.provenance.busy and names in found):
                factor = pair.interference.value
                if names in found and first.lanes == second.lanes == 1:
                    # Kernels of both use all shared cores, so a measured gain is noise.
                    factor = max(factor, found[names].factor)
                found[names] = Interference(first.name, second.name, factor, "measured")
    return tuple(found.values())
