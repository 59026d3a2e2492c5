# SPDX-License-Identifier: Apache-2.0
"""Copies on one-port channels: each is put into the first common gap of its channels when its reader is placed.

A copy goes from the origin of its item to a space that the reader reaches, once for all readers there. The copies of a
reader are first placed *tentatively*, at the end of the list of copies, and then committed or dropped.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled, lean
from syclsched.scheduling.core.arrivals import copy_seconds
from syclsched.scheduling.core.partial_schedule import CopyState, ItemState
from syclsched.scheduling.core.timelines import earliest_start, insert_node, remove_node
from syclsched.scheduling.tables import NOTHING, Floats, Ints

#: Columns of `CopyState.what` and `CopyState.when_s`.
ITEM, SOURCE, DESTINATION = 0, 1, 2
START, FINISH = 0, 1


@lean
def wait_for_copies(data: ItemState, network: CopyState, task: int, first: int, end: int, ready_s: Floats) -> None:
    """Raise the ready times of a task on devices to the arrival of the items that it reads."""
    for device in range(first, end):
        network.counts[1] = 0
        for row in range(data.read_start[task], data.read_start[task + 1]):
            if data.origin[data.read_item[row]] >= 0:
                ready_s[device] = max(ready_s[device], _try_copy(data, network, data.read_item[row], device))


@lean
def make_items_with_copies(
    data: ItemState, network: CopyState, task: int, device: int, finish_s: float, unused: Floats
) -> None:
    """Commit the copies that a task needs, and set location and time of the items that it makes."""
    wait_for_copies(data, network, task, device, device + 1, unused)
    _commit(network)
    for row in range(data.make_start[task], data.make_start[task + 1]):
        item, replaces = data.make_item[row], data.make_replaces[row]
        space = data.reach_space[data.reach_start[device]]
        if replaces >= 0:
            space = _read_in(data, network, replaces, device)
        data.origin[item], data.made_s[item] = space, finish_s


@lean
def unmake_items(data: ItemState, network: CopyState, task: int, copies: int) -> None:
    """Undo the last `make_items` or `make_items_with_copies`."""
    for row in range(data.make_start[task], data.make_start[task + 1]):
        data.origin[data.make_item[row]] = NOTHING
    while network.counts[0] > copies:
        network.counts[0] -= 1
        copy = network.counts[0]
        network.newest[network.what[copy, ITEM]] = network.earlier[copy]
        one, other = _channels(network, network.what[copy, SOURCE], network.what[copy, DESTINATION])
        if one >= 0:
            remove_node(network.lines.link, network.lines.time, one, 2 * copy)
        if other >= 0:
            remove_node(network.lines.link, network.lines.time, other, 2 * copy + 1)


@compiled
def copy_results(data: ItemState, network: CopyState, want_item: Ints, want_space: Ints) -> None:
    """Copy the wanted results to their spaces, in the order in which they are made."""
    wanted_s = np.empty(want_item.shape[0])
    for want in range(wanted_s.shape[0]):
        wanted_s[want] = data.made_s[want_item[want]]
    for want in np.argsort(wanted_s, kind="mergesort"):
        item, space = want_item[want], want_space[want]
        if data.item_bytes[item] > 0.0 and _arrival_s(data, network, item, space) == np.inf:
            network.counts[1] = 0
            if _try_space(data, network, item, space, np.inf) < np.inf:
                network.counts[1] = 1
                _commit(network)


# --- inside ---------------------------------------------------------------------------------------


@lean
def _arrival_s(data: ItemState, network: CopyState, item: int, space: int) -> float:
    """Return when an item arrives in a space; infinity where it has no copy."""
    if space == data.origin[item]:
        return float(data.made_s[item])
    copy = network.newest[item]
    while copy >= 0 and network.what[copy, DESTINATION] != space:
        copy = network.earlier[copy]
    return float(network.when_s[copy, FINISH]) if copy >= 0 else np.inf


@lean
def _try_copy(data: ItemState, network: CopyState, item: int, device: int) -> float:
    """Return when an item is in the first space that a device reaches; add the needed copy tentatively."""
    if data.item_bytes[item] == 0.0:
        return float(data.made_s[item])
    first, end = data.reach_start[device], data.reach_start[device + 1]
    best_s = np.inf
    for reached in range(first, end):
        best_s = min(best_s, _arrival_s(data, network, item, data.reach_space[reached]))
    next_copy = network.counts[0] + network.counts[1]
    for copy in range(network.counts[0], next_copy):
        if network.what[copy, ITEM] == item:  # read twice by one task
            best_s = min(best_s, network.when_s[copy, FINISH])
    before_s, best, start_s = best_s, NOTHING, 0.0
    for reached in range(first, end):
        space = data.reach_space[reached]
        if _arrival_s(data, network, item, space) == np.inf:
            finish_s = _try_space(data, network, item, space, best_s)
            if finish_s < best_s:
                best_s, best, start_s = finish_s, space, network.when_s[next_copy, START]
    if best_s < before_s:
        network.what[next_copy, DESTINATION] = best
        network.when_s[next_copy, START], network.when_s[next_copy, FINISH] = start_s, best_s
        network.counts[1] += 1
    return best_s


@lean
def _try_space(data: ItemState, network: CopyState, item: int, space: int, bound_s: float) -> float:
    """Return when a copy to a space would end, infinity if not before a bound; write it after the tentative copies."""
    origin, made_s = data.origin[item], data.made_s[item]
    seconds = copy_seconds(data, item, origin, space)
    if not made_s + seconds < bound_s:
        return np.inf
    copy = network.counts[0] + network.counts[1]
    start_s = _first_gap(network, origin, space, made_s, seconds)
    network.what[copy, ITEM], network.what[copy, SOURCE], network.what[copy, DESTINATION] = item, origin, space
    network.when_s[copy, START], network.when_s[copy, FINISH] = start_s, start_s + seconds
    return start_s + seconds


@lean
def _first_gap(network: CopyState, source: int, destination: int, ready_s: float, seconds: float) -> float:
    """Return the first time at which all channels of a copy are free for its duration, tentative copies included."""
    link, time = network.lines.link, network.lines.time
    one, other = _channels(network, source, destination)
    start_s = ready_s
    while True:
        before_s = start_s
        if one >= 0:
            start_s = earliest_start(link, time, one, start_s, seconds, np.inf)
        if other >= 0:
            start_s = earliest_start(link, time, other, start_s, seconds, np.inf)
        for copy in range(network.counts[0], network.counts[0] + network.counts[1]):
            if start_s < network.when_s[copy, FINISH] and network.when_s[copy, START] < start_s + seconds:
                used, also_used = _channels(network, network.what[copy, SOURCE], network.what[copy, DESTINATION])
                if (one >= 0 and one in (used, also_used)) or (other >= 0 and other in (used, also_used)):
                    start_s = network.when_s[copy, FINISH]
        if start_s == before_s:
            return start_s


@lean
def _channels(network: CopyState, source: int, destination: int) -> tuple[int, int]:
    """Return the head nodes of the channels that a copy occupies; a channel listed twice counts once."""
    one, other = network.channel[source, destination, 0], network.channel[source, destination, 1]
    nodes = 2 * network.what.shape[0]
    return (
        nodes + one if one >= 0 else NOTHING,
        nodes + other if other >= 0 and other != one else NOTHING,
    )


@lean
def _commit(network: CopyState) -> None:
    """Make the tentative copies a part of the schedule."""
    for copy in range(network.counts[0], network.counts[0] + network.counts[1]):
        source, destination = network.what[copy, SOURCE], network.what[copy, DESTINATION]
        start_s, finish_s = network.when_s[copy, START], network.when_s[copy, FINISH]
        item = network.what[copy, ITEM]
        network.newest[item], network.earlier[copy] = copy, network.newest[item]
        one, other = _channels(network, source, destination)
        if one >= 0:
            insert_node(network.lines.link, network.lines.time, one, 2 * copy, start_s, finish_s)
        if other >= 0:
            insert_node(network.lines.link, network.lines.time, other, 2 * copy + 1, start_s, finish_s)
    network.counts[0] += network.counts[1]
    network.counts[1] = 0


@lean
def _read_in(data: ItemState, network: CopyState, item: int, device: int) -> int:
    """Return the space in which a device reads an item: its origin, or the space with the first copy, home on ties."""
    origin, first = data.origin[item], data.reach_start[device]
    best, best_s = data.reach_space[first], np.inf
    for reached in range(first, data.reach_start[device + 1]):
        space = data.reach_space[reached]
        if space == origin:
            return int(origin)
        arrival_s = _arrival_s(data, network, item, space)
        if arrival_s < best_s:
            best, best_s = space, arrival_s
    return int(best)
