# SPDX-License-Identifier: Apache-2.0
"""Machines worth trying for a task: those that have its data, and those where it would finish first without copies."""

from __future__ import annotations

from typing import Final

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.core.channels import DESTINATION
from syclsched.scheduling.core.partial_schedule import FREE_FIRST, HOLDERS, CopyState, ItemState, TaskSlots
from syclsched.scheduling.tables import Ints

#: On up to this many machines all are tried.
ALL_MACHINES: Final = 8


@lean
def choose_machines(slots: TaskSlots, data: ItemState, network: CopyState, task: int) -> int:
    """Write the machines worth trying for a task into ``slots.chosen``; return how many there are."""
    chosen = slots.chosen
    count = _free_first(slots, task)
    most = count + HOLDERS
    for row in range(data.read_start[task], data.read_start[task + 1]):
        item = data.read_item[row]
        if data.origin[item] < 0 or data.item_bytes[item] == 0.0:
            continue
        count = _add(chosen, count, most, data.space_machine[data.origin[item]])
        copy = network.newest[item] if network.newest.shape[0] else -1
        while copy >= 0 and count < most:
            count = _add(chosen, count, most, data.space_machine[network.what[copy, DESTINATION]])
            copy = network.earlier[copy]
    return count


@lean
def _add(chosen: Ints, count: int, most: int, machine: int) -> int:
    """Add a machine that is not chosen yet; return how many there are then."""
    if machine < 0 or count == most:
        return count
    for place in range(count):
        if chosen[place] == machine:
            return count
    chosen[count] = machine
    return count + 1


@lean
def _free_first(slots: TaskSlots, task: int) -> int:
    """Write the machines where a task would finish first if its data were there; return how many there are."""
    seconds, free_s = slots.seconds[slots.kind[task]], slots.free_s
    after_s = slots.release_s[task]
    for arc in range(slots.pred_start[task], slots.pred_start[task + 1]):
        after_s = max(after_s, slots.finish_s[slots.pred_task[arc]])
    chosen, least_s, count = slots.chosen, slots.chosen_s, 0
    for place in range(FREE_FIRST):
        least_s[place] = np.inf
    for machine in range(slots.machine_start.shape[0] - 1):
        finish_s = np.inf
        for device in range(slots.machine_start[machine], slots.machine_start[machine + 1]):
            finish_s = min(finish_s, max(free_s[device], after_s) + seconds[device])
        if finish_s < least_s[FREE_FIRST - 1]:
            place = min(count, FREE_FIRST - 1)
            while place > 0 and finish_s < least_s[place - 1]:
                least_s[place], chosen[place] = least_s[place - 1], chosen[place - 1]
                place -= 1
            least_s[place], chosen[place] = finish_s, machine
            count = min(count + 1, FREE_FIRST)
    return count
