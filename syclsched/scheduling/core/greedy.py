# SPDX-License-Identifier: Apache-2.0
"""Greedy list scheduling: place the best pair of ready task and device until all tasks are placed.

The value of a pair is its *merit* minus its start: the arrival of the task's data on the device or, if later, the time
at which the device is free (no insertion). Only this one time per device changes when a task is placed. Each device
therefore keeps its ready tasks in heaps: tasks whose data is there, by merit; waiting tasks, by value; and the waiting
tasks once more, by arrival of their data. A step costs ``O(devices * log(tasks))`` amortised, for any graph width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.core.insertion import find_ready_times, place
from syclsched.scheduling.core.partial_schedule import CopyState, ItemState, PartialSchedule, TaskSlots
from syclsched.scheduling.core.timelines import FREE
from syclsched.scheduling.tables import NOTHING, Floats, Ints

#: Heaps of a device: tasks whose data is there, by merit; waiting tasks, by value; waiting tasks, by data arrival.
_NOW, _LATER, _ARRIVING = 0, 1, 2


class _Heaps(NamedTuple):
    """Heaps of ready tasks, for each device."""

    task: Ints  # binary heaps
    key: Floats  # the smallest is popped first
    size: Ints  # entries in each heap; stale entries (placed, or no longer waiting) stay until they reach the top
    data_s: Floats  # arrival of a ready task's data on each device


def make_heaps(tasks: int, devices: int) -> _Heaps:
    """Return empty heaps."""
    shape = (3, devices, tasks)
    return _Heaps(np.empty(shape, np.int64), np.empty(shape), np.zeros(shape[:2], np.int64), np.empty((tasks, devices)))


@lean
def place_best_pairs(
    state: PartialSchedule,
    heaps: _Heaps,
    waiting: Ints,
    succ_start: Ints,
    succ_task: Ints,
    places: Ints,
    merit_s: Floats,
) -> int:
    """Schedule the best pair of ready task and device until all tasks are placed."""
    slots, data, network = state.slots, state.data, state.network
    tasks = slots.kind.size
    for task in range(tasks):
        if waiting[task] == 0 and not _enter(slots, data, network, heaps, task, places, merit_s):
            return task
    for _ in range(tasks):
        task, device = _best_pair(slots, heaps, places, merit_s)
        processor = first_free(slots, device)
        find_ready_times(slots, data, network, task, device, device + 1)
        start_s = max(slots.ready_s[device], slots.lines.time[tasks + processor, FREE])
        place(slots, data, network, task, processor, start_s)
        for arc in range(succ_start[task], succ_start[task + 1]):
            after = succ_task[arc]
            waiting[after] -= 1
            if waiting[after] == 0 and not _enter(slots, data, network, heaps, after, places, merit_s):
                return int(after)
    return NOTHING


@lean
def first_free(slots: TaskSlots, device: int) -> int:
    """Return the processor of a device that is free first."""
    tasks, best = slots.kind.size, slots.device_start[device]
    for processor in range(best + 1, slots.device_start[device + 1]):
        if slots.lines.time[tasks + processor, FREE] < slots.lines.time[tasks + best, FREE]:
            best = processor
    return int(best)


# --- inside ---------------------------------------------------------------------------------------


@lean
def _enter(
    slots: TaskSlots, data: ItemState, network: CopyState, heaps: _Heaps, task: int, places: Ints, merit_s: Floats
) -> bool:
    """Push a task that became ready onto the heaps; return whether any device can run it."""
    tasks, devices = slots.kind.size, slots.seconds.shape[1]
    find_ready_times(slots, data, network, task, 0, devices)
    found = False
    for device in range(devices):
        ready_s, merit = slots.ready_s[device], merit_s[task, device]
        heaps.data_s[task, device] = ready_s
        if not slots.seconds[slots.kind[task], device] + ready_s < np.inf:
            continue
        found = True
        if ready_s <= slots.lines.time[tasks + first_free(slots, device), FREE]:
            _push(heaps, _NOW, device, places, task, -merit)
        else:
            _push(heaps, _LATER, device, places, task, ready_s - merit)
            _push(heaps, _ARRIVING, device, places, task, ready_s)
    return found


@lean
def _best_pair(slots: TaskSlots, heaps: _Heaps, places: Ints, merit_s: Floats) -> tuple[int, int]:
    """Return the task and device with the highest value."""
    tasks, devices = slots.kind.size, slots.seconds.shape[1]
    best, best_device, best_value = NOTHING, NOTHING, -np.inf
    for device in range(devices):
        free_s = slots.lines.time[tasks + first_free(slots, device), FREE]
        _remove_stale(slots, heaps, device, free_s, places, merit_s)
        for kind in (_NOW, _LATER):
            if not heaps.size[kind, device]:
                continue
            task = heaps.task[kind, device, 0]
            value = merit_s[task, device] - max(heaps.data_s[task, device], free_s)
            better = best < 0 or value > best_value
            if best >= 0 and value == best_value:
                earlier = places[task] - places[best]
                faster = slots.seconds[slots.kind[task], device] < slots.seconds[slots.kind[best], best_device]
                better = earlier < 0 or (earlier == 0 and faster)
            if better:
                best, best_device, best_value = task, device, value
    return best, best_device


@lean
def _remove_stale(slots: TaskSlots, heaps: _Heaps, device: int, free_s: float, places: Ints, merit_s: Floats) -> None:
    """Move tasks whose data has arrived to their heap, and drop stale entries from the tops."""
    while heaps.size[_ARRIVING, device] and heaps.key[_ARRIVING, device, 0] <= free_s:
        task = heaps.task[_ARRIVING, device, 0]
        _pop(heaps, _ARRIVING, device, places)
        if slots.processor[task] < 0:
            _push(heaps, _NOW, device, places, task, -merit_s[task, device])
    for kind in (_NOW, _LATER):
        while heaps.size[kind, device]:
            task = heaps.task[kind, device, 0]
            if slots.processor[task] < 0 and (kind == _NOW or heaps.data_s[task, device] > free_s):
                break
            _pop(heaps, kind, device, places)


@lean
def _before(key_s: float, place: int, other_s: float, other_place: int) -> bool:
    """Return whether an entry is popped before another."""
    return key_s < other_s or (key_s == other_s and place < other_place)


@lean
def _push(heaps: _Heaps, kind: int, device: int, places: Ints, task: int, key_s: float) -> None:
    """Push a task onto a heap."""
    heap, key = heaps.task[kind, device], heaps.key[kind, device]
    at = heaps.size[kind, device]
    while at > 0:
        above = (at - 1) // 2
        if not _before(key_s, places[task], key[above], places[heap[above]]):
            break
        heap[at], key[at] = heap[above], key[above]
        at = above
    heap[at], key[at] = task, key_s
    heaps.size[kind, device] += 1


@lean
def _pop(heaps: _Heaps, kind: int, device: int, places: Ints) -> None:
    """Pop the first task of a heap."""
    heap, key = heaps.task[kind, device], heaps.key[kind, device]
    heaps.size[kind, device] -= 1
    size = heaps.size[kind, device]
    task, key_s = heap[size], key[size]
    at, child = 0, 1
    while child < size:
        other = child + 1
        if other < size and _before(key[other], places[heap[other]], key[child], places[heap[child]]):
            child = other
        if not _before(key[child], places[heap[child]], key_s, places[task]):
            break
        heap[at], key[at] = heap[child], key[child]
        at, child = child, 2 * child + 1
    heap[at], key[at] = task, key_s
