# SPDX-License-Identifier: Apache-2.0
"""List scheduling in plain Python, from the definitions, without contention: the reference for compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable

from syclsched.scheduling.problem import NOTHING, Problem

Slot = tuple[int, float]


class Reference:
    """A growing schedule: for each processor the list of busy intervals, in order."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tables = problem.tables
        self.taken: list[list[tuple[float, float]]] = [[] for _ in problem.processors]
        self.slots: dict[int, tuple[int, float, float]] = {}
        self.origin: dict[int, int] = {}
        self.made_s: dict[int, float] = {}
        for item, producer in enumerate(self.tables.item_producer.tolist()):
            if producer == NOTHING:
                self.origin[item], self.made_s[item] = int(self.tables.item_space[item]), 0.0

    def row(self, name: str, index: int) -> list[int]:
        """Return a row of ``read_item``, ``pred_task`` and so on."""
        start = getattr(self.tables, name.split("_")[0] + "_start")
        found: list[int] = getattr(self.tables, name)[start[index] : start[index + 1]].tolist()
        return found

    def arrival(self, item: int, space: int) -> float:
        """Return when an item is in a space."""
        return self.made_s[item] + self.problem.copy_seconds(
            float(self.tables.item_bytes[item]), self.origin[item], space
        )

    def ready(self, task: int, device: int) -> float:
        """Return when a task's inputs are on a device, as far as they have been made."""
        times = [float(self.tables.release_s[task])]
        times += [self.slots[before][2] for before in self.row("pred_task", task) if before in self.slots]
        spaces = self.row("reach_space", device)
        times += [
            min([self.arrival(item, s) for s in spaces]) for item in self.row("read_item", task) if item in self.origin
        ]
        return max(times)

    def earliest(self, processor: int, ready_s: float, seconds: float, *, insertion: bool = True) -> float:
        """Return the first start at which a task fits."""
        ends = [0.0, *[end for _, end in self.taken[processor]]]
        starts = [*[start for start, _ in self.taken[processor]], math.inf]
        gaps = zip(ends, starts, strict=True) if insertion else [(ends[-1], math.inf)]
        return next(max(a, ready_s) for a, b in gaps if max(a, ready_s) + seconds <= b)

    def options(self, task: int, *, insertion: bool = True) -> list[tuple[float, float, int, int]]:
        """Return start, seconds, device and processor of every possible slot of a task."""
        found = []
        for processor, (device, _) in enumerate(self.problem.processors):
            seconds = float(self.tables.seconds[self.tables.kind[task], device])
            ready_s = self.ready(task, device) if seconds < math.inf else math.inf
            if ready_s < math.inf:
                start_s = self.earliest(processor, ready_s, seconds, insertion=insertion)
                found.append((start_s, seconds, device, processor))
        return found

    def place(self, task: int, processor: int, start_s: float) -> None:
        """Place a task into a slot."""
        device = self.problem.processors[processor][0]
        finish_s = start_s + float(self.tables.seconds[self.tables.kind[task], device])
        self.taken[processor].append((start_s, finish_s))
        self.taken[processor].sort()
        self.slots[task] = processor, start_s, finish_s
        spaces = self.row("reach_space", device)
        first = self.tables.make_start[task]
        for index, item in enumerate(self.row("make_item", task)):
            old = int(self.tables.make_replaces[first + index])
            space = spaces[0]
            if old != NOTHING:
                origin = self.origin[old]
                space = origin if origin in spaces else min(spaces, key=lambda s: self.arrival(old, s))
            self.origin[item], self.made_s[item] = space, finish_s

    def list_schedule(self, ranks: list[float], choose: Callable[[int], Slot | None]) -> None:
        """Place ready tasks by falling rank, priority and submission, until one has no slot."""
        while ready := self.ready_tasks():
            task = min(ready, key=lambda t: (-ranks[t], *self.tie(t)))
            slot = choose(task)
            if slot is None:
                return
            self.place(task, *slot)

    def ready_tasks(self) -> list[int]:
        """Return tasks whose predecessors have all been placed."""
        left = [task for task in range(len(self.problem)) if task not in self.slots]
        return [task for task in left if all(b in self.slots for b in self.row("pred_task", task))]

    def tie(self, task: int) -> tuple[int, int]:
        """Return the key that orders equal tasks."""
        return -int(self.tables.priority[task]), int(self.tables.submission[task])


def upward_ranks(problem: Problem) -> list[float]:
    """Return the ranks of HEFT, by recursion from the end."""
    tables = problem.tables
    latency_s, s_per_byte = problem.mean_copy_line()
    ranks = [0.0] * len(problem)
    for task in reversed(range(len(problem))):
        able = [s for s in tables.seconds[tables.kind[task]].tolist() if s < math.inf]
        after = [0.0]
        for arc in range(tables.succ_start[task], tables.succ_start[task + 1]):
            copy_s = tables.succ_copies[arc] * latency_s + tables.succ_bytes[arc] * s_per_byte
            after.append(float(copy_s) + ranks[tables.succ_task[arc]])
        ranks[task] = sum(able) / len(able) + max(after)
    return ranks


def heft(problem: Problem) -> Reference:
    """Return the schedule of HEFT."""
    reference = Reference(problem)

    def choose(task: int) -> Slot | None:
        options = reference.options(task)
        if not options:
            return None
        start_s, _, _, processor = min(options, key=lambda o: o[0] + o[1])
        return processor, start_s

    reference.list_schedule(upward_ranks(problem), choose)
    return reference
