# SPDX-License-Identifier: Apache-2.0
"""Sub-devices: partitions of a device, parsed from text, checked and made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from syclsched.devices.discovery.device_facts import DeviceFacts, FoundDevice, read_facts
from syclsched.devices.native.sycl_types import SyclDevice
from syclsched.errors import SelectionError, did_you_mean
from syclsched.model.platform import Partition

#: Affinity domains: accepted name to dpctl's name.
_DOMAINS = {
    "numa": "numa",
    "l4": "L4_cache",
    "l3": "L3_cache",
    "l2": "L2_cache",
    "l1": "L1_cache",
    "next": "next_partitionable",
}
_HINT = "Write 2 (parts), units:4 (compute units each), or one of numa, l4, l3, l2, l1, next (affinity domains)"


@dataclass(frozen=True, slots=True)
class SubDevices:
    """A way to split devices."""

    #: ``count`` (a number of parts, as equal as possible), ``equally`` (a number of compute units each) or ``affinity``
    #: (by NUMA or cache domain).
    method: Literal["count", "equally", "affinity"]
    argument: str  # the number, or dpctl's name of the affinity domain

    def __post_init__(self) -> None:
        if self.method == "affinity":
            valid = self.argument in _DOMAINS.values()
        else:
            valid = re.fullmatch(r"[1-9]\d{0,5}", self.argument) is not None
        if not valid:
            raise SelectionError(f"sub-devices {self.method}:{self.argument} make no sense", hint=_HINT)

    def __str__(self) -> str:
        if self.method == "count":
            return f"{self.argument} parts"
        return f"{self.argument} compute units each" if self.method == "equally" else f"{self.argument} domains"


def parse_sub_devices(text: str | int) -> SubDevices:
    """Parse a way to split devices: ``2``, ``units:4``, ``numa``, ``l3`` and the like."""
    word = str(text).strip().lower().removesuffix("_cache")
    if word in _DOMAINS:
        return SubDevices("affinity", _DOMAINS[word])
    if word == "next_partitionable":
        return SubDevices("affinity", word)
    units = re.fullmatch(r"(?:units|equally):\s*(\d+)", word)
    if units is not None:
        return SubDevices("equally", str(int(units[1])))
    if re.fullmatch(r"[-+]?\d+", word):
        return SubDevices("count", str(int(word)))
    meant = did_you_mean(word.partition(":")[0], (*_DOMAINS, "units"))
    raise SelectionError("cannot be read", where=f"sub-devices {text!r}", hint=meant + _HINT)


def unit_counts(compute_units: int, parts: int) -> tuple[int, ...]:
    """Distribute compute units over parts, the larger parts first; sizes differ by at most one."""
    share, rest = divmod(compute_units, parts)
    return tuple(share + (index < rest) for index in range(parts))


def split(device: FoundDevice, how: SubDevices) -> tuple[FoundDevice, ...]:
    """Split a root device into sub-devices."""
    root = device.facts
    parts = sycl_sub_devices(device.sycl_device, root, how)
    cuts = [Partition(how.method, how.argument, index) for index in range(len(parts))]
    return tuple(
        FoundDevice(read_facts(part, root.filter_string, root.backend_index, cut), part)
        for part, cut in zip(parts, cuts, strict=True)
    )


def sycl_sub_devices(sycl_device: SyclDevice, facts: DeviceFacts, how: SubDevices) -> Sequence[SyclDevice]:
    """Return the ``dpctl.SyclDevice`` objects of a partition; every call makes new ones."""
    reason = partition_error(facts, how)
    if reason is not None:
        raise _error(facts, how, reason)
    from dpctl import SyclSubDeviceCreationError

    partition: int | list[int] | str = how.argument
    if how.method == "equally":
        partition = int(how.argument)
    elif how.method == "count":
        partition = list(unit_counts(facts.compute_units, int(how.argument)))
    try:
        parts = sycl_device.create_sub_devices(partition=partition)
    except (SyclSubDeviceCreationError, ValueError, TypeError) as error:
        raise _error(facts, how, f"its driver refuses ({error})") from error
    if how.method == "count" and len(parts) != int(how.argument):
        raise _error(facts, how, f"its driver made {len(parts)} parts")
    return parts


def partition_error(facts: DeviceFacts, how: SubDevices) -> str | None:
    """Return why a device with these properties cannot be split so; None if only its driver can tell."""
    if how.method == "affinity":
        return None
    number, units = int(how.argument), facts.compute_units
    if number > units:
        return f"it has {units} compute unit{'s' if units != 1 else ''}"
    return None


def _error(facts: DeviceFacts, how: SubDevices, reason: str) -> SelectionError:
    return SelectionError(
        f"cannot be split into {how}: {reason}",
        where=f"device {facts.filter_string} ({facts.name})",
        hint="Ask for fewer parts or another kind of partition, or select other devices",
    )
