# SPDX-License-Identifier: Apache-2.0
"""Work-stealing policy: every lane has its own deque, and an idle lane steals from others.

References
----------
.. [1] R. D. Blumofe, C. E. Leiserson, "Scheduling multithreaded computations by work stealing", Journal of the ACM
   46(5), 1999; and the StarPU handbook, scheduling policy ``lws`` (locality work stealing).
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.operations import (
    bind,
    can_run,
    is_decided,
    is_open,
    queue_length,
    queued_task,
    ready_count,
    shares_memory,
    start,
)
from syclsched.scheduling.dynamic.compiled.run_state import RunState
from syclsched.scheduling.dynamic.policy_state import StaticInfo
from syclsched.scheduling.dynamic.rule_policy import RulePolicy
from syclsched.scheduling.dynamic.static_info import static_info_of
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats


@lean
def _by_stealing(state: RunState, _: Floats) -> None:
    """Bind a ready task; if there is none, start on each open lane its newest task or a stolen one."""
    for position in range(ready_count(state)):
        task = state.ready[position]
        home = _home(state, task)
        if home != NOTHING:
            bind(state, task, home)
            return
    for lane in range(len(state.known.device_of)):
        if is_open(state, lane):
            position = queue_length(state, lane) - 1
            while position >= 0 and is_decided(state, queued_task(state, lane, position)):
                position -= 1
            task = queued_task(state, lane, position) if position >= 0 else _find_steal(state, lane)
            if task != NOTHING:
                start(state, task, lane)


@lean
def _home(state: RunState, task: int) -> int:
    """Return the lane for a ready task; `NOTHING` if none can run it."""
    device_of, least = state.known.device_of, 0
    home: int = state.released_by[task]
    if home != NOTHING and can_run(state, task, device_of[home]):
        return home
    home = NOTHING
    for lane in range(len(device_of)):
        if can_run(state, task, device_of[lane]):
            length = queue_length(state, lane) + (0 if is_open(state, lane) else 1)
            if home == NOTHING or length < least:
                home, least = lane, length
    return home


@lean
def _find_steal(state: RunState, thief: int) -> int:
    """Return the task that an open lane steals; `NOTHING` if no queue has one that it can run."""
    device, best, stolen = state.known.device_of[thief], NOTHING, NOTHING
    for lane in range(len(state.known.device_of)):
        length = queue_length(state, lane)
        if length and lane != thief and (best == NOTHING or _is_better(state, lane, best, device)):
            for position in range(length):
                task = queued_task(state, lane, position)
                if not is_decided(state, task) and can_run(state, task, device):
                    best, stolen = lane, task
                    break
    return stolen


@lean
def _is_better(state: RunState, lane: int, other: int, device: int) -> bool:
    """Return whether a device's lane should rather steal from one lane than from another."""
    length, other_length = queue_length(state, lane), queue_length(state, other)
    if length != other_length:
        return length > other_length
    mine, others = state.known.device_of[lane], state.known.device_of[other]
    if (mine == device) != (others == device):
        return bool(mine == device)
    return shares_memory(state, device, mine) and not shares_memory(state, device, others)


@dataclass(frozen=True, slots=True)
class WorkStealing(RulePolicy):
    """A task goes to the lane that made it ready; a lane takes its newest task, or steals the oldest of the longest.

    The newest task's data was just made on the lane; the oldest task has the most work depending on it. Tasks that the
    lane cannot run, and tasks ready from the start, go to the shortest queue that can. Among equally long queues a
    thief prefers one of its own device, then one of a device that shares its memory. No time estimates are used.
    """

    name: str = "stealing"
    sorts_queues: bool = False
    rule = staticmethod(_by_stealing)

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information, with urgency by priority."""
        return static_info_of(problem, [problem.tables.priority])
