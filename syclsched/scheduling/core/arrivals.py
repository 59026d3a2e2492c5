# SPDX-License-Identifier: Apache-2.0
"""Arrival times of items without contention: a copy starts as soon as its item is made.

An item is made in one space and can be read there at once. In any other space it can be read after a copy, from one
time on for all readers there. A device that reaches several spaces reads the item in the space that has it first. An
updated array stays in the space where it is read; a new one is made in the home space of its device.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.core.partial_schedule import ItemState
from syclsched.scheduling.tables import Floats


@lean
def copy_seconds(data: ItemState, item: int, source: int, destination: int) -> float:
    """Return the seconds that a copy of an item takes."""
    nbytes = data.item_bytes[item]
    if source == destination or nbytes == 0.0:
        return 0.0
    return float(data.latency_s[source, destination] + nbytes * data.s_per_byte[source, destination])


@lean
def wait_for_items(data: ItemState, task: int, first: int, end: int, ready_s: Floats) -> None:
    """Raise the ready times of a task on devices to the arrival of the items that it reads."""
    ready = ready_s[first:end]
    for row in range(data.read_start[task], data.read_start[task + 1]):
        item = data.read_item[row]
        origin, made_s, nbytes = data.origin[item], data.made_s[item], data.item_bytes[item]
        if origin < 0:
            continue
        if nbytes == 0.0:
            for index in range(ready.shape[0]):
                ready[index] = max(ready[index], made_s)
            continue
        latency_s, s_per_byte = data.fetch_latency_s[origin, first:end], data.fetch_s_per_byte[origin, first:end]
        for index in range(ready.shape[0]):  # without branches, so that it is vectorised over devices
            ready[index] = max(ready[index], made_s + (latency_s[index] + nbytes * s_per_byte[index]))
        for device in data.choosing:
            if first <= device < end:
                ready_s[device] = max(ready_s[device], made_s + _soonest(data, nbytes, origin, device))


@lean
def make_items(data: ItemState, task: int, device: int, finish_s: float) -> None:
    """Set location and time of the items that a task makes."""
    for row in range(data.make_start[task], data.make_start[task + 1]):
        item, replaces = data.make_item[row], data.make_replaces[row]
        space = data.reach_space[data.reach_start[device]]
        if replaces >= 0:
            space = _read_in(data, replaces, device)
        data.origin[item], data.made_s[item] = space, finish_s


@lean
def _soonest(data: ItemState, nbytes: float, origin: int, device: int) -> float:
    """Return the time of the fastest copy to a space that a device reaches; 0 if it reaches the origin."""
    best_s = np.inf
    for reached in range(data.reach_start[device], data.reach_start[device + 1]):
        space = data.reach_space[reached]
        if space == origin:
            return 0.0
        best_s = min(best_s, data.latency_s[origin, space] + nbytes * data.s_per_byte[origin, space])
    return float(best_s)


@lean
def _read_in(data: ItemState, item: int, device: int) -> int:
    """Return the space in which a device reads an item: its origin, or the space with the first copy, home on ties."""
    origin, first = data.origin[item], data.reach_start[device]
    best, best_s = data.reach_space[first], np.inf
    for reached in range(first, data.reach_start[device + 1]):
        space = data.reach_space[reached]
        if space == origin:
            return int(origin)
        copy_s = copy_seconds(data, item, origin, space)
        if copy_s < best_s:
            best, best_s = space, copy_s
    return int(best)
