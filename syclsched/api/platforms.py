# SPDX-License-Identifier: Apache-2.0
"""Platforms to plan for and run on: found on this machine, or described by device profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from syclsched.errors import ArgumentError
from syclsched.model.platform import Device, Platform


def discover(
    select: str | None = None,
    *,
    where: Callable[[Device], bool] | None = None,
    sub_devices: int | str | None = None,
    lanes: Mapping[str, int] | int | None = None,
) -> Platform:
    """Find the SYCL devices of this machine, with the profiles stored for them.

    Parameters
    ----------
    select : str, optional
        Device selection: ``cpu,accelerator``, device names, or the syntax of ONEAPI_DEVICE_SELECTOR
        (``opencl:cpu;level_zero:gpu``). Without it and ``where``, an emulator is left out beside other devices: it
        computes on the cores of the CPU device, so it gains nothing.
    where : callable, optional
        Predicate on devices; those for which it returns true are kept.
    sub_devices : int or str, optional
        Replace devices by this many equal sub-devices, or by those of a domain: ``numa``, ``l3``, or ``units:4``.
    lanes : int or Mapping[str, int], optional
        In-order compute queues per device, for all or by device name. By default as many as the profile found to make
        progress at once; the host has one lane whose library calls use all cores, and the policy ``auto`` also plans
        with one lane of one thread for each core (up to 16 lanes).

    Returns
    -------
    Platform
        Plain data. Devices that failed their known-answer test are left out.

    Raises
    ------
    RuntimeMissingError
        If the SYCL runtime cannot be loaded.
    EmptyPlatformError
        If no usable device is left.

    Examples
    --------
    >>> import syclsched
    >>> platform = syclsched.discover("cpu")
    >>> [device.kind for device in platform.devices]
    ['cpu', 'host']
    """
    from syclsched import devices
    from syclsched.profiling import ProfileStore, attach

    if select is not None and not isinstance(select, str):
        raise ArgumentError(
            f"expected a selector, got a value of type {type(select).__name__}", where="select", hint="As 'cpu'"
        )
    how = None if sub_devices is None else devices.parse_sub_devices(sub_devices)
    found = devices.discover(selector=select, where=where, sub_devices=how)
    if select is None and where is None:
        found = devices.without_emulators(found)
    platform = attach(found, ProfileStore())
    return platform if lanes is None else with_lanes(platform, lanes)


def with_lanes(platform: Platform, lanes: Mapping[str, int] | int) -> Platform:
    """Return the platform with another number of compute lanes, for all SYCL devices or by device name."""
    by_name = dict.fromkeys((d.name for d in platform.compute_devices), lanes) if isinstance(lanes, int) else lanes
    for name in by_name:
        platform.device(name)
    return replace(
        platform,
        devices=tuple(
            replace(d, lanes=by_name[d.name], most_lanes=0) if d.name in by_name else d for d in platform.devices
        ),
    )


def describe(profiles: str | Iterable[str], name: str = "described") -> Platform:
    """Describe a platform by device profiles, for hardware that need not be present.

    Parameters
    ----------
    profiles : str or iterable of str
        Names of shipped profiles (``cpu``, ``max1550``, ``a770``, ...) or paths of profile files; in one string with
        commas between them.
    name : str, optional
        The platform's name.

    Returns
    -------
    Platform
        For planning and simulation; its devices have the names given.

    Raises
    ------
    FormatError, StorageError
        If a file is not a profile or cannot be read.

    Examples
    --------
    >>> import syclsched
    >>> syclsched.describe(["xeon-8480", "max1550"], name="node")
    <Platform 'node': xeon-8480, max1550, host; 3 memory spaces>
    """
    from syclsched.profiling import load_platform

    if not isinstance(profiles, Iterable):
        raise ArgumentError(
            f"expected names of profiles, got a value of type {type(profiles).__name__}", where="profiles",
            hint="As 'cpu,max1550'",
        )  # fmt: skip
    return load_platform(profiles.split(",") if isinstance(profiles, str) else profiles, name)
