# SPDX-License-Identifier: Apache-2.0
"""Host fallback under a memory limit: the tasks of a model that do not fit into device memory."""

from __future__ import annotations

from syclsched.model.constant import Constant
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform


def oversized_tasks(graph: TaskGraph, platform: Platform) -> frozenset[str]:
    """Return the tasks that do not fit into the memory of any device.

    A task needs all its arrays at once, and its constants for as long as the plan is bound. Tasks that are too large
    alone are left out first; the others are accepted by ascending bytes of constants, while all accepted constants fit
    beside the largest task.
    """
    homes = {device.space for device in platform.compute_devices}
    capacities = [space.capacity_bytes for space in platform.spaces if space.name in homes]
    if not capacities or not all(capacities):
        return frozenset()
    capacity = max(capacities)
    arrays = graph.arrays
    touched = {
        task.name: sum(arrays[name].nbytes for name in {access.array for access in task.accesses})
        for task in graph.tasks
    }
    fitting = [task for task in graph.tasks if touched[task.name] <= capacity]
    largest = max((touched[task.name] for task in fitting), default=0)
    held: set[Constant] = set()
    held_bytes = 0
    kept = set()
    for task in sorted(fitting, key=lambda each: sum(c.nbytes for c in each.constants.values())):
        more = set(task.constants.values()) - held
        needed = held_bytes + sum(constant.nbytes for constant in more)
        if needed + largest <= capacity:
            held |= more
            held_bytes = needed
            kept.add(task.name)
    return frozenset(touched.keys() - kept)
