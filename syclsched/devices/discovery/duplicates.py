# SPDX-License-Identifier: Apache-2.0
"""Duplicate detection: devices of the runtime that are one physical device seen through several drivers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from syclsched.devices.discovery.device_facts import PLATFORM_SEPARATOR, DeviceFacts
from syclsched.model.platform import backend_facts

#: OpenCL drivers report the memory without the share that they reserve.
_MEMORY_TOLERANCE = 0.15

_NOISE = re.compile(r"\((?:r|tm|c)\)|\[0x[0-9a-f]+\]|[^a-z0-9]+")


def group_physical(devices: Sequence[DeviceFacts]) -> tuple[tuple[DeviceFacts, ...], ...]:
    """Group the devices that are one physical device.

    Every device joins the first group of the same hardware that has no device of its own driver yet: two identical
    cards, each seen through two backends, make two groups of two. CPU devices of one SYCL platform are one device.
    """
    groups: list[list[DeviceFacts]] = []
    for device in devices:
        home = next((group for group in groups if all(_same_hardware(device, member) for member in group)), None)
        if home is None:
            groups.append([device])
        else:
            home.append(device)
    return tuple(tuple(sorted(group, key=_preference)) for group in groups)


def _preference(device: DeviceFacts) -> tuple[int, int]:
    return backend_facts(device.backend).rank, device.backend_index


def _same_hardware(first: DeviceFacts, second: DeviceFacts) -> bool:
    if first.kind != second.kind:
        return False
    if first.kind == "cpu":
        # A driver shows the host's processor once. A second time it is the same driver, of whatever version, installed
        # in two places; another platform is another compiler and thread pool.
        return _platform_name(first) == _platform_name(second)
    if _driver(first) == _driver(second):
        return False
    if first.kind == "accelerator" or first.backend == second.backend:
        return False  # two emulators or boards are two devices
    if first.pci_device is not None and second.pci_device is not None:
        return first.pci_device == second.pci_device and _similar_memory(first, second)
    return _normal(first.name) == _normal(second.name) and _similar_memory(first, second)


def _driver(device: DeviceFacts) -> tuple[str, str, str]:
    return device.backend, device.platform, device.driver_version


def _platform_name(device: DeviceFacts) -> tuple[str, str]:
    return device.backend, device.platform.partition(PLATFORM_SEPARATOR)[0]


def _normal(name: str) -> str:
    return _NOISE.sub("", name.lower())


def _similar_memory(first: DeviceFacts, second: DeviceFacts) -> bool:
    larger = max(first.global_memory_bytes, second.global_memory_bytes)
    return abs(first.global_memory_bytes - second.global_memory_bytes) <= _MEMORY_TOLERANCE * larger
