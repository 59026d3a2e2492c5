# SPDX-License-Identifier: Apache-2.0
"""Evaluator with contention: the list-scheduling engine puts tasks and their copies into the first gaps, in an order.

It builds a whole schedule per candidate, so steps cost more than those of the incremental evaluator.
"""

from __future__ import annotations

import math
import random

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.core.list_schedulers import in_order
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.search.annealing import Best
from syclsched.scheduling.tables import Ints
from syclsched.scheduling.timetable import Timetable

#: Largest move of a task in the order.
REACH = 20


class ListedEvaluator:
    """Evaluator of orders and devices; the cost is the makespan, temperatures are relative to the best cost."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self._problem, self._rng = problem, random.Random(seed)
        self._order = self._device = np.empty(0, np.int64)

    def load(self, order: Ints, processor: Ints) -> float:
        """Load an order and placement; return its cost."""
        self._order, self._device = order.copy(), self._problem.tables.processor_device[processor]
        return self._decode(self._order, self._device)[0]

    def temperature_unit(self, _: float) -> float:
        """Return 1."""
        return 1.0

    def timetable(self) -> Timetable | None:
        """Return the current state as a timetable; None if some data cannot be copied to its device."""
        return self._decode(self._order, self._device)[1]

    def anneal(self, best: Best, current: float, temperature: float, steps: int) -> float:
        """Make steps at one temperature from the current state of a cost; return the cost of the last state."""
        for _ in range(steps):
            order, device = self._order.copy(), self._device.copy()
            for _ in range(1 + (self._rng.random() < 0.3)):
                self._move(order, device)
            cost, made = self._decode(order, device)
            if made is None or cost > current - best.cost * temperature * math.log(1.0 - self._rng.random()):
                continue
            self._order, self._device, current = order, device, cost
            if cost < best.cost:
                best.order[:], best.processor[:], best.worth[0] = order, made.processor, cost
        return current

    def _move(self, order: Ints, device: Ints) -> None:
        """Change the device of a random task, or its position between its predecessors and successors."""
        tables, rng = self._problem.tables, self._rng
        place = rng.randrange(len(order))
        task = int(order[place])
        able = np.flatnonzero(np.isfinite(tables.seconds[tables.kind[task]]))
        if len(able) > 1 and rng.random() < 0.6:
            device[task] = rng.choice(able.tolist())
            return
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        low = int(position[tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]]].max(initial=-1)) + 1
        after = tables.succ_task[tables.succ_start[task] : tables.succ_start[task + 1]]
        high = int(position[after].min(initial=len(order))) - 1
        new_place = rng.randint(max(low, place - REACH), min(high, place + REACH))
        if new_place > place:
            order[place:new_place] = order[place + 1 : new_place + 1]
        else:
            order[new_place + 1 : place + 1] = order[new_place:place].copy()
        order[new_place] = task

    def _decode(self, order: Ints, device: Ints) -> tuple[float, Timetable | None]:
        """Return makespan and timetable; infinity and None if some data cannot be copied to its device."""
        try:
            made = in_order(self._problem, order, pinned=device)
        except PolicyError:
            return math.inf, None
        finish_s = makespan_s(self._problem, made)
        return (finish_s, made) if finish_s < math.inf else (math.inf, None)
