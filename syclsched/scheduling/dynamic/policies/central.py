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

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.operations import (
    can_run,
    is_any_ready,
    is_decided,
    is_open,
    ready_count,
    start,
)
from syclsched.scheduling.dynamic.compiled.run_state import RunState
from syclsched.scheduling.dynamic.policy_state import StaticInfo
from syclsched.scheduling.dynamic.rule_policy import RulePolicy
from syclsched.scheduling.dynamic.static_info import static_info_of, urgency_by_rank
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Floats


@lean
def _from_central_queue(state: RunState, _: Floats) -> None:
    """Start on each open lane, in order, the first ready task that it can run."""
    device_of, count = state.known.device_of, ready_count(state)
    left = count
    for lane in range(len(device_of)):
        device = device_of[lane]
        if left and is_any_ready(state, device) and is_open(state, lane):
            for position in range(count):
                task = state.ready[position]
                if (left == count or not is_decided(state, task)) and can_run(state, task, device):
                    start(state, task, lane)
                    left -= 1
                    break


@dataclass(frozen=True, slots=True)
class Eager(RulePolicy):
    """First come, first served among tasks of one priority."""

    name: str = "eager"
    sorts_queues: bool = False
    rule = staticmethod(_from_central_queue)

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information, with urgency by priority."""
        return static_info_of(problem, [problem.tables.priority])


@dataclass(frozen=True, slots=True)
class Priority(RulePolicy):
    """The task with the highest upward rank first, among tasks of one priority."""

    name: str = "priority"
    sorts_queues: bool = False
    rule = staticmethod(_from_central_queue)

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information, with urgency by priority and upward rank."""
        return static_info_of(problem, urgency_by_rank(problem))
