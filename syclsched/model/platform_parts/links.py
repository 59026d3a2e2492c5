# SPDX-License-Identifier: Apache-2.0
"""Links of a platform, found by their ends; those between the devices of two machines are composed when asked for."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from syclsched.model.platform_parts.machines import host_space, machine_of
from syclsched.model.profile import Name, NonNegative, Positive
from syclsched.model.text.json_serialisation import Serialisable


@dataclass(frozen=True, slots=True)
class Link(Serialisable):
    """A direct link from one memory space to another.

    Parameters
    ----------
    source, destination : str
        Memory spaces.
    latency_s : float
        Fixed cost of a copy.
    bandwidth_bytes_per_s : float
        Bandwidth in bytes per second; infinity is stored as the largest finite number, since files hold no infinity.
    origin : str
        ``measured``, ``spec-sheet`` or ``assumed``.
    channel : str or None
        The shared resource that its copies occupy: links with the same channel share bandwidth. None for a separate
        channel, so that the two directions between a pair of spaces do not contend.
    arrival_channel : str or None
        A second shared resource that its copies occupy, such as the network port of the machine that receives them.
    cores : float
        Cores of the host's processor that a copy wants at each of its ends while data moves; for copies between
        machines.
    """

    source: Name
    destination: Name
    latency_s: NonNegative
    bandwidth_bytes_per_s: Positive
    origin: Literal["measured", "spec-sheet", "assumed"] = "assumed"
    channel: Name | None = None
    arrival_channel: Name | None = None
    cores: NonNegative = 0.0

    def __post_init__(self) -> None:
        if self.bandwidth_bytes_per_s == math.inf:
            object.__setattr__(self, "bandwidth_bytes_per_s", sys.float_info.max)

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels that its copies occupy."""
        first = self.channel or f"{self.source}->{self.destination}"
        return (first,) if self.arrival_channel is None else (first, self.arrival_channel)

    def seconds(self, nbytes: float) -> float:
        """Return the time to move ``nbytes`` bytes."""
        return self.latency_s + nbytes / self.bandwidth_bytes_per_s


class LinkTable(tuple[Link, ...]):
    """Links that are found by their ends at once.

    Machines are linked by their hosts' memories. A copy between other memories of theirs is one link as well, which
    takes all steps of the way one after another and occupies the network's channels: stored, these links would be
    millions.
    """

    @cached_property
    def by_ends(self) -> dict[tuple[str, str], Link]:
        """The first link between each two spaces."""
        return {(link.source, link.destination): link for link in reversed(self)}

    @cached_property
    def routes(self) -> dict[tuple[str, ...], Any]:
        """Routes between spaces that were asked for; see `syclsched.model.platform_parts.routes.find_routes`."""
        return {}

    def between(self, source: str, destination: str) -> Link | None:
        """Return the link between two spaces, composed if they are on different machines; None if there is none."""
        found = self.by_ends.get((source, destination))
        if found is not None or machine_of(source) == machine_of(destination):
            return found
        stops = source, host_space(source), host_space(destination), destination
        steps = [self.by_ends.get(ends) for ends in pairwise(stops) if ends[0] != ends[1]]
        there = [step for step in steps if step is not None]
        network = self.by_ends.get(stops[1:3])
        if network is None or len(there) < len(steps):
            return None
        return replace(
            network,
            source=source,
            destination=destination,
            channel=network.channels[0],
            latency_s=sum(step.latency_s for step in there),
            bandwidth_bytes_per_s=1.0 / sum(1.0 / step.bandwidth_bytes_per_s for step in there),
        )

    def __reduce__(self) -> tuple[type[LinkTable], tuple[list[Link]]]:
        return LinkTable, ([*self],)
