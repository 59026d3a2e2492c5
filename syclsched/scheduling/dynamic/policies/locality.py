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

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.operations import (
    bind,
    free_s,
    is_open,
    queue_length,
    queued_task,
    ready_count,
    resident_bytes,
    seconds,
    start,
    transfer_s,
)
from syclsched.scheduling.dynamic.compiled.run_state import RunState
from syclsched.scheduling.dynamic.policy_state import StaticInfo
from syclsched.scheduling.dynamic.rule_policy import RulePolicy
from syclsched.scheduling.dynamic.static_info import static_info_of, urgency_by_rank
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats


@lean
def _by_locality(state: RunState, weights: Floats) -> None:
    """Bind the most urgent ready task to a lane; if there is none, start queued tasks on open lanes."""
    for position in range(ready_count(state)):
        task = state.ready[position]
        lane = _best_lane(state, task, weights[0], weights[1])
        if lane != NOTHING:
            bind(state, task, lane)
            return
    for lane in range(len(state.known.device_of)):
        if queue_length(state, lane) and is_open(state, lane):
            start(state, _most_resident(state, lane), lane)


@lean
def _best_lane(state: RunState, task: int, alpha: float, beta: float) -> int:
    """Return the best lane for a task; `NOTHING` if its data can be copied to none."""
    best, best_cost, device, takes_s, moves_s = NOTHING, math.inf, NOTHING, 0.0, 0.0
    device_of = state.known.device_of
    for lane in range(len(device_of)):
        if device_of[lane] != device:
            device = device_of[lane]
            takes_s = seconds(state, task, device)
            # Infinite without a route: then beta, which may be 0, must not weigh it.
            moves_s = transfer_s(state, task, device) if takes_s < math.inf else math.inf
        if moves_s < math.inf:
            cost = alpha * (free_s(state, lane) + takes_s) + beta * moves_s
            if cost < best_cost:
                best, best_cost = lane, cost
    return best


@lean
def _most_resident(state: RunState, lane: int) -> int:
    """Return, of the most urgent tasks in a lane's queue, the one with the most resident data."""
    level, device, count = state.known.level, state.known.device_of[lane], queue_length(state, lane)
    first = queued_task(state, lane, 0)
    best, most = first, -1.0
    if count == 1 or level[queued_task(state, lane, 1)] != level[first]:
        return best
    for position in range(count):
        task = queued_task(state, lane, position)
        if level[task] != level[first]:
            break
        resident = resident_bytes(state, task, device)
        if resident > most:
            best, most = task, resident
    return best


@dataclass(frozen=True, slots=True)
class Locality(RulePolicy):
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
    rule = staticmethod(_by_locality)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The weights."""
        return self.alpha, self.beta

    def prepare(self, problem: Problem) -> StaticInfo:
        """Return the static information, with urgency by priority and upward rank."""
        return static_info_of(problem, urgency_by_rank(problem))
