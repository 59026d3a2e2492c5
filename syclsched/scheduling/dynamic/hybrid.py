# SPDX-License-Identifier: Apache-2.0
"""Hybrid policy: a static plan, with a rule for leaving it.

The rule. Every task is bound to its planned lane, its inputs are copied there as soon as they are made, and a lane
starts its tasks in planned order. Durations are measured. Once the sum of deviations from the estimates exceeds
``bound`` times the sum of the estimates, the plan's times are no longer trusted, and

1. an idle lane does not wait for its next planned task, but starts its first ready one;
2. an idle lane without ready tasks steals one from another lane's queue: of the tasks that it should finish earlier
   than their own lane (transfers included, estimates corrected by each device's measured drift), the first in the plan.

As long as deviations stay within the bound, the run is the plan.

After a device failure the plan is not trusted either, whatever the bound (except infinity: always follow the plan). A
task whose lane has failed, or whose data can no longer be copied there, is bound to the lane that should finish it
first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.dynamic.policy_state import Decision, PolicyState, StaticInfo
from syclsched.scheduling.dynamic.static_info import static_info_of
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING
from syclsched.scheduling.timetable import Timetable

#: Number of tasks of another lane's queue that an idle lane examines.
_STEAL_WINDOW = 16


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Follow a timetable, and deviate from it by the rule above."""

    plan: Timetable  # processors, and starts as the order of each lane; made with the estimates
    #: Mean deviation of tasks above which the plan is left; infinity to follow it always.
    bound: float = 0.05
    name: str = "hybrid"
    sorts_queues: bool = True

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information with the plan; urgency by planned start, then by task order."""
        place = np.empty(len(problem), dtype=np.int64)
        # Tasks of no duration go before tasks that start at the same time.
        place[np.lexsort((self.plan.finish_s, self.plan.start_s))] = np.arange(len(problem))
        return static_info_of(problem, [-place], planned=self.plan.processor)

    def decide(self, state: PolicyState) -> list[Decision]:
        """Bind ready tasks as planned; then have idle lanes start tasks by the rule."""
        failed = bool(state.gone) and self.bound < math.inf
        bound = [Decision(task, p, False) for task in state.ready if (p := _lane_for(state, task, failed)) != NOTHING]
        if bound:
            return bound[:1] if failed else bound  # after a failure, each binding changes the best lane of the next
        left = failed or state.deviation > self.bound
        idle = [p for p, lane in enumerate(state.lanes) if lane.running == NOTHING]
        queues = [(p, state.lanes[p].queue) for p in idle if state.lanes[p].queue]
        starts = [Decision(q[0], p, True) for p, q in queues if left or q[0] == state.lanes[p].ahead[0]]
        if starts or not left:
            return starts
        helped = ((_find_steal(state, p), p) for p in idle)
        return next(([Decision(task, p, True)] for task, p in helped if task != NOTHING), [])


def _lane_for(state: PolicyState, task: int, failed: bool) -> int:
    """Return the planned lane of a task or, if that is impossible, the lane that should finish it first."""
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


def _find_steal(state: PolicyState, thief: int) -> int:
    """Return the first planned task that an idle lane should finish earlier than its own lane; `NOTHING` if none."""
    device_of, level = state.known.device_of, state.known.level
    first, free_s = NOTHING, state.busy_s(thief)  # the thief can take more, but may have tasks in flight
    for victim, lane in enumerate(state.lanes):
        end_s = state.busy_s(victim)
        for task in lane.queue[:_STEAL_WINDOW]:
            if first != NOTHING and level[task] > level[first]:
                break
            end_s += state.seconds(task, device_of[victim])
            seconds = state.seconds(task, device_of[thief])
            if seconds < math.inf and max(free_s, state.arrival_s(task, device_of[thief])) + seconds < end_s:
                first = task
                break
    return first
