# SPDX-License-Identifier: Apache-2.0
"""What a dynamic policy sees when it decides: plain data, the same on the virtual clock and in a live run.

Policies read it and return decisions; whoever runs the tasks (`syclsched.scheduling.dynamic.loop` on the virtual clock)
carries them out and keeps the state up to date.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING

#: A task that has run longer than it should is expected to take this share of its estimate more.
_OVERDUE = 0.5


@dataclass(frozen=True, slots=True)
class Known:
    """What is known before the run. Tasks, devices, processors, spaces and items are indices from 0."""

    seconds: tuple[tuple[float, ...], ...]  # for each task and device the estimated time; infinity where it cannot run
    reads: tuple[tuple[int, ...], ...]  # for each task the items it needs
    nbytes: tuple[float, ...]  # the size of each item
    reaches: tuple[tuple[int, ...], ...]  # for each device the spaces it can address, its home first
    #: What a copy takes from one space (first index) to another.
    latency_s: tuple[tuple[float, ...], ...]
    s_per_byte: tuple[tuple[float, ...], ...]
    device_of: tuple[int, ...]  # the device of each processor
    level: tuple[int, ...]  # for each task how early the policy wants it: smaller is earlier, equals are equally urgent
    #: For each task the processor it is meant for, where there is a plan; its inputs are brought there as soon as they
    #: are made.
    planned: tuple[int, ...] | None = None
    #: For each task its kind: tasks that the estimates cannot tell apart. What is measured of one corrects the
    #: estimates of the others.
    kind: tuple[int, ...] = ()

    def copy_s(self, item: int, source: int, destination: int) -> float:
        """Return the seconds of a copy of an item; infinity if there is no way."""
        nbytes = self.nbytes[item]
        if source == destination or not nbytes:
            return 0.0
        return self.latency_s[source][destination] + nbytes * self.s_per_byte[source][destination]


@dataclass(slots=True)
class Lane:
    """One processor."""

    #: The task it has been given; `NOTHING` if it can be given one. In a live run a lane takes some ahead, so that it
    #: never runs dry, and is given more until it has enough.
    running: int
    until_s: float  # when what it has been given ends, by the estimates
    queue: list[int]  # ready tasks that are bound to it and have not been started, in the policy's order
    queued_s: float  # their estimated seconds
    ahead: list[int]  # where there is a plan: the tasks meant for this lane that have not been started, by level


@dataclass(slots=True)
class State:
    """The run at one moment. Policies must not change it."""

    known: Known  # what was known before
    now_s: float  # the time
    #: Tasks that can start and are bound to no lane, by level, then in the order in which they became ready.
    ready: list[int]
    ready_on: list[int]  # for each device how many of them it can run
    lanes: list[Lane]  # by processor
    where: list[dict[int, float]]  # for each item the spaces it is in, or on its way to, and since (or from) when
    origin: list[int]  # for each item the space it was made in; `NOTHING` if it has not been made
    #: For each task the processor on which the last of its predecessors ended; `NOTHING` for those without.
    released_by: list[int]
    drift: list[float]  # for each device how many times longer than estimated its tasks take, as measured so far
    #: How far off the estimates of the tasks that have ended were: sum of deviations over sum of estimates.
    deviation: float
    gone: set[int] = field(default_factory=set)  # the devices that have failed
    lost_spaces: set[int] = field(default_factory=set)  # the spaces that were lost with them
    #: For each kind and device the same as `drift` of that kind alone; 0 where too little was measured.
    correction: list[list[float]] = field(default_factory=list)

    def seconds(self, task: int, device: int) -> float:
        """Return what a task should take on a device, corrected by what has been measured there.

        Infinity where it cannot run, or cannot any more.
        """
        if device in self.gone:
            return math.inf
        known = self.known
        factor = self.correction[known.kind[task]][device] if self.correction else 0.0
        return known.seconds[task][device] * (factor or self.drift[device])

    def busy_s(self, processor: int) -> float:
        """Return when a lane should have done what it has been given; now for one that is idle."""
        lane = self.lanes[processor]
        if lane.until_s > self.now_s:
            return lane.until_s
        if lane.running == NOTHING:
            return self.now_s
        return self.now_s + _OVERDUE * self.seconds(lane.running, self.known.device_of[processor])

    def free_s(self, processor: int) -> float:
        """Return when a lane should have done all it has."""
        return self.busy_s(processor) + self.lanes[processor].queued_s * self.drift[self.known.device_of[processor]]

    def transfer_s(self, task: int, device: int) -> float:
        """Return the seconds of the copies that a task still needs on a device; infinity if there is no way."""
        known, total_s = self.known, 0.0
        reached = known.reaches[device]
        for item in known.reads[task]:
            there = self.where[item]
            if not any(space in there for space in reached):
                origin = self.origin[item]
                total_s += min([self._copy_s(item, origin, space) for space in reached])
        return total_s

    def arrival_s(self, task: int, device: int) -> float:
        """Return when all data of a task should be on a device, if what is missing is fetched now."""
        known, last_s = self.known, self.now_s
        reached = known.reaches[device]
        for item in known.reads[task]:
            there = self.where[item]
            first_s = min([there.get(space, math.inf) for space in reached])
            if first_s == math.inf:
                origin = self.origin[item]
                made_s = there[origin] if there[origin] > self.now_s else self.now_s
                first_s = made_s + min([self._copy_s(item, origin, space) for space in reached])
            last_s = max(last_s, first_s)
        return last_s

    def resident_bytes(self, task: int, device: int) -> float:
        """Return how much of a task's data a device can read now."""
        known, now_s = self.known, self.now_s
        reached = known.reaches[device]
        return sum(
            known.nbytes[item]
            for item in known.reads[task]
            if any(self.where[item].get(space, math.inf) <= now_s for space in reached)
        )

    def can_run(self, task: int, device: int) -> bool:
        """Return whether a device can run a ready task and its data can be brought there."""
        return self.seconds(task, device) < math.inf and self.transfer_s(task, device) < math.inf

    def _copy_s(self, item: int, source: int, destination: int) -> float:
        """Return the seconds of a copy; infinity if there is no way, or its end is lost."""
        if destination in self.lost_spaces:
            return math.inf
        return self.known.copy_s(item, source, destination)


class Decision(NamedTuple):
    """What a policy wants done with a task."""

    task: int  # A ready task, or one in some lane's queue
    processor: int  # the lane it goes to
    #: True to give it to that lane now, which must be idle; False to put it into the lane's queue, so that its data is
    #: fetched in the meantime.
    start: bool


class DynamicPolicy(Protocol):
    """Decides while tasks run. It must be pure: equal states give equal decisions, and it does not change the state."""

    @property
    def name(self) -> str:
        """What users type."""
        ...

    @property
    def sorts_queues(self) -> bool:
        """Whether lanes' queues stand by level; else in the order in which tasks came."""
        ...

    def prepare(self, problem: Problem) -> Known:
        """Return what the policy wants known of a problem, whose times are the estimates."""
        ...

    def decide(self, state: State) -> list[Decision]:
        """Return what is to be done now, in order; it is asked again until it wants nothing more."""
        ...
