# SPDX-License-Identifier: Apache-2.0
"""Which tasks of a model devices have no room for, under a limit on memory: the host does these."""

from __future__ import annotations

from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform


def without_room(graph: TaskGraph, platform: Platform) -> frozenset[str]:
    """Return the tasks that devices have no room for.

    A task needs all it touches at once, and its constants stay for as long as the plan is bound. So what alone is too
    large is left out first; of the rest, tasks are taken, those with the least constants first, for as long as there is
    room for their constants beside the largest of them.
    """
    homes = {device.space for device in platform.compute_devices}
    capacities = [space.capacity_bytes for space in platform.spaces if space.name in homes]
    if not capacities or not all(capacities):
        return frozenset()
    room = max(capacities)
    arrays = graph.arrays
    touched = {
        task.name: sum(arrays[name].nbytes for name in {access.array for access in task.accesses})
        for task in graph.tasks
    }
    fitting = [task for task in graph.tasks if touched[task.name] <= room]
    largest = max((touched[task.name] for task in fitting), default=0)
    held: set[Constant] = set()
    held_bytes = 0
    kept = set()
    for task in sorted(fitting, key=lambda each: sum(c.nbytes for c in each.constants.values())):
        more = set(task.constants.values()) - held
        needed = held_bytes + sum(constant.nbytes for constant in more)
        if needed + largest <= room:
            held |= more
            held_bytes = needed
            kept.add(task.name)
    return frozenset(touched.keys() - kept)
