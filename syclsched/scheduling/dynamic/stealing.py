# SPDX-License-Identifier: Apache-2.0
"""Work-stealing policy: every lane has its own deque, and an idle lane steals from others.

References
----------
.. [1] R. D. Blumofe, C. E. Leiserson, "Scheduling multithreaded computations by work stealing", Journal of the ACM
   46(5), 1999; and the StarPU handbook, scheduling policy ``lws`` (locality work stealing).
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.dynamic.policy_state import Decision, PolicyState, StaticInfo
from syclsched.scheduling.dynamic.static_info import static_info_of
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING


@dataclass(frozen=True, slots=True)
class WorkStealing:
    """A task goes to the lane that made it ready; a lane takes its newest task, or steals the oldest of the longest.

    The newest task's data was just made on the lane; the oldest task has the most work depending on it. Tasks that the
    lane cannot run, and tasks ready from the start, go to the shortest queue that can. Among equally long queues a
    thief prefers one of its own device, then one of a device that shares its memory. No time estimates are used.
    """

    name: str = "stealing"
    sorts_queues: bool = False

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information, with urgency by priority."""
        return static_info_of(problem, [problem.tables.priority])

    def decide(self, state: PolicyState) -> list[Decision]:
        """Bind ready tasks; if there are none, have idle lanes start their own or stolen tasks."""
        for task in state.ready:
            home = _home(state, task)
            if home != NOTHING:
                return [Decision(task, home, False)]
        decisions: list[Decision] = []
        taken: set[int] = set()
        for processor, lane in enumerate(state.lanes):
            if lane.running != NOTHING:
                continue
            own = next((t for t in reversed(lane.queue) if t not in taken), NOTHING)
            task = own if own != NOTHING else _find_steal(state, processor, taken)
            if task != NOTHING:
                taken.add(task)
                decisions.append(Decision(task, processor, True))
        return decisions


def _home(state: PolicyState, task: int) -> int:
    """Return the lane for a ready task; `NOTHING` if none can run it."""
    device_of = state.known.device_of
    maker = state.released_by[task]
    if maker != NOTHING and state.can_run(task, device_of[maker]):
        return maker
    able = [p for p, device in enumerate(device_of) if state.can_run(task, device)]
    return min(
        able, key=lambda p: (len(state.lanes[p].queue) + (state.lanes[p].running != NOTHING), p), default=NOTHING
    )


def _find_steal(state: PolicyState, thief: int, taken: set[int]) -> int:
    """Return the task that an idle lane steals; `NOTHING` if no queue has one that it can run."""
    known = state.known
    device = known.device_of[thief]

    def attraction(victim: int) -> tuple[int, bool, bool, int]:
        other = known.device_of[victim]
        shares = known.reaches[other][0] in known.reaches[device]
        return -len(state.lanes[victim].queue), other != device, not shares, victim

    for victim in sorted((p for p, lane in enumerate(state.lanes) if lane.queue and p != thief), key=attraction):
        for task in state.lanes[victim].queue:
            if task not in taken and state.can_run(task, device):
                return task
    return NOTHING
