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
from typing import Final

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.operations import (
    arrival_s,
    bind,
    busy_s,
    can_run,
    deviation,
    free_s,
    has_failures,
    is_open,
    next_planned,
    queue_length,
    queued_task,
    ready_count,
    seconds,
    start,
)
from syclsched.scheduling.dynamic.compiled.run_state import RunState
from syclsched.scheduling.dynamic.policy_state import StaticInfo
from syclsched.scheduling.dynamic.rule_policy import RulePolicy
from syclsched.scheduling.dynamic.static_info import static_info_of
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats
from syclsched.scheduling.timetable import Timetable

#: Number of tasks of another lane's queue that an idle lane examines.
_STEAL_WINDOW = 16


@lean
def _by_plan(state: RunState, bound: Floats) -> None:
    """Bind ready tasks as planned; then start tasks on open lanes by the rule."""
    failed = has_failures(state) and bound[0] < math.inf
    if _bind_ready(state, failed):
        return
    left = failed or deviation(state) > bound[0]
    started = False
    for lane in range(len(state.known.device_of)):
        if queue_length(state, lane) and is_open(state, lane):
            task = queued_task(state, lane, 0)
            if left or task == next_planned(state, lane):
                start(state, task, lane)
                started = True
    if started or not left:
        return
    for lane in range(len(state.known.device_of)):
        if is_open(state, lane):
            task = _find_steal(state, lane)
            if task != NOTHING:
                start(state, task, lane)
                return


@lean
def _bind_ready(state: RunState, failed: bool) -> bool:
    """Bind ready tasks, after a failure only the first; return whether there were any."""
    found = False
    for position in range(ready_count(state)):
        task = state.ready[position]
        lane = _lane_for(state, task, failed)
        if lane != NOTHING:
            bind(state, task, lane)
            found = True
            if failed:  # each binding changes the best lane of the next
                break
    return found


@lean
def _lane_for(state: RunState, task: int, failed: bool) -> int:
    """Return the planned lane of a task or, if that is impossible, the lane that should finish it first."""
    device_of = state.known.device_of
    best: int = state.known.planned[task]
    if not has_failures(state) or can_run(state, task, device_of[best]):
        return best
    best, best_s = NOTHING, math.inf
    for lane in range(len(device_of) if failed else 0):
        if can_run(state, task, device_of[lane]):
            start_s = max(free_s(state, lane), arrival_s(state, task, device_of[lane]))
            end_s = start_s + seconds(state, task, device_of[lane])
            if best == NOTHING or end_s < best_s:
                best, best_s = lane, end_s
    return best


@lean
def _find_steal(state: RunState, thief: int) -> int:
    """Return the first planned task that an open lane should finish earlier than its own lane; `NOTHING` if none."""
    device_of, level = state.known.device_of, state.known.level
    # The thief can take more, but may have tasks in flight.
    first, device, thief_free_s = NOTHING, device_of[thief], busy_s(state, thief)
    for lane in range(len(device_of)):
        end_s = busy_s(state, lane)
        for position in range(min(queue_length(state, lane), _STEAL_WINDOW)):
            task = queued_task(state, lane, position)
            if first != NOTHING and level[task] > level[first]:
                break
            end_s += seconds(state, task, device_of[lane])
            takes_s = seconds(state, task, device)
            if takes_s < math.inf and max(thief_free_s, arrival_s(state, task, device)) + takes_s < end_s:
                first = task
                break
    return first


#: Mean deviation of tasks above which a plan is left.
BOUND: Final = 0.05


@dataclass(frozen=True, slots=True)
class Hybrid(RulePolicy):
    """Follow a timetable, and deviate from it by the rule above."""

    plan: Timetable  # processors, and starts as the order of each lane; made with the estimates
    #: Mean deviation of tasks above which the plan is left; infinity to follow it always.
    bound: float = BOUND
    name: str = "hybrid"
    sorts_queues: bool = True
    rule = staticmethod(_by_plan)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The bound."""
        return (self.bound,)

    @property
    def replans_above(self) -> float:
        """The bound."""
        return self.bound

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information with the plan; urgency by planned start, then by task order."""
        place = np.empty(len(problem), dtype=np.int64)
        # Tasks of no duration go before tasks that start at the same time.
        place[np.lexsort((self.plan.finish_s, self.plan.start_s))] = np.arange(len(problem))
        return static_info_of(problem, [-place], planned=self.plan.processor)
