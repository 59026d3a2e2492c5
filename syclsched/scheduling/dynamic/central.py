# SPDX-License-Identifier: Apache-2.0
"""Central-queue policies: an idle lane takes the most urgent ready task that it can run.

References
----------
.. [1] C. Augonnet, S. Thibault, R. Namyst, P.-A. Wacrenier, "StarPU: a unified platform for task scheduling on
   heterogeneous multicore architectures", Concurrency and Computation: Practice and Experience 23(2), 2011: the
   policies ``eager`` and ``prio``.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.scheduling.dynamic.policy_state import Decision, PolicyState, StaticInfo
from syclsched.scheduling.dynamic.static_info import static_info_of, urgency_by_rank
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING


@dataclass(frozen=True, slots=True)
class Eager:
    """First come, first served among tasks of one priority."""

    name: str = "eager"
    sorts_queues: bool = False

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information, with urgency by priority."""
        return static_info_of(problem, [problem.tables.priority])

    def decide(self, state: PolicyState) -> list[Decision]:
        """Start the first runnable ready task on each idle lane."""
        return _from_central_queue(state)


@dataclass(frozen=True, slots=True)
class Priority:
    """The task with the highest upward rank first, among tasks of one priority."""

    name: str = "priority"
    sorts_queues: bool = False

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information, with urgency by priority and upward rank."""
        return static_info_of(problem, urgency_by_rank(problem))

    def decide(self, state: PolicyState) -> list[Decision]:
        """Start the most urgent runnable ready task on each idle lane."""
        return _from_central_queue(state)


def _from_central_queue(state: PolicyState) -> list[Decision]:
    """Return, for each idle lane in order, the first ready task that it can run."""
    decisions: list[Decision] = []
    taken: set[int] = set()
    for processor, lane in enumerate(state.lanes):
        if len(taken) == len(state.ready):
            break
        device = state.known.device_of[processor]
        if lane.running != NOTHING or not state.ready_on[device]:
            continue
        task = next((t for t in state.ready if t not in taken and state.can_run(t, device)), NOTHING)
        if task != NOTHING:
            taken.add(task)
            decisions.append(Decision(task, processor, True))
    return decisions
