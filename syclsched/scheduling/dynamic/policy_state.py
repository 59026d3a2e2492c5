# SPDX-License-Identifier: Apache-2.0
"""State that a dynamic policy sees when it decides: plain data, the same on the virtual clock and in a live run.

Policies read it and return decisions, which the run's loop (`syclsched.scheduling.dynamic.run_loop`) carries out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING

#: An overdue task is expected to take this share of its estimate longer.
OVERDUE = 0.5


@dataclass(frozen=True, slots=True)
class StaticInfo:
    """Static information, known before the run. Tasks, devices, processors, spaces and items are indices from 0."""

    seconds: tuple[tuple[float, ...], ...]  # estimated time of each task on each device; infinity where it cannot run
    reads: tuple[tuple[int, ...], ...]  # the items that each task reads
    nbytes: tuple[float, ...]  # the size of each item
    reaches: tuple[tuple[int, ...], ...]  # the spaces that each device can address, its home first
    #: Costs of a copy from one space (first index) to another.
    latency_s: tuple[tuple[float, ...], ...]
    s_per_byte: tuple[tuple[float, ...], ...]
    device_of: tuple[int, ...]  # the device of each processor
    level: tuple[int, ...]  # urgency of each task: smaller is earlier, equal levels are equally urgent
    #: The planned processor of each task, where there is a plan; its inputs are copied there as soon as they are made.
    planned: tuple[int, ...] | None = None
    #: The kind of each task: tasks of one kind have equal estimates, and measurements of one correct the estimates of
    #: the others.
    kind: tuple[int, ...] = ()

    def copy_s(self, item: int, source: int, destination: int) -> float:
        """Return the seconds of a copy of an item; infinity without a route."""
        nbytes = self.nbytes[item]
        if source == destination or not nbytes:
            return 0.0
        return self.latency_s[source][destination] + nbytes * self.s_per_byte[source][destination]


@dataclass(slots=True)
class LaneState:
    """State of one processor."""

    #: The task it runs; `NOTHING` if it can take one. In a live run a lane has several tasks in flight, so that it
    #: never runs dry, and takes more until it has enough.
    running: int
    until_s: float  # estimated end of its submitted tasks
    queue: list[int]  # ready tasks bound to it that have not started, in the policy's order
    queued_s: float  # estimated seconds of the queue
    ahead: list[int]  # with a plan: the tasks planned for this lane that have not started, by level


@dataclass(slots=True)
class PolicyState:
    """State of the run at one moment. Policies must not change it."""

    known: StaticInfo  # static information
    now_s: float  # current time
    #: Ready tasks that are bound to no lane, by level, then in the order in which they became ready.
    ready: list[int]
    ready_on: list[int]  # for each device, the number of ready tasks it can run
    lanes: list[LaneState]  # by processor
    where: list[dict[int, float]]  # for each item the spaces that have it or will, with arrival times
    origin: list[int]  # for each item the space it was made in; `NOTHING` if it has not been made
    #: For each task the processor on which its last predecessor ended; `NOTHING` for tasks without predecessors.
    released_by: list[int]
    drift: list[float]  # for each device, measured over estimated time of its tasks so far
    #: Deviation from the estimates of the finished tasks: sum of deviations over sum of estimates.
    deviation: float
    gone: set[int] = field(default_factory=set)  # failed devices
    lost_spaces: set[int] = field(default_factory=set)  # spaces lost with them
    #: For each kind and device the `drift` of that kind alone; 0 with too few measurements.
    correction: list[list[float]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list, repr=False, compare=False)  # for rules: what they decide

    def seconds(self, task: int, device: int) -> float:
        """Return the estimated seconds of a task on a device, corrected by measurements there.

        Infinity where it cannot run, or the device has failed.
        """
        if device in self.gone:
            return math.inf
        known = self.known
        factor = self.correction[known.kind[task]][device] if self.correction else 0.0
        return known.seconds[task][device] * (factor or self.drift[device])

    def busy_s(self, processor: int) -> float:
        """Return when a lane should have finished its submitted tasks; now for an idle one."""
        lane = self.lanes[processor]
        if lane.until_s > self.now_s:
            return lane.until_s
        if lane.running == NOTHING:
            return self.now_s
        return self.now_s + OVERDUE * self.seconds(lane.running, self.known.device_of[processor])

    def free_s(self, processor: int) -> float:
        """Return when a lane should have finished its submitted and queued tasks."""
        return self.busy_s(processor) + self.lanes[processor].queued_s * self.drift[self.known.device_of[processor]]

    def transfer_s(self, task: int, device: int) -> float:
        """Return the seconds of the copies that a task still needs on a device; infinity without a route."""
        known, total_s = self.known, 0.0
        reached = known.reaches[device]
        for item in known.reads[task]:
            if self.where[item].keys().isdisjoint(reached):
                origin = self.origin[item]
                total_s += min([self._copy_s(item, origin, space) for space in reached])
        return total_s

    def arrival_s(self, task: int, device: int) -> float:
        """Return when all data of a task should be on a device, if missing data is fetched now."""
        known, last_s = self.known, self.now_s
        reached = known.reaches[device]
        for item in known.reads[task]:
            locations = self.where[item]
            first_s = min([locations.get(space, math.inf) for space in reached])
            if first_s == math.inf:
                origin = self.origin[item]
                made_s = locations[origin] if locations[origin] > self.now_s else self.now_s
                first_s = made_s + min([self._copy_s(item, origin, space) for space in reached])
            last_s = max(last_s, first_s)
        return last_s

    def resident_bytes(self, task: int, device: int) -> float:
        """Return the bytes of a task's inputs that a device can read now."""
        known, now_s = self.known, self.now_s
        reached = known.reaches[device]
        return sum(
            known.nbytes[item]
            for item in known.reads[task]
            if any(self.where[item].get(space, math.inf) <= now_s for space in reached)
        )

    def shares_memory(self, device: int, other: int) -> bool:
        """Return whether a device can address the home space of another."""
        return self.known.reaches[other][0] in self.known.reaches[device]

    def can_run(self, task: int, device: int) -> bool:
        """Return whether a device can run a ready task and its data can be copied there."""
        return self.seconds(task, device) < math.inf and self.transfer_s(task, device) < math.inf

    def _copy_s(self, item: int, source: int, destination: int) -> float:
        """Return the seconds of a copy; infinity without a route or if the destination is lost."""
        if destination in self.lost_spaces:
            return math.inf
        return self.known.copy_s(item, source, destination)


class Decision(NamedTuple):
    """Decision of a policy about one task."""

    task: int  # a ready task, or one in some lane's queue
    processor: int  # the lane to bind it to, or to start it on
    #: True to start it on that lane now, which must be idle; False to put it into the lane's queue, so that its data is
    #: fetched in the meantime.
    start: bool


class DynamicPolicy(Protocol):
    """Policy that decides while tasks run. It must be pure: equal states give equal decisions, and stay unchanged."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Name that users type."""
        ...

    @property
    def sorts_queues(self) -> bool:
        """Whether queues are sorted by level; else by order of binding."""
        ...

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information that the policy uses, for a problem with estimated times."""
        ...

    def decide(self, state: PolicyState) -> list[Decision]:
        """Return the decisions to execute now, in order; called again until there are none."""
        ...
