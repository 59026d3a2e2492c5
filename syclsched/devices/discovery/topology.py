# SPDX-License-Identifier: Apache-2.0
"""Construction of a platform from selected devices: memory spaces, access, links and interferences.

Spaces follow observations of the runtime: root CPU devices of one SYCL platform and their sub-devices share a context
and all its memory; the FPGA emulator's sub-devices cannot access each other's memory though one context holds them; a
GPU's sub-devices share the memory of the GPU. The assumed values are replaced by measurements when a machine is
profiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from syclsched.devices.discovery.device_facts import DeviceFacts, HostFacts
from syclsched.devices.discovery.identity import device_key
from syclsched.model.platform import HOST, MOST_HOST_LANES, Device, Interference, Link, MemorySpace, Platform
from syclsched.oneapi.environment import variables_for

#: A copy's fixed cost until it is measured: of the order of a kernel's submission.
ASSUMED_COPY_LATENCY_S = 10e-6
#: One DDR4-2400 channel moves 8 bytes 2.4e9 times a second (JEDEC JESD79-4); a copy reads and writes.
ASSUMED_HOST_COPY_BYTES_PER_S = 8 * 2.4e9 / 2
#: PCI Express 3.0, 16 lanes of 8 GT/s, 128b/130b encoding, one direction (PCI-SIG base specification 3.0).
ASSUMED_PCIE_BYTES_PER_S = 16 * 8e9 * (128 / 130) / 8

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_BASIC_DTYPES = ("bool", "complex64", "float32", *_INTEGERS)


@dataclass(frozen=True, slots=True)
class SelectedDevice:
    """A device or sub-device selected for the platform."""

    name: str  # its name on the platform
    root_name: str  # name of its root device; equal to ``name`` unless it is a sub-device
    facts: DeviceFacts  # its properties as the runtime reports them
    distrust: str | None = None  # why it is not trusted; None if it is
    refusals: tuple[tuple[str, str], ...] = ()  # libraries that refuse it, and why


def device_dtypes(aspects: Iterable[str]) -> tuple[str, ...]:
    """Return the NumPy dtypes a device computes with, sorted, from its SYCL aspects."""
    has = frozenset(aspects)
    dtypes = set(_BASIC_DTYPES)
    if "fp16" in has:
        dtypes.add("float16")
    if "fp64" in has:
        dtypes |= {"float64", "complex128"}
    return tuple(sorted(dtypes))


def build_platform(candidates: Sequence[SelectedDevice], host: HostFacts, name: str) -> Platform:
    """Describe devices and the host as a platform."""
    space_of = _assign_spaces(candidates)
    spaces = _memory_spaces(candidates, space_of, host)
    reached = (HOST, *(s.name for s in spaces if s.host_accessible and s.name != HOST))
    keys = _keys(candidates, host)
    devices = tuple(
        _device(candidate, space_of[candidate.name], key, copies=_copies(candidate, spaces))
        for candidate, key in zip(candidates, keys, strict=True)
    )
    return Platform(
        name=name,
        devices=(*devices, _host_device(host, reached)),
        spaces=spaces,
        links=_links(spaces, _contexts(candidates, space_of)),
        interferences=_interferences(candidates),
        generation=host.generation,
    )


def _assign_spaces(candidates: Sequence[SelectedDevice]) -> dict[str, str]:
    """Return the memory space of every device, by name; a space is named after its first root device."""
    owners: dict[tuple[str, ...], str] = {}
    spaces: dict[str, str] = {}
    for candidate in candidates:
        facts = candidate.facts
        owner = candidate.name if facts.kind == "accelerator" else candidate.root_name
        group = (facts.backend, facts.platform) if facts.kind == "cpu" else (owner,)
        spaces[candidate.name] = owners.setdefault(group, owner)
    return spaces


def _memory_spaces(
    candidates: Sequence[SelectedDevice], space_of: dict[str, str], host: HostFacts
) -> tuple[MemorySpace, ...]:
    members: dict[str, list[DeviceFacts]] = {}
    for candidate in candidates:
        members.setdefault(space_of[candidate.name], []).append(candidate.facts)
    spaces = [
        MemorySpace(
            name=name,
            capacity_bytes=max(f.global_memory_bytes for f in facts),
            host_accessible=all(f.host_accessible for f in facts),
        )
        for name, facts in members.items()
    ]
    return (*spaces, MemorySpace(name=HOST, capacity_bytes=host.memory_bytes, host_accessible=True))


def _copies(candidate: SelectedDevice, spaces: Sequence[MemorySpace]) -> bool:
    """Return whether copies to or from a device's memory are expected, so that it needs a copy queue."""
    return not candidate.facts.host_accessible or len(spaces) > 2


def _keys(candidates: Sequence[SelectedDevice], host: HostFacts) -> tuple[str, ...]:
    """Return the devices' keys; identical devices differ by their order."""
    keys: list[str] = []
    seen: Counter[tuple[object, ...]] = Counter()
    for candidate in candidates:
        facts = candidate.facts
        same = (facts.backend, facts.kind, facts.name, facts.driver_version, facts.partition)
        keys.append(
            device_key(
                facts.backend,
                facts.kind,
                facts.name,
                driver_version=facts.driver_version,
                processor=host.processor,
                boot_environment=variables_for(facts.platform, dict(host.boot_environment)),
                generation=host.generation,
                partition=facts.partition,
                ordinal=seen[same],
            )
        )
        seen[same] += 1
    return tuple(keys)


def _device(candidate: SelectedDevice, space: str, key: str, *, copies: bool) -> Device:
    facts = candidate.facts
    return Device(
        name=candidate.name,
        key=key,
        kind=facts.kind,
        backend=facts.backend,
        description=facts.name,
        space=space,
        reaches=(space,),
        vendor=facts.vendor,
        driver_version=facts.driver_version,
        aspects=facts.aspects,
        dtypes=device_dtypes(facts.aspects),
        compute_units=facts.compute_units,
        max_work_group_size=facts.max_work_group_size,
        local_memory_bytes=facts.local_memory_bytes,
        global_memory_bytes=facts.global_memory_bytes,
        sub_group_sizes=facts.sub_group_sizes,
        filter_string=facts.filter_string,
        partition=facts.partition,
        distrust=candidate.distrust,
        refusals=candidate.refusals,
        copy_lane=copies,
        processor=HOST if facts.on_host_processor else None,
    )


def _host_device(host: HostFacts, reached: tuple[str, ...]) -> Device:
    return Device(
        name=HOST,
        key=device_key(
            "host",
            "host",
            host.processor,
            driver_version="",
            processor=host.processor,
            boot_environment={},
            generation=host.generation,
        ),
        kind="host",
        backend="host",
        description=host.processor,
        space=HOST,
        reaches=reached,
        dtypes=device_dtypes(("fp16", "fp64")),
        compute_units=host.cores,
        global_memory_bytes=host.memory_bytes,
        copy_lane=False,
        processor=HOST,
        most_lanes=min(host.cores, MOST_HOST_LANES),
    )


def _contexts(candidates: Sequence[SelectedDevice], space_of: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return the SYCL platform of each space: GPUs of one platform copy to each other directly."""
    return {space_of[c.name]: (c.facts.backend, c.facts.platform) for c in candidates}


def _links(spaces: Sequence[MemorySpace], contexts: dict[str, tuple[str, str]]) -> tuple[Link, ...]:
    links: list[Link] = []
    for source, destination in permutations(spaces, 2):
        in_memory = source.host_accessible and destination.host_accessible
        peers = contexts.get(source.name) == contexts.get(destination.name)
        if in_memory or peers or HOST in (source.name, destination.name):
            bandwidth = ASSUMED_HOST_COPY_BYTES_PER_S if in_memory else ASSUMED_PCIE_BYTES_PER_S
            links.append(Link(source.name, destination.name, ASSUMED_COPY_LATENCY_S, bandwidth, "assumed"))
    return tuple(links)


def _interferences(candidates: Sequence[SelectedDevice]) -> tuple[Interference, ...]:
    """Return the pairs of devices that run on the same cores and so slow each other down.

    Parts of one partition of the host's processor are stated with 0, so that a measurement on a busy machine, where
    they seem to take turns, does not replace this. The host is included: its functions (BLAS calls, most often) run on
    the cores that a CPU device computes on.
    """
    pairs = [(a.name, b.name, 1.0) for a, b in combinations(candidates, 2) if _same_cores(a, b)]
    pairs += [
        (a.name, b.name, 0.0)
        for a, b in combinations(candidates, 2)
        if a.facts.on_host_processor and _in_one_partition(a, b)
    ]
    pairs += [(c.name, HOST, 1.0) for c in candidates if c.facts.on_host_processor]
    return tuple(Interference(first, second, factor, "assumed") for first, second, factor in pairs)


def _same_cores(first: SelectedDevice, second: SelectedDevice) -> bool:
    if _in_one_partition(first, second):
        return False
    if first.facts.on_host_processor and second.facts.on_host_processor:
        return True
    return first.root_name == second.root_name


def _in_one_partition(first: SelectedDevice, second: SelectedDevice) -> bool:
    """Return whether two devices are different parts of one partition: these have no core in common."""
    one, two = first.facts.partition, second.facts.partition
    if one is None or two is None or first.root_name != second.root_name:
        return False
    return (one.method, one.argument) == (two.method, two.argument) and one.index != two.index
