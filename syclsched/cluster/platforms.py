# SPDX-License-Identifier: Apache-2.0
"""Platforms of several machines: the devices of all of them, and the network between their hosts.

The platform is an ordinary one, so that graphs are planned, simulated and verified for it as for one machine. Devices
and memory spaces carry the machine's name: ``node0/cpu``, ``node0/host``. The memory of the process that connects is
the space ``host``, where inputs begin; it has no device. A copy between two machines occupies the sending port of one
and the receiving port of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple

from syclsched.errors import PlatformError
from syclsched.model.platform import HOST, Device, Interference, Link, MemorySpace, Platform
from syclsched.model.platform_parts.machines import SEPARATOR, local_name, machine_of, qualified


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
    cores : float, optional
        Cores that a message wants on each of the two machines while it moves.
    """

    source: str
    destination: str
    latency_s: float
    bandwidth_bytes_per_s: float
    measured: bool = True
    cores: float = 0.0


def kind_of(devices: Iterable[Device]) -> tuple[object, ...]:
    """Return a key of a machine's devices that is equal for machines whose tasks take equally long."""
    return tuple((local_name(device.name), device.timing_key, device.lanes) for device in devices)


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
        if not machine or SEPARATOR in machine or machine == HOST:
            raise PlatformError(f"{machine!r} cannot be the name of a machine", where=f"platform {name!r}")
    network = {(path.source, path.destination): path for path in paths}
    for pair in permutations([HOST, *machines], 2):
        if pair not in network:
            raise PlatformError(f"no network path from {pair[0]!r} to {pair[1]!r}", where=f"platform {name!r}")
    ports = {
        name: _Port(name if name == HOST else qualified(name, HOST), f"{name} sends", f"{name} receives")
        for name in (HOST, *machines)
    }
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
            + [_between(network[pair], ports) for pair in permutations([HOST, *machines], 2)]
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


class _Port(NamedTuple):
    """Names of a machine's part in its links, kept once: of a thousand machines there are a million links."""

    space: str
    sends: str
    receives: str


def _between(path: NetworkPath, ports: Mapping[str, _Port]) -> Link:
    """Return the link from the memory of one machine's host to another's; others are composed with it."""
    return Link(
        ports[path.source].space,
        ports[path.destination].space,
        path.latency_s,
        path.bandwidth_bytes_per_s,
        "measured" if path.measured else "assumed",
        channel=ports[path.source].sends,
        arrival_channel=ports[path.destination].receives,
        cores=path.cores,
    )
