# SPDX-License-Identifier: Apache-2.0
"""Device and host properties as reported by the SYCL runtime and the system, as plain data."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast, get_args

from syclsched.devices.discovery.identity import processor_model
from syclsched.devices.native.sycl_types import SyclDevice, SyclPlatform
from syclsched.model.operation import DeviceLimits
from syclsched.model.platform import BACKEND_FACTS, Partition
from syclsched.model.profile import SyclBackend

SyclKind = Literal["cpu", "gpu", "accelerator"]

#: Between name and version of a SYCL platform.
PLATFORM_SEPARATOR = " | "

_ASPECT_PREFIX = "has_aspect_"
_PCI_DEVICES = Path("/sys/bus/pci/devices")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A root device or sub-device as the runtime describes it."""

    backend: SyclBackend
    kind: SyclKind
    name: str  # product name
    vendor: str
    driver_version: str
    filter_string: str  # dpctl's filter string of the device; for a sub-device, of its root device
    backend_index: int  # position among the root devices of its backend, as ONEAPI_DEVICE_SELECTOR counts
    platform: str  # name and version of the SYCL platform; only devices of one platform can share a context
    compute_units: int
    max_work_group_size: int
    global_memory_bytes: int
    local_memory_bytes: int
    aspects: tuple[str, ...]  # SYCL aspects, sorted
    pci_device: int | None = None  # PCI device identifier, if known
    integrated: bool = False  # whether it is a GPU that uses the host's memory
    partition: Partition | None = None  # None for a root device
    sub_group_sizes: tuple[int, ...] = ()  # ascending; empty if unknown

    @property
    def host_accessible(self) -> bool:
        """Whether the host can address the memory of the device's kernels without copies."""
        return self.on_host_processor or self.integrated

    @property
    def on_host_processor(self) -> bool:
        """Whether kernels run on the host's cores, as those of CPU devices and emulated accelerators do."""
        return self.kind == "cpu" or (self.kind == "accelerator" and "emulation" in self.name.lower())


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The host: processor model, cores this process may use, memory, and environment and generation of the stack."""

    processor: str
    cores: int
    memory_bytes: int
    boot_environment: tuple[tuple[str, str], ...] = ()
    generation: str = ""


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A root device of this machine: its properties and its ``dpctl.SyclDevice``."""

    facts: DeviceFacts
    sycl_device: SyclDevice


def find_devices() -> tuple[FoundDevice, ...]:
    """Return every root device of every backend, in the runtime's order."""
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    found: list[FoundDevice] = []
    counts: dict[str, int] = {}
    for device in dpctl.get_devices():
        backend, kind = device.backend.name, device.device_type.name
        index = counts.get(backend, 0)
        counts[backend] = index + 1
        if backend not in BACKEND_FACTS or kind not in get_args(SyclKind) or device.parent_device is not None:
            _log.info("left out: %s device %r of kind %s", backend, device.name, kind)
            continue
        found.append(FoundDevice(read_facts(device, device.filter_string, index), device))
    return tuple(found)


def read_facts(
    device: SyclDevice, filter_string: str, backend_index: int, partition: Partition | None = None
) -> DeviceFacts:
    """Read the properties of a ``dpctl.SyclDevice``."""
    kind = cast(SyclKind, device.device_type.name)
    pci_device = _pci_device(device) if kind == "gpu" else None
    return DeviceFacts(
        backend=cast(SyclBackend, device.backend.name),
        kind=kind,
        name=device.name.strip(),
        vendor=device.vendor.strip(),
        driver_version=device.driver_version.strip(),
        filter_string=filter_string,
        backend_index=backend_index,
        platform=platform_label(device.sycl_platform),
        compute_units=max(1, int(device.max_compute_units)),
        max_work_group_size=max(1, int(device.max_work_group_size)),
        global_memory_bytes=int(device.global_mem_size),
        local_memory_bytes=int(device.local_mem_size),
        aspects=_aspects(device),
        pci_device=pci_device,
        integrated=pci_device is not None and is_integrated(pci_device),
        partition=partition,
        sub_group_sizes=tuple(sorted(map(int, device.sub_group_sizes))),
    )


@lru_cache(maxsize=256)
def limits_of(device: SyclDevice) -> DeviceLimits:
    """Return the limits that launches on a device need, as its present driver gives them."""
    facts = read_facts(device, "", 0)
    return DeviceLimits(facts.max_work_group_size, facts.compute_units, facts.local_memory_bytes, facts.sub_group_sizes)


def platform_label(platform: SyclPlatform) -> str:
    """Return a platform's name and version, with its number among those that have the same: no context spans two."""
    import dpctl

    def said(each: SyclPlatform) -> str:
        return f"{each.name.strip()}{PLATFORM_SEPARATOR}{each.version.strip()}"

    same = [each for each in dpctl.get_platforms() if said(each) == said(platform)]
    number = same.index(platform) if platform in same else 0
    return said(platform) + (f"{PLATFORM_SEPARATOR}{number + 1}" if number else "")


def _aspects(device: SyclDevice) -> tuple[str, ...]:
    names = (name for name in dir(type(device)) if name.startswith(_ASPECT_PREFIX))
    return tuple(sorted(name.removeprefix(_ASPECT_PREFIX) for name in names if getattr(device, name)))


def _pci_device(device: SyclDevice) -> int | None:
    from dpctl.utils import intel_device_info

    try:
        identifier = intel_device_info(device).get("device_id")
    except RuntimeError:  # an OpenCL driver without the query, under the current generation
        return None
    return None if identifier is None else int(identifier) & 0xFFFF


def is_integrated(pci_device: int, folder: Path = _PCI_DEVICES) -> bool:
    """Return whether an Intel GPU is part of the processor's package and so uses the host's memory.

    Intel's integrated GPUs are on PCI bus 0 (0000:00:02.0); cards are behind a bridge.
    """
    buses = {
        entry.name.split(":")[1]
        for entry in (folder.iterdir() if folder.is_dir() else ())
        if entry.name.count(":") == 2 and _is_pci(entry, vendor=0x8086, device=pci_device)
    }
    return buses == {"00"}


def _is_pci(entry: Path, vendor: int, device: int) -> bool:
    try:
        values = [int((entry / name).read_text(encoding="ascii"), 16) for name in ("vendor", "device")]
    except (OSError, ValueError):
        return False  # not readable as a PCI device: not the one searched for
    return values == [vendor, device]


def read_host(boot_environment: dict[str, str], generation: str = "") -> HostFacts:
    """Return the properties of the host this process runs on."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return HostFacts(
        processor=processor_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=min(physical, cgroup_limit(physical)),
        boot_environment=tuple(sorted(boot_environment.items())),
        generation=generation,
    )


def cgroup_limit(default: int, path: Path = _CGROUP_LIMIT) -> int:
    """Return the memory limit of the process's control group in bytes; ``default`` if there is none."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return default  # no control group, or "max"
