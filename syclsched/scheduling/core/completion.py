# SPDX-License-Identifier: Apache-2.0
"""Max-min and sufferage scheduling of ready tasks by their best and second best completion times.

The best and the second best device of each ready task are cached, and recomputed only for tasks that have the device of
the last placed task among the two. A step still scans all ready tasks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.core.greedy import first_free
from syclsched.scheduling.core.insertion import find_ready_times, place
from syclsched.scheduling.core.partial_schedule import PartialSchedule, TaskSlots
from syclsched.scheduling.core.timelines import FREE
from syclsched.scheduling.tables import NOTHING, Floats, Ints

#: Columns of the two best devices of each task.
_BEST, _SECOND = 0, 1


class _ReadyTasks(NamedTuple):
    """Ready tasks, and the devices on which they complete first."""

    task: Ints  # the ready tasks, in no order
    data_s: Floats  # arrival of a ready task's data on each device
    free_s: Floats  # when each device has finished its tasks
    best_s: Floats  # best and second best completion time of a ready task
    best_device: Ints  # the devices of these two


def make_ready_tasks(tasks: int, devices: int) -> _ReadyTasks:
    """Return space for all tasks, none of them ready."""
    pairs = (tasks, 2)
    table = np.empty((tasks, devices))
    return _ReadyTasks(np.empty(tasks, np.int64), table, np.zeros(devices), np.empty(pairs), np.empty(pairs, np.int64))


@lean
def place_by_completion(
    state: PartialSchedule,
    ready: _ReadyTasks,
    waiting: Ints,
    succ_start: Ints,
    succ_task: Ints,
    places: Ints,
    sufferage: bool,
) -> int:
    """Schedule ready tasks one at a time on the device on which each completes first, without insertion."""
    slots, data, network = state.slots, state.data, state.network
    tasks, devices = slots.kind.size, slots.seconds.shape[1]
    count = 0
    for task in range(tasks):
        if waiting[task] == 0:
            ready.task[count] = task
            count += 1
    changed, fresh = NOTHING, 0
    while count:
        for index in range(fresh, count):
            task = ready.task[index]
            find_ready_times(slots, data, network, task, 0, devices)
            for device in range(devices):
                ready.data_s[task, device] = slots.ready_s[device]
            _find_two_best(slots, ready, task)
            if ready.best_device[task, _BEST] < 0:
                return int(task)
        chosen = _choose(slots, ready, count, changed, places, sufferage)
        task = ready.task[chosen]
        changed = ready.best_device[task, _BEST]
        count -= 1
        ready.task[chosen] = ready.task[count]
        fresh = count
        processor = first_free(slots, changed)
        find_ready_times(slots, data, network, task, changed, changed + 1)
        start_s = max(slots.ready_s[changed], slots.lines.time[tasks + processor, FREE])
        place(slots, data, network, task, processor, start_s)
        ready.free_s[changed] = slots.lines.time[tasks + first_free(slots, changed), FREE]
        for arc in range(succ_start[task], succ_start[task + 1]):
            waiting[succ_task[arc]] -= 1
            if waiting[succ_task[arc]] == 0:
                ready.task[count] = succ_task[arc]
                count += 1
    return NOTHING


@lean
def _choose(slots: TaskSlots, ready: _ReadyTasks, count: int, changed: int, places: Ints, sufferage: bool) -> int:
    """Return the index of the ready task to place next; the time of the device ``changed`` is new."""
    chosen, chosen_value = NOTHING, 0.0
    for index in range(count):
        task = ready.task[index]
        if ready.best_device[task, _BEST] == changed or ready.best_device[task, _SECOND] == changed:
            _find_two_best(slots, ready, task)
        value = ready.best_s[task, _BEST]
        if sufferage:
            value = ready.best_s[task, _SECOND] - value
        earlier = chosen >= 0 and value == chosen_value and places[task] < places[ready.task[chosen]]
        if chosen < 0 or value > chosen_value or earlier:
            chosen, chosen_value = index, value
    return chosen


@lean
def _find_two_best(slots: TaskSlots, ready: _ReadyTasks, task: int) -> None:
    """Find the two devices on which a task completes first; infinity and `NOTHING` where there are fewer."""
    best_s, best_device = ready.best_s[task], ready.best_device[task]
    best_s[:], best_device[:] = np.inf, NOTHING
    for device in range(slots.seconds.shape[1]):
        finish_s = max(ready.data_s[task, device], ready.free_s[device]) + slots.seconds[slots.kind[task], device]
        if finish_s < best_s[_BEST]:
            best_s[_SECOND], best_device[_SECOND] = best_s[_BEST], best_device[_BEST]
            best_s[_BEST], best_device[_BEST] = finish_s, device
        elif finish_s < best_s[_SECOND]:
            best_s[_SECOND], best_device[_SECOND] = finish_s, device
