# SPDX-License-Identifier: Apache-2.0
"""Routes of copies between memory spaces, and the lanes that make them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from syclsched.model.platform import HOST, Platform
from syclsched.planning.draft import Floats, Ints
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.search.queued.state import ROUTE, CopyLanes

NOTHING: Final = -1

#: Routes between spaces: none, one link, or two links through the host's memory.
NO_WAY, DIRECT, BY_HOST = 0, 1, 2


class CopyRoutes(NamedTuple):
    """Routes by source and destination space: `NO_WAY`, `DIRECT` or `BY_HOST`, and the direct link's numbers."""

    way: Ints
    latency_s: Floats
    bytes_per_s: Floats


def copy_routes(platform: Platform) -> CopyRoutes:
    """Return the routes between the platform's spaces, in their order."""
    spaces = {s.name: n for n, s in enumerate(platform.spaces)}
    way = np.full((len(spaces), len(spaces)), NO_WAY, np.int64)
    latency_s, bytes_per_s = np.zeros(way.shape), np.ones(way.shape)
    for link in reversed(platform.links):
        ends = spaces[link.source], spaces[link.destination]
        way[ends], latency_s[ends], bytes_per_s[ends] = DIRECT, link.latency_s, link.bandwidth_bytes_per_s
    host = spaces[HOST]
    by_host = (way == NO_WAY) & (way[:, [host]] == DIRECT) & (way[[host], :] == DIRECT)
    way[by_host] = BY_HOST
    return CopyRoutes(way, latency_s, bytes_per_s)


def copy_owners(platform: Platform) -> Ints:
    """Return the device whose lane makes a copy, by the device that needs it, source and destination space.

    It is the device that needs the copy if it lives in the destination, else the first device that lives there; if
    there is none, the same for the source.
    """
    spaces = {s.name: n for n, s in enumerate(platform.spaces)}
    first = np.full(len(spaces), NOTHING, np.int64)
    for number, device in reversed([*enumerate(platform.devices)]):
        if not device.is_host:
            first[spaces[device.space]] = number
    lives_in = np.array(
        [[not d.is_host and spaces[d.space] == n for n in range(len(spaces))] for d in platform.devices]
    )
    consumer = np.arange(len(platform.devices))[:, None, None]
    of_source = np.where(lives_in[:, :, None], consumer, first[None, :, None])
    elsewhere = np.where(first[None, None, :] != NOTHING, first[None, None, :], of_source)
    owner: Ints = np.where(lives_in[:, None, :], consumer, elsewhere)
    return owner


def copy_lanes(platform: Platform, problem: Problem) -> CopyLanes:
    """Return routes and lanes by the numbers of a scheduling problem on some devices of a platform."""
    space = [[s.name for s in platform.spaces].index(name) for name in problem.spaces]
    device = [[d.name for d in platform.devices].index(name) for name in problem.devices]
    known, host = copy_routes(platform), problem.backing_space
    way = known.way[np.ix_(space, space)]
    routes = np.zeros(way.shape, ROUTE)
    routes["stop"] = np.where(way == DIRECT, np.arange(len(space)), np.where(way == BY_HOST, host, NOTHING))
    routes["latency_s"] = known.latency_s[np.ix_(space, space)]
    routes["s_per_byte"] = 1.0 / known.bytes_per_s[np.ix_(space, space)]
    # Lanes of the problem's processors, then copy lanes, then first lanes of devices that the problem leaves out.
    processors, count = len(problem.tables.processor_device), len(platform.devices)
    lane_of_owner = processors + np.arange(count)
    makes_copies = np.array([d.copy_lane for d in platform.devices])
    lane_of_owner[~makes_copies] += count
    for kept, number in enumerate(device):
        if not makes_copies[number]:
            lane_of_owner[number] = problem.tables.device_start[kept]
    owners = copy_owners(platform)[np.ix_(device, space, space)]
    lane = lane_of_owner[owners]
    own = (owners == np.array(device)[:, None, None]) & ~makes_copies[owners]
    reorders = np.zeros(processors + 2 * count, np.bool_)
    reorders[processors : processors + count] = makes_copies
    return CopyLanes(routes, np.ascontiguousarray(np.where(own, NOTHING, lane)), reorders)
