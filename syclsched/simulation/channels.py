# SPDX-License-Identifier: Apache-2.0
"""Channels: the link bandwidth that copies share, and the copies' speeds.

A platform states how copies contend for channels:

``none``
    No contention: every copy takes its time alone, as in the literature's contention-free model.
``one-port``
    A channel carries one copy at a time. Ready copies go in the order of their submission; a copy that waits for one of
    its channels keeps its place on the other.
``fair``
    Running copies share the bandwidth of each channel max-min fairly, as a fluid; latencies overlap.

Each direction of each link is a channel of its own, unless links name a common one. A copy through the host's memory
occupies the channels of both its links.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from syclsched.compiled import lean
from syclsched.model.platform import Link, Platform
from syclsched.model.platform_parts.machines import host_space
from syclsched.simulation.instruction_columns import InstructionColumns
from syclsched.simulation.machine import CHANNEL, COPY, Floats, Ints, Machine, Records, records

#: Codes of `Platform.contention`.
NONE, ONE_PORT, FAIR = 0, 1, 2

_CODES = {"none": NONE, "one-port": ONE_PORT, "fair": FAIR}

#: Shares within this factor are equal.
_ROUNDING = 1.0 + 1e-12


def share_channels(
    platform: Platform, columns: InstructionColumns, processors: Mapping[str, int], steps: Records
) -> tuple[int, Records]:
    """Assign the copies of a plan to channels and processors; return the contention code and the channels."""
    code = _CODES[platform.contention]
    if code == NONE:
        return code, records(CHANNEL, 0)
    carries: dict[str, float] = {}
    for link in platform.links:
        for name in link.channels:
            carries[name] = max(link.bandwidth_bytes_per_s, carries.get(name, 0.0))
    if len(columns.way):
        _occupy(platform, columns, steps, carries)
        _use_processors(platform, columns, steps, processors)
    return code, records(CHANNEL, len(carries), bytes_per_s=list(carries.values()))


def _occupy(platform: Platform, columns: InstructionColumns, steps: Records, carries: dict[str, float]) -> None:
    """Record the channels, latencies and speeds of copies."""
    copies = np.flatnonzero(columns.kind == COPY)
    index = {name: n for n, name in enumerate(carries)}
    ways = [_way(platform.route(*pair), carries, index) for pair in columns.ways]
    first, second, latency_s, most = (np.array(column)[columns.way] for column in zip(*ways, strict=True))
    seconds = columns.duration_s[copies]
    nbytes = columns.nbytes[copies].astype(np.float64)
    occupies = seconds > 0.0
    latency_s = np.minimum(seconds, latency_s)
    moves = occupies & (seconds > latency_s) & (nbytes > 0.0)
    speed = np.zeros(len(copies))
    # At most its channels' bandwidth, so that a copy without competition takes exactly its duration.
    speed[moves] = np.minimum(nbytes[moves] / (seconds[moves] - latency_s[moves]), most[moves])
    steps["first"][copies] = np.where(occupies, first, -1)
    steps["second"][copies] = np.where(occupies, second, -1)
    steps["latency_s"][copies] = latency_s
    steps["bytes_per_s"][copies] = speed


def _use_processors(
    platform: Platform, columns: InstructionColumns, steps: Records, processors: Mapping[str, int]
) -> None:
    """Record how many cores copies between machines use at both ends."""
    at = {each.space: processors.get(each.processor or "", -1) for each in platform.devices if each.is_host}
    cores = [max(link.cores for link in platform.route(*pair)) for pair in columns.ways]
    if not any(cores):
        return
    copies = np.flatnonzero((columns.kind == COPY) & (columns.duration_s > 0.0))
    way = columns.way[columns.duration_s[columns.kind == COPY] > 0.0]
    steps["cores"][copies] = np.array(cores)[way]
    for end, name in enumerate(("source", "target")):
        steps[name][copies] = np.array([at.get(host_space(pair[end]), -1) for pair in columns.ways])[way]


def _way(
    route: Sequence[Link], carries: Mapping[str, float], index: Mapping[str, int]
) -> tuple[int, int, float, float]:
    """Return the channels of a route (-1 for none), its latency, and its bandwidth in bytes per second."""
    names = [name for link in route for name in link.channels]
    first, second, *_ = [*(index[name] for name in names), -1, -1]
    most = min((carries[name] / names.count(name) for name in names), default=math.inf)
    return first, second, sum(link.latency_s for link in route), most


@lean
def fair_speeds(m: Machine, flows: Ints, speed: Floats) -> None:
    """Compute max-min fair speeds of some copies by progressive filling.

    References
    ----------
    .. [1] D. Bertsekas, R. Gallager, "Data Networks", 2nd edition, 1992, section 6.5.2.
    """
    for c in range(len(m.channels)):
        m.channels[c].users = 0
        m.channels[c].room_bytes_per_s = m.channels[c].bytes_per_s
    for f in range(len(flows)):
        speed[f] = -1.0
        _use(m, flows[f], 1, 0.0)
    left = len(flows)
    while left > 0:
        share = np.inf
        for f in range(len(flows)):
            if speed[f] < 0.0:
                share = min(share, _offer(m, flows[f]))
        modest = False  # copies that need less than the equal share get that first
        for f in range(len(flows)):
            wanted = m.steps[flows[f]].bytes_per_s
            if speed[f] < 0.0 and wanted <= share * _ROUNDING:
                modest = True
                left -= 1
                speed[f] = 1.0
                _use(m, flows[f], -1, wanted)
        if modest:
            continue
        for f in range(len(flows)):
            if speed[f] < 0.0 and _offer(m, flows[f]) <= share * _ROUNDING:
                left -= 1
                speed[f] = share / m.steps[flows[f]].bytes_per_s
                _use(m, flows[f], -1, share)


@lean
def _offer(m: Machine, copy: int) -> float:
    """Return the equal share on the most contended of a copy's channels."""
    channel = m.channels[m.steps[copy].first]
    share = channel.room_bytes_per_s / channel.users
    if m.steps[copy].second >= 0:
        channel = m.channels[m.steps[copy].second]
        share = min(share, channel.room_bytes_per_s / channel.users)
    return float(share)


@lean
def _use(m: Machine, copy: int, users: int, bytes_per_s: float) -> None:
    """Add to the user count of a copy's channels, and subtract from their remaining bandwidth."""
    for side in range(2):
        c = m.steps[copy].first if side == 0 else m.steps[copy].second
        if c >= 0:
            m.channels[c].users += users
            m.channels[c].room_bytes_per_s = max(0.0, m.channels[c].room_bytes_per_s - bytes_per_s)
