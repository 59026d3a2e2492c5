# SPDX-License-Identifier: Apache-2.0
"""List scheduling with one-step lookahead: place each task where its successors would finish first."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.core.insertion import best_slot, find_ready_times, place, unplace
from syclsched.scheduling.core.partial_schedule import CopyState, ItemState, PartialSchedule, TaskSlots
from syclsched.scheduling.tables import NOTHING, Floats, Ints


@lean
def place_looking_ahead(
    state: PartialSchedule,
    order: Ints,
    succ_start: Ints,
    succ_task: Ints,
    ready_s: Floats,
    no_offset_s: Floats,
) -> int:
    """Schedule tasks in an order, each on the device that gives the earliest finish of its last successor."""
    slots, data, network = state.slots, state.data, state.network
    devices = slots.seconds.shape[1]
    for task in order:
        find_ready_times(slots, data, network, task, 0, devices)
        for device in range(devices):
            ready_s[device] = slots.ready_s[device]
        best, best_start_s = NOTHING, 0.0
        best_s, best_finish_s = np.inf, np.inf
        for device in range(devices):
            slots.ready_s[device] = ready_s[device]
            processor, start_s = best_slot(slots, task, device, device + 1, no_offset_s, 1.0)
            if processor < 0:
                continue
            finish_s = start_s + slots.seconds[slots.kind[task], device]
            if finish_s > best_s:
                continue
            followers = succ_task[succ_start[task] : succ_start[task + 1]]
            value_s = _after_successors(slots, data, network, task, processor, start_s, followers, best_s, no_offset_s)
            if best < 0 or value_s < best_s or (value_s == best_s and finish_s < best_finish_s):
                best_s, best_finish_s, best, best_start_s = value_s, finish_s, processor, start_s
        if best < 0:
            return int(task)
        place(slots, data, network, task, best, best_start_s)
    return NOTHING


@lean
def _after_successors(
    slots: TaskSlots,
    data: ItemState,
    network: CopyState,
    task: int,
    processor: int,
    start_s: float,
    followers: Ints,
    bound_s: float,
    no_offset_s: Floats,
) -> float:
    """Return the finish of the last successor of a task (or of the task), from a trial placement that is undone.

    The trial stops as soon as this exceeds the bound.
    """
    devices, copies = slots.seconds.shape[1], network.counts[0]
    place(slots, data, network, task, processor, start_s)
    last_s, tried = slots.finish_s[task], 0
    for follower in followers:
        find_ready_times(slots, data, network, follower, 0, devices)
        next_processor, next_start_s = best_slot(slots, follower, 0, devices, no_offset_s, 1.0)
        if next_processor < 0:
            last_s = np.inf
            break
        last_s = max(last_s, next_start_s + slots.seconds[slots.kind[follower], slots.processor_device[next_processor]])
        if last_s > bound_s:
            break
        place(slots, data, network, follower, next_processor, next_start_s)
        tried += 1
    for follower in followers[:tried][::-1]:
        unplace(slots, data, network, follower, copies)
    unplace(slots, data, network, task, copies)
    return float(last_s)
