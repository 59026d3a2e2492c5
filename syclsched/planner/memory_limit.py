# SPDX-License-Identifier: Apache-2.0
"""User-defined memory limits, applied by reducing the capacities of a platform's memory spaces."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from syclsched.errors import ArgumentError, MemoryLimitError, did_you_mean
from syclsched.model.platform import HOST, MemorySpace, Platform
from syclsched.model.text.quantities import parse_quantity
from syclsched.model.text.units import format_bytes

#: One size for every SYCL device's memory, or sizes by memory space or by a device whose arrays are allocated there.
MemoryLimit: TypeAlias = "int | str | Mapping[str, int | str]"


def with_memory_limit(platform: Platform, limit: MemoryLimit) -> Platform:
    """Return the platform with reduced memory capacities; plans made for it keep the limit.

    Parameters
    ----------
    platform : Platform
        The platform.
    limit : int, str or Mapping[str, int or str]
        Bytes, or a size with its unit (``64MiB``): for every SYCL device's memory, or by the name of a memory space or
        of a device whose arrays are allocated there. Devices that share memory share the limit.

    Returns
    -------
    Platform
        A changed copy. Capacities below their limit are unchanged.

    Raises
    ------
    ArgumentError
        If a memory space does not exist, or a size is not above zero.

    Examples
    --------
    >>> import syclsched
    >>> platform = syclsched.with_memory_limit(syclsched.describe("max1550"), "1GiB")
    >>> platform.space("max1550").capacity_bytes
    1073741824
    """
    limits = limits_by_space(platform, limit)
    return replace(platform, spaces=tuple(_cap(s, limits[s.name]) if s.name in limits else s for s in platform.spaces))


def check_peak(peak_bytes: Mapping[str, int], platform: Platform, limit: MemoryLimit) -> None:
    """Raise `MemoryLimitError`, which names both sizes, if an existing plan's peak by space exceeds a memory limit."""
    for space, allowed in limits_by_space(platform, limit).items():
        needed = peak_bytes.get(space, 0)
        if needed > allowed:
            raise MemoryLimitError(
                f"the plan needs {needed} bytes ({format_bytes(needed)}) at its peak, "
                f"the limit is {allowed} ({format_bytes(allowed)})",
                where=f"memory space {space!r}",
                hint="Plan again with this limit",
            )


def limits_by_space(platform: Platform, limit: MemoryLimit) -> dict[str, int]:
    """Return the limits in bytes by memory space; the smallest of several for one space."""
    homes = {device.name: device.space for device in platform.devices}
    names = {space.name: space.name for space in platform.spaces}
    given = limit if isinstance(limit, Mapping) else {d.space: limit for d in platform.compute_devices}
    found: dict[str, int] = {}
    for name, size in given.items():
        space = names.get(name) or homes.get(name)
        if space is None:
            raise ArgumentError(
                f"there is no memory {name!r}",
                where="memory limit",
                hint=did_you_mean(name, [*names, *homes]) + f"There are {', '.join(_ordered(names))}",
            )
        nbytes = _bytes(size)
        found[space] = min(nbytes, found.get(space, nbytes))
    return found


def _ordered(names: Iterable[str]) -> list[str]:
    """Return names with the host's last."""
    return sorted(names, key=lambda name: name == HOST)


def _bytes(size: int | str) -> int:
    if isinstance(size, str):
        nbytes = int(parse_quantity(size, "bytes", where="memory limit"))
    else:
        try:
            nbytes = 0 if isinstance(size, bool) else operator.index(size)
        except TypeError:
            hint = "Sizes with a unit are text: '64MiB'"
            raise ArgumentError(f"{size!r} is not a whole number of bytes", where="memory limit", hint=hint) from None
    if nbytes < 1:
        raise ArgumentError(f"{size!r} is not a size above zero", where="memory limit", hint="As 64MiB")
    return nbytes


def _cap(space: MemorySpace, limit: int) -> MemorySpace:
    """Return a space with its capacity reduced to a limit; a capacity of 0 means unknown."""
    return space if 0 < space.capacity_bytes <= limit else replace(space, capacity_bytes=limit)
