# SPDX-License-Identifier: Apache-2.0
"""A static plan, and a rule for when to deviate from it.

The rule. Every task is bound to the lane that the plan gives it, its inputs are brought there as soon as they are made,
and a lane starts its tasks in the plan's order. What tasks really take is measured; once they have been off by more
than ``bound`` (the sum of their deviations from the estimates, over the sum of the estimates), the plan's times mean
nothing any more, and

1. an idle lane does not wait for the next of its tasks, but starts the first one that is ready;
2. an idle lane that has none takes one from another lane's queue, of those that it should end earlier than their own
   lane would (transfers included, estimates corrected by each device's measured drift) the one that the plan has first.

As long as tasks take what they should, within the bound, the run is the plan.

Where a device has failed the plan means nothing any more either, whatever the bound (but infinity, which is to follow
the plan come what may); and a task whose lane is gone, or whose data can no longer be brought there, is bound to the
lane that should end it first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.dynamic.known import known_of
from syclsched.scheduling.dynamic.state import Decision, Known, State
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING
from syclsched.scheduling.timetable import Timetable

#: How many tasks of another lane's queue an idle lane looks at.
_LOOK_AT = 16


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Follow a timetable, and deviate from it by the rule above."""

    plan: Timetable  # what is followed: processors, and starts as the order of each lane. Made with the estimates.
    #: From which mean deviation of tasks on the plan is left; infinity to follow it whatever happens.
    bound: float = 0.05
    name: str = "hybrid"
    sorts_queues: bool = True

    def prepare(self, problem: Problem) -> Known:
        """Return what is known, with the plan; urgent is what the plan starts first, of equals what stands first."""
        place = np.empty(len(problem), dtype=np.int64)
        # What takes no time goes before what starts with it.
        place[np.lexsort((self.plan.finish_s, self.plan.start_s))] = np.arange(len(problem))
        return known_of(problem, [-place], planned=self.plan.processor)

    def decide(self, state: State) -> list[Decision]:
        """Bind what has become ready as planned; then have idle lanes start tasks by the rule."""
        failed = bool(state.gone) and self.bound < math.inf
        bound = [Decision(task, p, False) for task in state.ready if (p := _lane_for(state, task, failed)) != NOTHING]
        if bound:
            return bound[:1] if failed else bound  # after a failure each changes what is best for the next
        left = failed or state.deviation > self.bound
        idle = [p for p, lane in enumerate(state.lanes) if lane.running == NOTHING]
        queues = [(p, state.lanes[p].queue) for p in idle if state.lanes[p].queue]
        starts = [Decision(q[0], p, True) for p, q in queues if left or q[0] == state.lanes[p].ahead[0]]
        if starts or not left:
            return starts
        helped = ((_first_to_take(state, p), p) for p in idle)
        return next(([Decision(task, p, True)] for task, p in helped if task != NOTHING), [])


def _lane_for(state: State, task: int, failed: bool) -> int:
    """Return the lane of a task: the planned one or, where that cannot be, the one that should end it first."""
    planned = (state.known.planned or ())[task]
    device_of = state.known.device_of
    if not state.gone or state.can_run(task, device_of[planned]):
        return planned
    if not failed:
        return NOTHING

    def end_s(processor: int) -> float:
        start_s = max(state.free_s(processor), state.arrival_s(task, device_of[processor]))
        return start_s + state.seconds(task, device_of[processor])

    able = [p for p, device in enumerate(device_of) if state.can_run(task, device)]
    return min(able, key=lambda p: (end_s(p), p), default=NOTHING)


def _first_to_take(state: State, thief: int) -> int:
    """Return the first task by the plan that an idle lane should end earlier than its own lane; `NOTHING` if none."""
    device_of, level = state.known.device_of, state.known.level
    first, free_s = NOTHING, state.busy_s(thief)  # it can be given more, but may have something
    for victim, lane in enumerate(state.lanes):
        end_s = state.busy_s(victim)
        for task in lane.queue[:_LOOK_AT]:
            if first != NOTHING and level[task] > level[first]:
                break
            end_s += state.seconds(task, device_of[victim])
            seconds = state.seconds(task, device_of[thief])
            if seconds < math.inf and max(free_s, state.arrival_s(task, device_of[thief])) + seconds < end_s:
                first = task
                break
    return first
