# SPDX-License-Identifier: Apache-2.0
"""Facts of devices as short texts, for tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from syclsched.model.platform import HOST, Device, Partition, Platform

_GIB = 1 << 30
_NO_MARKS = re.compile(r"\((?:R|TM|C)\)", re.IGNORECASE)
_FLOATS = ("float16", "float32", "float64", "complex64", "complex128")


def devices_sharing_memory(platform: Platform, device: Device) -> tuple[str, ...]:
    """Return the devices that can access a device's memory; for the host also those whose memory it can access."""
    names = []
    for other in platform.devices:
        if other.name == device.name:
            continue
        if device.space in other.reaches or (device.name == HOST and other.space in device.reaches):
            names.append(other.name)
    return tuple(names)


def sharing_text(platform: Platform, device: Device) -> str:
    """Return the devices that share a device's memory, one a line."""
    names = devices_sharing_memory(platform, device)
    if device.is_host and len(names) == len(platform.compute_devices):
        return "all"
    return "\n".join(names) or "-"


def format_gib(nbytes: int) -> str:
    """Format a number of bytes in GiB with three significant digits."""
    return f"{nbytes / _GIB:.3g} GiB"


def float_names(dtypes: Iterable[str]) -> tuple[str, str]:
    """Return the real and the complex dtypes by short names: ``f32 f64`` and ``c64``."""
    has = frozenset(dtypes)
    numbers = [name for name in _FLOATS if name in has]
    reals = " ".join(f"f{name[5:]}" for name in numbers if name.startswith("float"))
    return reals, " ".join(f"c{name[7:]}" for name in numbers if name.startswith("complex"))


def product_name(device: Device) -> str:
    """Return the product name without trade marks."""
    return _NO_MARKS.sub("", device.description)


def partition_text(partition: Partition | None) -> str:
    """Return which part of its parent a sub-device is."""
    if partition is None:
        return ""
    if partition.method == "count":
        return f"part {partition.index} of {partition.argument}"
    kind = f"{partition.argument} units each" if partition.method == "equally" else partition.argument
    return f"part {partition.index}, {kind}"
