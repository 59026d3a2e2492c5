# SPDX-License-Identifier: Apache-2.0
"""Routes of copies between memory spaces, and the lanes that make them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.model.platform import Platform
from syclsched.model.platform_parts.routes import NOTHING, find_routes
from syclsched.planning.draft import Ints
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.search.queued.state import ROUTE, CopyLanes


class CopyOwners(NamedTuple):
    """Devices whose lanes make copies: the first that exists of these four; the last two may be hosts.

    The device near the destination, the device near the source, a device that lives in the source, and one that lives
    in the destination.
    """

    #: By the device that needs data, and space: this device if it lives there, else the first that does.
    near: Ints
    living: Ints  # by space: the first device that lives there, hosts included


def copy_owners(platform: Platform) -> CopyOwners:
    """Return the devices whose lanes make copies."""
    spaces = {s.name: n for n, s in enumerate(platform.spaces)}
    home = np.array([spaces[d.space] for d in platform.devices], np.int64)
    on_host = np.array([d.is_host for d in platform.devices], np.bool_)
    computing, living = np.full((2, len(spaces)), NOTHING, np.int64)
    for number in range(len(home) - 1, -1, -1):
        living[home[number]] = number
        if not on_host[number]:
            computing[home[number]] = number
    near = np.tile(computing, (len(home), 1))
    own = np.flatnonzero(~on_host)
    near[own, home[own]] = own
    return CopyOwners(near, living)


def copy_lanes(platform: Platform, problem: Problem) -> CopyLanes:
    """Return routes and lanes by the numbers of a scheduling problem on some devices of a platform."""
    space = [[s.name for s in platform.spaces].index(name) for name in problem.spaces]
    device = [[d.name for d in platform.devices].index(name) for name in problem.devices]
    known = find_routes(platform.links, problem.spaces)
    routes = np.zeros(known.stop.shape, ROUTE)
    routes["stop"], routes["latency_s"], routes["s_per_byte"] = known.stop, known.latency_s, known.s_per_byte
    # Lanes of the problem's processors, then copy lanes, then first lanes of devices that the problem leaves out.
    processors, count = len(problem.tables.processor_device), len(platform.devices)
    lane_of_owner = processors + np.arange(count)
    makes_copies = np.array([d.copy_lane for d in platform.devices])
    lane_of_owner[~makes_copies] += count
    for kept, number in enumerate(device):
        if not makes_copies[number]:
            lane_of_owner[number] = problem.tables.device_start[kept]
    near, living = copy_owners(platform)
    near, living = near[np.ix_(device, space)], living[space]
    owners = np.broadcast_to(near[:, None, :], (len(device), len(space), len(space)))
    for further in (near[:, :, None], living[:, None], living):
        owners = np.where(owners == NOTHING, further, owners)
    lane = lane_of_owner[owners]
    own = (owners == np.array(device)[:, None, None]) & ~makes_copies[owners]
    reorders = np.zeros(processors + 2 * count, np.bool_)
    reorders[processors : processors + count] = makes_copies
    return CopyLanes(routes, np.ascontiguousarray(np.where(own, NOTHING, lane)), reorders)
