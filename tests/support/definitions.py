# SPDX-License-Identifier: Apache-2.0
"""Metrics of timetables computed by their definitions, one item and one instant at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np

from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import frozen
from syclsched.scheduling.timetable import Timetable


def with_tables(problem: Problem, **columns: object) -> Problem:
    """Return the same problem with some columns of its tables replaced."""
    return replace(problem, tables=frozen(problem.tables._replace(**columns)))


class ItemPlacements:
    """The places of every item over time, followed task by task."""

    def __init__(self, problem: Problem, timetable: Timetable) -> None:
        self.problem, self.timetable = problem, timetable
        self.t = problem.tables
        self.device = [int(self.t.processor_device[p]) for p in timetable.processor]
        self.host = problem.spaces.index("host") if "host" in problem.spaces else -1
        self.origin: dict[int, int] = {}
        self.made_s: dict[int, float] = {}
        self.owned: dict[int, bool] = {}
        self.in_place: set[int] = set()
        for item in range(len(self.t.item_bytes)):
            if self.t.item_producer[item] < 0:
                self.origin[item], self.made_s[item], self.owned[item] = int(self.t.item_space[item]), 0.0, True
        for task in range(len(problem)):
            for row in range(self.t.make_start[task], self.t.make_start[task + 1]):
                item, old = int(self.t.make_item[row]), int(self.t.make_replaces[row])
                self.made_s[item] = float(timetable.finish_s[task])
                if old < 0:
                    self.origin[item], self.owned[item] = self.reach(task)[0], False
                else:
                    self.in_place.add(item)
                    self.origin[item] = self.read_in(old, task)
                    self.owned[item] = self.owned[old] and self.origin[item] == self.origin[old]

    def reach(self, task: int) -> list[int]:
        device = self.device[task]
        return self.t.reach_space[self.t.reach_start[device] : self.t.reach_start[device + 1]].tolist()

    def ready_s(self, item: int, space: int) -> float:
        if space == self.origin[item] or self.t.item_bytes[item] == 0:
            return self.made_s[item]
        if self.problem.has_channels:
            copies = self.timetable.copies
            assert copies is not None
            found = (copies.item == item) & (copies.destination == space)
            return float(copies.finish_s[found].min(initial=math.inf))
        return self.made_s[item] + self.problem.copy_seconds(self.t.item_bytes[item], self.origin[item], space)

    def read_in(self, item: int, task: int) -> int:
        if self.origin[item] in self.reach(task):
            return self.origin[item]
        return min(self.reach(task), key=lambda space: self.ready_s(item, space))

    def readers(self, item: int, space: int) -> list[int]:
        found = []
        for task in range(len(self.problem)):
            read = self.t.read_item[self.t.read_start[task] : self.t.read_start[task + 1]].tolist()
            if item in read and self.read_in(item, task) == space:
                found.append(task)
        return found

    def copies_of(self, item: int) -> dict[int, tuple[float, float]]:
        """Return start and finish of the copies of an item, by destination."""
        t, found = self.t, {}
        if t.item_bytes[item] == 0:
            return {}
        if self.problem.has_channels:
            c = self.timetable.copies
            assert c is not None
            return {
                int(c.destination[k]): (float(c.start_s[k]), float(c.finish_s[k]))
                for k in np.flatnonzero(c.item == item)
            }
        wanted = {int(s) for i, s in zip(t.want_item, t.want_space, strict=True) if i == item}
        for space in range(len(self.problem.spaces)):
            readers = self.readers(item, space)
            if space == self.origin[item] or not (readers or space in wanted):
                continue
            soonest_s = self.ready_s(item, space)
            complete_s = soonest_s
            if space not in wanted and space != self.host:
                complete_s = min(float(self.timetable.start_s[r]) for r in readers)
            found[space] = (complete_s - (soonest_s - self.made_s[item]), complete_s)
        return found

    def blocks(self, done_s: float) -> list[tuple[int, float, float, float]]:
        """Yield (space, bytes, begin, end) of everything that occupies memory."""
        t, found = self.t, []
        for item in range(len(t.item_bytes)):
            origin, nbytes, copies = self.origin[item], float(t.item_bytes[item]), self.copies_of(item)
            wanted = {int(s) for i, s in zip(t.want_item, t.want_space, strict=True) if i == item}
            for space in {origin, *copies}:
                uses = [float(self.timetable.finish_s[r]) for r in self.readers(item, space)]
                if space in wanted or (space == origin and item in self.problem.lasting):
                    uses.append(done_s)
                if space == origin:
                    if self.owned[item]:
                        if t.item_producer[item] < 0 and origin != self.host:
                            found.append((space, nbytes, -math.inf, math.inf))
                        continue
                    begin_s = self.made_s[item]
                    if item not in self.in_place:
                        begin_s = float(self.timetable.start_s[t.item_producer[item]])
                    uses += [self.made_s[item], *(finish_s for _, finish_s in copies.values())]
                else:
                    begin_s = copies[space][0]
                    uses.append(copies[space][1])
                found.append((space, nbytes, begin_s, max(uses)))
        return found

    def peak_bytes(self, done_s: float) -> dict[str, float]:
        blocks = self.blocks(done_s)
        instants = {begin_s for _, _, begin_s, _ in blocks}
        peak = {}
        for space, name in enumerate(self.problem.spaces):
            held = [sum(b for s, b, begin, end in blocks if s == space and begin <= at < end) for at in instants]
            peak[name] = max(held, default=0.0)
        return peak

    def energy_j(self, done_s: float) -> float:
        """Return the energy, computed over the intervals between all starts and finishes."""
        cuts = sorted({0.0, done_s, *self.timetable.start_s.tolist(), *self.timetable.finish_s.tolist()})
        total = 0.0
        for device in range(len(self.problem.devices)):
            mine = [task for task in range(len(self.problem)) if self.device[task] == device]
            for a, b in pairwise(cuts):
                if a >= done_s:
                    continue
                busy = any(self.timetable.start_s[k] <= a and b <= self.timetable.finish_s[k] for k in mine)
                total += (b - a) * float((self.t.busy_w if busy else self.t.idle_w)[device])
        return total
