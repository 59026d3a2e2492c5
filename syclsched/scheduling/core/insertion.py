# SPDX-License-Identifier: Apache-2.0
"""List scheduling with insertion: take tasks in an order and put each into its best slot.

Its steps (ready times on each device, best slot, placing, undoing) serve every policy; most policies are
`place_in_order` with their own order and choice of devices.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.core.arrivals import make_items, wait_for_items
from syclsched.scheduling.core.channels import make_items_with_copies, unmake_items, wait_for_copies
from syclsched.scheduling.core.machines import ALL_MACHINES, choose_machines
from syclsched.scheduling.core.partial_schedule import CopyState, ItemState, PartialSchedule, TaskSlots
from syclsched.scheduling.core.timelines import FREE, ROUNDING, earliest_start, insert_node, remove_node
from syclsched.scheduling.tables import NOTHING, Floats, Ints


@lean
def place_in_order(
    state: PartialSchedule, order: Ints, pinned: Ints, follows: Ints, offset_s: Floats, weight: float
) -> int:
    """Schedule tasks in an order, each into its best slot, with insertion; return a task that fits nowhere, if any.

    On more than `ALL_MACHINES` machines, those are tried that have data of the task, and those where it would finish
    first if its data were everywhere.
    """
    slots, data, network = state.slots, state.data, state.network
    devices = slots.seconds.shape[1]
    for task in order:
        processor, start_s = NOTHING, 0.0
        first, end = 0, devices
        if pinned.shape[0] and pinned[task] >= 0:
            first, end = pinned[task], pinned[task] + 1
        elif follows.shape[0] and follows[task] >= 0 and slots.processor[follows[task]] >= 0:
            first = slots.processor_device[slots.processor[follows[task]]]
            end = first + 1
        if end - first == devices and slots.machine_start.shape[0] - 1 > ALL_MACHINES:
            processor, start_s = best_on_machines(slots, data, network, task, offset_s, weight)
        while processor < 0:
            find_ready_times(slots, data, network, task, first, end)
            processor, start_s = best_slot(slots, task, first, end, offset_s, weight)
            if processor < 0 and end - first == devices:
                return int(task)
            first, end = 0, devices
        place(slots, data, network, task, processor, start_s)
    return NOTHING


@lean
def find_ready_times(slots: TaskSlots, data: ItemState, network: CopyState, task: int, first: int, end: int) -> None:
    """Find the times at which a task could start on devices if these were idle."""
    after_s = slots.release_s[task]
    for arc in range(slots.pred_start[task], slots.pred_start[task + 1]):
        after_s = max(after_s, slots.finish_s[slots.pred_task[arc]])
    slots.ready_s[first:end] = after_s
    if network.newest.shape[0]:
        wait_for_copies(data, network, task, first, end, slots.ready_s)
    else:
        wait_for_items(data, task, first, end, slots.ready_s)


@lean
def best_slot(slots: TaskSlots, task: int, first: int, end: int, offset_s: Floats, weight: float) -> tuple[int, float]:
    """Return the processor and start of the best slot of a task on some devices."""
    link, time, device_start = slots.lines.link, slots.lines.time, slots.device_start
    heads, seconds, ready_s = slots.kind.size, slots.seconds[slots.kind[task]], slots.ready_s
    # The best slot without insertion: devices whose ready time cannot beat it need no gap search.
    bound_s = np.inf
    for device in range(first, end):
        cost_s = _cost(seconds[device], task, device, offset_s, weight)
        for head in range(heads + device_start[device], heads + device_start[device + 1]):
            bound_s = min(bound_s, max(ready_s[device], time[head, FREE]) + cost_s)
    best, best_start_s = NOTHING, 0.0
    best_s, best_finish_s = np.inf, np.inf
    for device in range(first, end):
        cost_s = _cost(seconds[device], task, device, offset_s, weight)
        if not (ready_s[device] + seconds[device] < np.inf and ready_s[device] + cost_s <= min(bound_s, best_s)):
            continue
        for processor in range(device_start[device], device_start[device + 1]):
            latest_s = min(bound_s, best_s)
            latest_s += (abs(latest_s) + abs(cost_s)) * ROUNDING - cost_s
            start_s = earliest_start(link, time, heads + processor, ready_s[device], seconds[device], latest_s)
            value_s, finish_s = start_s + cost_s, start_s + seconds[device]
            if value_s < best_s or (value_s == best_s and finish_s < best_finish_s):
                best_s, best_finish_s, best, best_start_s = value_s, finish_s, processor, start_s
    return best, best_start_s


@lean
def best_on_machines(
    slots: TaskSlots, data: ItemState, network: CopyState, task: int, offset_s: Floats, weight: float
) -> tuple[int, float]:
    """Return the processor and start of the best slot of a task on the machines that are likely to have it."""
    seconds = slots.seconds[slots.kind[task]]
    best, best_start_s = NOTHING, 0.0
    best_s, best_finish_s = np.inf, np.inf
    for number in range(choose_machines(slots, data, network, task)):
        machine = slots.chosen[number]
        first, end = slots.machine_start[machine], slots.machine_start[machine + 1]
        find_ready_times(slots, data, network, task, first, end)
        processor, start_s = best_slot(slots, task, first, end, offset_s, weight)
        if processor >= 0:
            device = slots.processor_device[processor]
            value_s = start_s + _cost(seconds[device], task, device, offset_s, weight)
            finish_s = start_s + seconds[device]
            equal = value_s == best_s and finish_s == best_finish_s
            if value_s < best_s or (value_s == best_s and finish_s < best_finish_s) or (equal and processor < best):
                best_s, best_finish_s, best, best_start_s = value_s, finish_s, processor, start_s
    return best, best_start_s


@lean
def place(slots: TaskSlots, data: ItemState, network: CopyState, task: int, processor: int, start_s: float) -> None:
    """Put a task into a slot, with the copies that it needs."""
    device = slots.processor_device[processor]
    finish_s = start_s + slots.seconds[slots.kind[task], device]
    insert_node(slots.lines.link, slots.lines.time, slots.kind.size + processor, task, start_s, finish_s)
    slots.processor[task], slots.start_s[task], slots.finish_s[task] = processor, start_s, finish_s
    _update_free(slots, device)
    if network.newest.shape[0]:
        make_items_with_copies(data, network, task, device, finish_s, slots.ready_s)
    else:
        make_items(data, task, device, finish_s)


@lean
def unplace(slots: TaskSlots, data: ItemState, network: CopyState, task: int, copies: int) -> None:
    """Undo the last `place`."""
    remove_node(slots.lines.link, slots.lines.time, slots.kind.size + slots.processor[task], task)
    _update_free(slots, slots.processor_device[slots.processor[task]])
    slots.processor[task], slots.start_s[task], slots.finish_s[task] = NOTHING, 0.0, 0.0
    unmake_items(data, network, task, copies)


@lean
def _update_free(slots: TaskSlots, device: int) -> None:
    """Find when a processor of a device is free, at the end of what is placed."""
    free_s, heads = np.inf, slots.kind.size
    for processor in range(slots.device_start[device], slots.device_start[device + 1]):
        free_s = min(free_s, slots.lines.time[heads + processor, FREE])
    slots.free_s[device] = free_s


@lean
def _cost(seconds: float, task: int, device: int, offset_s: Floats, weight: float) -> float:
    """Return the cost added to the start of a slot when slots are compared."""
    if offset_s.shape[0]:
        return float(weight * seconds + offset_s[task, device])
    return weight * seconds
