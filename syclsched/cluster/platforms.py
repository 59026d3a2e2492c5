# SPDX-License-Identifier: Apache-2.0
"""Platforms of several machines: the devices of all of them, and the network between their hosts.

The platform is an ordinary one, so that graphs are planned, simulated and verified for it as for one machine. Devices
and memory spaces carry the machine's name: ``node0/cpu``, ``node0/host``. The memory of the process that connects is
the space ``host``, where inputs begin; it has no device. A copy between two machines occupies the sending port of one
and the receiving port of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final

from syclsched.errors import PlatformError
from syclsched.model.platform import HOST, Device, Interference, Link, MemorySpace, Platform

#: Between the name of a machine and that of its device or memory space.
_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """Cost of sending data from one machine to another, or from or to the process that connects.

    Parameters
    ----------
    source, destination : str
        Names of machines, or ``host`` for the process that connects.
    latency_s : float
        Seconds of a message without data.
    bandwidth_bytes_per_s : float
        Bandwidth in bytes per second.
    measured : bool, optional
        Whether the numbers are measured.
    """

    source: str
    destination: str
    latency_s: float
    bandwidth_bytes_per_s: float
    measured: bool = True


def qualified(machine: str, name: str) -> str:
    """Return the name of a machine's device or space on the platform of all machines."""
    return f"{machine}{_SEPARATOR}{name}"


def machine_of(name: str) -> str:
    """Return the machine of a device or space; the empty string for those of the process that connects."""
    machine, separator, _ = name.partition(_SEPARATOR)
    return machine if separator else ""


def local_name(name: str) -> str:
    """Return the name of a device or space on its own machine."""
    return name.partition(_SEPARATOR)[2] or name


def kind_of(machine: Platform) -> tuple[object, ...]:
    """Return a key that is equal for machines whose tasks take equally long."""
    return tuple((local_name(device.name), device.timing_key, device.lanes) for device in machine.devices)


def joined(machines: Mapping[str, Platform], paths: Sequence[NetworkPath], name: str = "cluster") -> Platform:
    """Return one platform of several machines.

    Parameters
    ----------
    machines : dict of str to Platform
        The platform of each machine, by the machine's name.
    paths : sequence of NetworkPath
        Cost of the network between each two machines, in both directions, and from and to ``host``.
    name : str, optional
        Name of the platform.

    Returns
    -------
    Platform
        Copies that begin or end at one port of a machine wait for each other.
    """
    for machine in machines:
        if not machine or _SEPARATOR in machine or machine == HOST:
            raise PlatformError(f"{machine!r} cannot be the name of a machine", where=f"platform {name!r}")
    network = {(path.source, path.destination): path for path in paths}
    for pair in permutations([HOST, *machines], 2):
        if pair not in network:
            raise PlatformError(f"no network path from {pair[0]!r} to {pair[1]!r}", where=f"platform {name!r}")
    parts = [(machine, platform) for machine, platform in machines.items()]
    return Platform(
        name=name,
        devices=tuple(_device(machine, device) for machine, platform in parts for device in platform.devices),
        spaces=(
            *(replace(s, name=qualified(machine, s.name)) for machine, platform in parts for s in platform.spaces),
            MemorySpace(HOST, 0, host_accessible=True),
        ),
        links=tuple(
            [link for machine, platform in parts for link in _own_links(machine, platform)]
            + [link for pair in permutations([HOST, *machines], 2) for link in _between(machines, network[pair])]
        ),
        interferences=tuple(
            Interference(qualified(machine, i.first), qualified(machine, i.second), i.factor, i.origin)
            for machine, platform in parts
            for i in platform.interferences
        ),
        submission_s=max(platform.submission_s for platform in machines.values()),
        dispatch_s=max((p.dispatch_s for p in machines.values() if p.dispatch_s is not None), default=None),
        handoff_s=max((p.handoff_s for p in machines.values() if p.handoff_s is not None), default=None),
        contention="one-port",
        generation=next(iter(machines.values())).generation,
    )


def machine_names(platform: Platform) -> tuple[str, ...]:
    """Return the machines of a platform of several machines, in order."""
    return tuple(dict.fromkeys(machine_of(device.name) for device in platform.devices))


def machine_alone(platform: Platform, machine: str) -> Platform:
    """Return the platform of one machine of several, with its name in those of its devices, and with ``host``."""
    return platform.restricted_to([device for device in platform.devices if machine_of(device.name) == machine])


# --- inside ---------------------------------------------------------------------------------------


def _device(machine: str, device: Device) -> Device:
    return replace(
        device,
        name=qualified(machine, device.name),
        space=qualified(machine, device.space),
        reaches=tuple(qualified(machine, space) for space in device.reaches),
        processor=None if device.processor is None else qualified(machine, device.processor),
        # Copies between the machines' hosts have a lane of their own.
        copy_lane=device.is_host or device.copy_lane,
    )


def _own_links(machine: str, platform: Platform) -> Iterator[Link]:
    """Yield the links within a machine."""
    for link in platform.links:
        yield replace(
            link,
            source=qualified(machine, link.source),
            destination=qualified(machine, link.destination),
            channel=None if link.channel is None else qualified(machine, link.channel),
        )


def _between(machines: Mapping[str, Platform], path: NetworkPath) -> Iterator[Link]:
    """Yield links from each space of one machine to each of another: by both hosts' memories and the network."""
    for before in _ways(machines, path.source, to_host=True):
        for after in _ways(machines, path.destination, to_host=False):
            s_per_byte = before.s_per_byte + 1.0 / path.bandwidth_bytes_per_s + after.s_per_byte
            yield Link(
                before.space,
                after.space,
                before.latency_s + path.latency_s + after.latency_s,
                1.0 / s_per_byte,
                "measured" if path.measured else "assumed",
                channel=f"{path.source} sends",
                arrival_channel=f"{path.destination} receives",
            )


@dataclass(frozen=True, slots=True)
class _Way:
    """Cost of a copy between a space and the memory of its machine's host."""

    space: str
    latency_s: float
    s_per_byte: float


def _ways(machines: Mapping[str, Platform], machine: str, *, to_host: bool) -> Iterator[_Way]:
    if machine == HOST:
        yield _Way(HOST, 0.0, 0.0)
        return
    platform = machines[machine]
    for space in platform.spaces:
        ends = (space.name, HOST) if to_host else (HOST, space.name)
        route = platform.route(*ends)
        yield _Way(
            qualified(machine, space.name),
            sum(link.latency_s for link in route),
            sum(1.0 / link.bandwidth_bytes_per_s for link in route),
        )
