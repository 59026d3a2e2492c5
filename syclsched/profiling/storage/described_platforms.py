# SPDX-License-Identifier: Apache-2.0
"""Platforms of hardware that is not present, assembled from profiles: shipped ones by name, others by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from itertools import combinations
from pathlib import Path

from syclsched.errors import EmptyPlatformError, StorageError, did_you_mean
from syclsched.model.platform import HOST, MOST_HOST_LANES, Device, Interference, Link, MemorySpace, Platform
from syclsched.model.profile import DeviceProfile, PairProfile
from syclsched.profiling.storage.attaching import with_profiles
from syclsched.profiling.storage.files import ProfileSet, parse_profile_set, read_file

#: Link of a device whose profile has no transfers: PCI Express 4.0, 16 lanes of 16 GT/s, 128b/130b, one direction.
ASSUMED_PCIE_BYTES_PER_S = 16 * 16e9 * (128 / 130) / 8
ASSUMED_COPY_LATENCY_S = 10e-6


def _shipped_folder() -> Path:
    try:
        # Fails in a checkout that is not installed.
        return Path(str(resources.files("syclsched.device_profiles")))
    except ModuleNotFoundError:
        return Path(__file__).resolve().parents[2] / "device_profiles"


def shipped_names() -> tuple[str, ...]:
    """Return the names of the shipped profiles, sorted."""
    return tuple(sorted(p.stem for p in _shipped_folder().glob("*.json")))


def load_profile_set(name_or_path: str | Path) -> ProfileSet:
    """Load a shipped profile by name, or profiles from a file."""
    name = str(name_or_path)
    if name in shipped_names():
        path = _shipped_folder() / f"{name}.json"
    else:
        path = Path(name_or_path)
        if not path.is_file():
            raise StorageError(
                "no such profile",
                where=name,
                hint=f"{did_you_mean(name, shipped_names())}Give a file, or one of "
                f"{', '.join(shipped_names()) or 'none'}",
            )
    return parse_profile_set(read_file(path), where=str(path))


def load_profile(name_or_path: str | Path) -> DeviceProfile:
    """Load one device profile; the first one of a file that has several. See `load_profile_set`."""
    return load_profile_set(name_or_path).devices[0]


def load_platform(names_or_paths: Iterable[str | Path], name: str | None = None) -> Platform:
    """Return a platform assembled from shipped profiles and files."""
    given = [str(n) for n in names_or_paths]
    sets = [load_profile_set(n) for n in given]
    # A device gets the name that the user gave; devices of a file with several are named by kind.
    stems = [Path(n).stem if len(s.devices) == 1 else None for s, n in zip(sets, given, strict=True) for _ in s.devices]
    platform = platform_from_profiles([d for s in sets for d in s.devices], name or " + ".join(given), stems)
    pairs: list[PairProfile] = [p for s in sets for p in s.pairs]
    profiles = {d.key: d.profile for d in platform.compute_devices if d.profile is not None}
    return with_profiles(platform, profiles, pairs) if pairs else platform


def platform_from_profiles(
    profiles: Iterable[DeviceProfile], name: str, device_names: Sequence[str | None] | None = None
) -> Platform:
    """Return a platform assembled from device profiles."""
    given = tuple(profiles)
    if not given:
        raise EmptyPlatformError("no profile was given", where=f"platform {name!r}")
    names = _names(given, device_names)
    devices = tuple(_device(device_name, profile) for device_name, profile in zip(names, given, strict=True))
    accessible = tuple(d.space for d, p in zip(devices, given, strict=True) if p.identity.host_accessible)
    host = Device(HOST, HOST, "host", "host", "the host", HOST, (HOST, *accessible), copy_lane=False)
    spaces = tuple(
        MemorySpace(d.space, p.identity.global_memory_bytes, p.identity.host_accessible)
        for d, p in zip(devices, given, strict=True)
    )
    ends = [pair for d in devices for pair in ((HOST, d.space), (d.space, HOST))]
    platform = Platform(
        name=name,
        devices=(*devices, _host_like_cpu(host, given)),
        spaces=(*spaces, MemorySpace(HOST, _host_memory(given), True)),
        links=tuple(Link(*pair, ASSUMED_COPY_LATENCY_S, ASSUMED_PCIE_BYTES_PER_S, "assumed") for pair in ends),
        interferences=_shared_cores(devices),
    )
    return with_profiles(platform, {p.key: p for p in given}, ())


def _names(profiles: tuple[DeviceProfile, ...], wanted: Sequence[str | None] | None) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for profile, given in zip(profiles, wanted or [None] * len(profiles), strict=True):
        base = given if given and given != HOST else profile.identity.kind
        names.append(f"{base}.{seen[base]}" if given and seen[base] else f"{base}{seen[base]}" if seen[base] else base)
        seen[base] += 1
    return names


def _device(name: str, profile: DeviceProfile) -> Device:
    identity = profile.identity
    return Device(
        processor=_processor(profile) or None,
        name=name,
        key=identity.key,
        kind=identity.kind,
        backend=identity.backend,
        description=identity.name,
        space=name,
        reaches=(name,),
        lanes=identity.lanes,
        vendor=identity.vendor,
        driver_version=identity.driver_version,
        aspects=identity.aspects,
        dtypes=identity.dtypes,
        compute_units=identity.compute_units,
        max_work_group_size=identity.max_work_group_size,
        local_memory_bytes=identity.local_memory_bytes,
        global_memory_bytes=identity.global_memory_bytes,
        profile=profile,
    )


def _host_like_cpu(host: Device, profiles: tuple[DeviceProfile, ...]) -> Device:
    """Return the host with the properties of its processor, from the first CPU device."""
    for profile in profiles:
        if profile.identity.kind == "cpu":
            return replace(
                host,
                description=profile.identity.name,
                compute_units=profile.identity.compute_units,
                global_memory_bytes=profile.identity.global_memory_bytes,
                processor=_processor(profile) or None,
                most_lanes=min(profile.identity.compute_units, MOST_HOST_LANES),
            )
    return host


def _host_memory(profiles: tuple[DeviceProfile, ...]) -> int:
    """Return the memory of the CPU device; 0, unknown, if there is none."""
    return max((p.identity.global_memory_bytes for p in profiles if p.identity.host_accessible), default=0)


def _shared_cores(devices: tuple[Device, ...]) -> tuple[Interference, ...]:
    pairs = [
        Interference(first.name, second.name, 1.0, "assumed")
        for first, second in combinations(devices, 2)
        if first.processor is not None and first.processor == second.processor
    ]
    # Host functions run on the cores of the first CPU device.
    cpu = next((d for d in devices if d.kind == "cpu"), None)
    if cpu is not None:
        pairs += [
            Interference(d.name, HOST, 1.0, "assumed")
            for d in devices
            if d is cpu or (d.processor is not None and d.processor == cpu.processor)
        ]
    return tuple(pairs)


def _processor(profile: DeviceProfile) -> str:
    """Return the processor whose cores a device runs on; empty for one with cores of its own."""
    if not profile.identity.host_accessible or profile.identity.kind == "gpu":
        return ""
    return profile.provenance.host
