# SPDX-License-Identifier: Apache-2.0
"""Routes between the memory spaces of a platform as arrays, for platforms of many machines too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.model.platform_parts.links import Link, LinkTable
from syclsched.model.platform_parts.machines import HOST, host_space, machine_numbers

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: In place of a space or a channel: none.
NOTHING: Final = -1


class Routes(NamedTuple):
    """Routes by source and destination space; see `Platform.route`."""

    #: Where a copy goes first: to its destination, over one link, or to the host's memory; `NOTHING` without a route.
    stop: Ints
    latency_s: Floats  # of the route; infinity if there is none
    s_per_byte: Floats
    bytes_per_s: Floats  # of a route of one link
    channel: Ints  # numbers of the channels that a copy occupies, two at most; `NOTHING` for none


def find_routes(links: Sequence[Link], spaces: Sequence[str]) -> Routes:
    """Return the routes between some spaces of a platform with these links; they are kept, so do not change them."""
    if not isinstance(links, LinkTable):
        return _find_routes(links, spaces)
    key = tuple(spaces)
    found: Routes | None = links.routes.get(key)
    if found is None:
        found = links.routes[key] = _find_routes(links, spaces)
    return found


def _find_routes(links: Sequence[Link], spaces: Sequence[str]) -> Routes:
    number, count = {name: n for n, name in enumerate(spaces)}, len(spaces)
    square = count, count
    routes = Routes(
        np.full(square, NOTHING, np.int64),
        np.full(square, np.inf),
        np.zeros(square),
        np.ones(square),
        np.full((*square, 2), NOTHING, np.int64),
    )
    channels: dict[str, int] = {}
    for link in reversed(links):
        if link.source in number and link.destination in number:
            one, other = number[link.source], number[link.destination]
            used = [channels.setdefault(name, len(channels)) for name in link.channels]
            routes.stop[one, other], routes.latency_s[one, other] = other, link.latency_s
            routes.bytes_per_s[one, other] = link.bandwidth_bytes_per_s
            routes.channel[one, other] = (*used, NOTHING)[:2]
    np.divide(1.0, routes.bytes_per_s, out=routes.s_per_byte, where=routes.stop != NOTHING)
    hosts = [name if name in number else HOST for name in map(host_space, spaces)]
    machine = np.array(machine_numbers(hosts), np.int64)
    host = np.array([number.get(name, NOTHING) for name in hosts], np.int64)
    if machine.max(initial=0) > 0:
        _between_machines(routes, machine, host)
    _by_host(routes, machine, host)
    each = np.arange(count)
    routes.stop[each, each], routes.latency_s[each, each], routes.s_per_byte[each, each] = each, 0.0, 0.0
    routes.channel[each, each] = NOTHING
    return routes


def _between_machines(routes: Routes, machine: Ints, host: Ints) -> None:
    """Add the links between machines that are composed of others; see `LinkTable.between`."""
    each = np.arange(len(machine))
    at_host = host == each
    up_s, down_s = (np.where(at_host, 0.0, a) for a in (routes.latency_s[each, host], routes.latency_s[host, each]))
    up, down = (np.where(at_host, 0.0, a) for a in (routes.s_per_byte[each, host], routes.s_per_byte[host, each]))
    missing = (routes.stop == NOTHING) & (machine[:, None] != machine) & (host[:, None] != NOTHING) & (host != NOTHING)
    one, other = np.nonzero(missing)
    seconds = up_s[one] + routes.latency_s[host[one], host[other]] + down_s[other]
    linked = np.isfinite(seconds)
    one, other = one[linked], other[linked]
    over = host[one], host[other]
    routes.stop[one, other], routes.latency_s[one, other] = other, seconds[linked]
    routes.s_per_byte[one, other] = up[one] + routes.s_per_byte[over] + down[other]
    routes.bytes_per_s[one, other] = 1.0 / routes.s_per_byte[one, other]
    routes.channel[one, other] = routes.channel[over]


def _by_host(routes: Routes, machine: Ints, host: Ints) -> None:
    """Add the routes of two links through a machine's host."""
    linked = routes.stop != NOTHING
    one, other = np.nonzero(
        ~linked & (machine[:, None] == machine) & (host != NOTHING) & ~np.eye(len(machine), dtype=bool)
    )
    there = linked[one, host[one]] & linked[host[other], other]
    one, other = one[there], other[there]
    up, down = (one, host[one]), (host[other], other)
    routes.stop[one, other] = host[one]
    routes.latency_s[one, other] = routes.latency_s[up] + routes.latency_s[down]
    routes.s_per_byte[one, other] = routes.s_per_byte[up] + routes.s_per_byte[down]
    for first, second, *used in zip(one, other, *routes.channel[up].T, *routes.channel[down].T, strict=True):
        distinct = [channel for channel in dict.fromkeys(used) if channel != NOTHING]
        routes.channel[first, second] = (*distinct, NOTHING, NOTHING)[:2]
