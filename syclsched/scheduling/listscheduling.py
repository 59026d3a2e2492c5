# SPDX-License-Identifier: Apache-2.0
"""The engine of list scheduling: take tasks in an order, put each where it suits best.

A list-scheduling policy is an order of tasks (a rank) and a choice of processor. The engine does the rest: when data is
where, which gaps are free, what may come next.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from syclsched.errors import PolicyError
from syclsched.model.schedule import Assignment, Schedule
from syclsched.scheduling.placement import Placement
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timeline import Timeline

#: A device that can run a task: device, its column in `Placement`, seconds the task takes there, its lanes. A plain
#: tuple, because there is one for each task and device.
Option = tuple[int, int, float, tuple[int, ...]]
Options = tuple[Option, ...]


class Slot(NamedTuple):
    """A place and a time for a task; ``processor`` is -1 if there is none."""

    processor: int
    start_s: float
    finish_s: float


class PartialSchedule:
    """A schedule that grows task by task.

    Parameters
    ----------
    problem : Problem
        What is being scheduled.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.placement = Placement(problem)
        self.timelines = [Timeline() for _ in problem.processors]
        self.slots: list[Slot | None] = [None] * len(problem)
        self.options = _options(problem, self.placement)
        self._finish_s = [0.0] * len(problem)
        self._controls = [tuple({arc.task: None for arc in arcs if arc.kind != "RAW"}) for arcs in problem.predecessors]

    def earliest_finish(self, task: int, options: Options) -> Slot:
        """Return where and when a task finishes first.

        Parameters
        ----------
        task : int
            A task whose predecessors have all been placed.
        options : Options
            The devices to choose from.

        Returns
        -------
        Slot
            The first of equals, in the order of the options.
        """
        after_s = 0.0
        finish_s = self._finish_s
        for before in self._controls[task]:
            if finish_s[before] > after_s:
                after_s = finish_s[before]
        ready = self.placement.ready(task)
        timelines = self.timelines
        best_finish = math.inf
        best_start = 0.0
        best_processor = -1
        for _, column, seconds, processors in options:
            ready_s = after_s
            if ready is not None and ready[column] > after_s:
                ready_s = ready[column]
            if ready_s + seconds >= best_finish:
                continue
            for processor in processors:
                timeline = timelines[processor]
                start = ready_s if ready_s >= timeline.tail else timeline.earliest(ready_s, seconds, best_finish)
                finish = start + seconds
                if finish < best_finish:
                    best_finish, best_start, best_processor = finish, start, processor
        return Slot(best_processor, best_start, best_finish)

    def place(self, task: int, slot: Slot) -> None:
        """Put a task into a slot that `earliest_finish` found for it."""
        self.timelines[slot.processor].take(slot.start_s, slot.finish_s)
        self.placement.place(task, self.problem.processors[slot.processor][0], slot.finish_s)
        self._finish_s[task] = slot.finish_s
        self.slots[task] = slot

    def schedule(self, policy: str) -> Schedule:
        """Return what has been placed, in order of start.

        Parameters
        ----------
        policy : str
            The name of the policy.

        Returns
        -------
        Schedule
            Its order respects dependencies: tasks that start together stand in topological order.
        """
        placed = [(slot.start_s, task, slot) for task, slot in enumerate(self.slots) if slot is not None]
        placed.sort()
        problem = self.problem
        assignments = []
        for start_s, task, slot in placed:
            device, lane = problem.processors[slot.processor]
            assignments.append(
                Assignment(
                    task=problem.names[task],
                    device=problem.devices[device],
                    lane=lane,
                    implementation=problem.implementations[task][device],
                    start_s=start_s,
                    finish_s=slot.finish_s,
                )
            )
        return Schedule(policy, tuple(assignments))


def list_schedule(problem: Problem, ranks: Sequence[float], policy: str, *, preferred: int | None = None) -> Schedule:
    """Schedule tasks by falling rank, each where it finishes first, with insertion.

    Parameters
    ----------
    problem : Problem
        What is to be scheduled.
    ranks : sequence of float
        By task. Equal ranks go by priority, then by order of submission; a task never goes before its predecessors.
    policy : str
        The name of the policy.
    preferred : int, optional
        A device that runs everything it can; other devices get the rest only.

    Returns
    -------
    Schedule
        One assignment per task.

    Raises
    ------
    PolicyError
        If the data of a task cannot be brought to any device that can run it.
    """
    partial = PartialSchedule(problem)
    keys = [
        (-rank, -priority, position)
        for rank, priority, position in zip(ranks, problem.priorities, problem.submission, strict=True)
    ]
    waiting = [len(arcs) for arcs in problem.predecessors]
    ready = [(keys[task], task) for task, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    while ready:
        task = heapq.heappop(ready)[1]
        slot = _choose(partial, task, preferred)
        if slot.processor < 0:
            raise _unreachable(problem, task)
        partial.place(task, slot)
        for arc in problem.successors[task]:
            waiting[arc.task] -= 1
            if waiting[arc.task] == 0:
                heapq.heappush(ready, (keys[arc.task], arc.task))
    return partial.schedule(policy)


def _choose(partial: PartialSchedule, task: int, preferred: int | None) -> Slot:
    options = partial.options[task]
    if preferred is not None:
        wanted = tuple([option for option in options if option[0] == preferred])
        slot = partial.earliest_finish(task, wanted)
        if slot.processor >= 0:
            return slot
    return partial.earliest_finish(task, options)


def _options(problem: Problem, placement: Placement) -> list[Options]:
    lanes: list[list[int]] = [[] for _ in problem.devices]
    for processor, (device, _) in enumerate(problem.processors):
        lanes[device].append(processor)
    where = [(device, placement.column[device], tuple(found)) for device, found in enumerate(lanes) if found]
    made: dict[tuple[float, ...], Options] = {}
    options: list[Options] = []
    for row in map(tuple, problem.seconds.tolist()):
        if row not in made:
            made[row] = tuple(
                [(device, column, row[device], here) for device, column, here in where if row[device] < math.inf]
            )
        options.append(made[row])
    return options


def _unreachable(problem: Problem, task: int) -> PolicyError:
    able = [
        name
        for name, seconds in zip(problem.devices, problem.seconds[task].tolist(), strict=True)
        if seconds < math.inf
    ]
    return PolicyError(
        f"its data cannot be brought to any device that can run it ({', '.join(able) or 'there is none'})",
        where=f"task {problem.names[task]!r}",
        hint="Describe links from the other memory spaces to these devices' spaces, or through the host's memory",
    )
