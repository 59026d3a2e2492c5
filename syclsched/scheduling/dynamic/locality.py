# SPDX-License-Identifier: Apache-2.0
"""Locality policy: bind ready tasks to lanes by expected end and transfer time (StarPU's dmdas).

References
----------
.. [1] C. Augonnet, S. Thibault, R. Namyst, "Automatic calibration of performance models on heterogeneous multicore
   architectures", HPPC 2009, and the StarPU handbook, scheduling policies ``dmda`` and ``dmdas``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from syclsched.scheduling.dynamic.policy_state import Decision, PolicyState, StaticInfo
from syclsched.scheduling.dynamic.static_info import static_info_of, urgency_by_rank
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING


@dataclass(frozen=True, slots=True)
class Locality:
    """StarPU's dmdas: the lane with the least ``alpha * expected end + beta * transfer``, queues sorted by urgency.

    Of equally urgent tasks in its queue, a lane starts the one with the most resident data. Transfers overlap with
    earlier work of the lane and are not part of the expected end; ``beta`` weighs them nevertheless, because they
    occupy links that other tasks need.
    """

    #: Weights of a second of expected end and of a second of transfer.
    alpha: float = 1.0
    beta: float = 1.0
    name: str = "dmdas"
    sorts_queues: bool = True

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information, with urgency by priority and upward rank."""
        return static_info_of(problem, urgency_by_rank(problem))

    def decide(self, state: PolicyState) -> list[Decision]:
        """Bind the most urgent ready task to a lane; if there is none, have idle lanes start queued tasks."""
        for task in state.ready:
            processor = self._place(state, task)
            if processor != NOTHING:
                return [Decision(task, processor, False)]
        return _start_most_resident(state)

    def _place(self, state: PolicyState, task: int) -> int:
        """Return the best lane for a task; `NOTHING` if its data can be copied to none."""
        best, best_cost = NOTHING, math.inf
        transfer_s: dict[int, float] = {}
        for processor, device in enumerate(state.known.device_of):
            seconds = state.seconds(task, device)
            if seconds == math.inf:
                continue
            if device not in transfer_s:
                transfer_s[device] = state.transfer_s(task, device)
            cost = self.alpha * (state.free_s(processor) + seconds) + self.beta * transfer_s[device]
            # Compared without the weights, as a beta of zero times infinity is NaN.
            if transfer_s[device] < math.inf and cost < best_cost:
                best, best_cost = processor, cost
        return best


def _start_most_resident(state: PolicyState) -> list[Decision]:
    """Return, for each idle lane with a queue, the most urgent task with the most resident data."""
    level = state.known.level
    decisions = []
    for processor, lane in enumerate(state.lanes):
        if lane.running != NOTHING or not lane.queue:
            continue
        device = state.known.device_of[processor]
        best, most = lane.queue[0], -1.0
        for task in lane.queue:
            if level[task] != level[lane.queue[0]]:
                break
            resident = state.resident_bytes(task, device)
            if resident > most:
                best, most = task, resident
        decisions.append(Decision(best, processor, True))
    return decisions
