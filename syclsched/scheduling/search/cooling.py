# SPDX-License-Identifier: Apache-2.0
"""Coolings of simulated annealing within a budget, from the best state and from other starts alternately."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from syclsched.scheduling.search.annealing import Best
from syclsched.scheduling.search.meter import Meter
from syclsched.scheduling.tables import Ints

#: Order of the tasks and processor of each.
Start = tuple[Ints, Ints]


class Evaluator(Protocol):
    """Evaluator of orders and placements, with the state of the search."""

    def load(self, order: Ints, processor: Ints) -> float:
        """Load an order and placement; return its cost."""
        ...

    def anneal(self, best: Best, current: float, temperature: float, steps: int) -> float:
        """Make steps at one temperature from the current state of a cost; return the cost of the last state."""
        ...

    def temperature_unit(self, cost: float) -> float:
        """Return what temperatures are relative to, for a loaded state."""
        ...


def first_best(start: Start, cost: float, excess: float = 0.0) -> Best:
    """Return the record of the best state with a start as its first."""
    return Best(start[0].copy(), start[1].copy(), np.array([cost, excess]))


@dataclass(frozen=True, slots=True)
class Cooling:
    """Parameters of a cooling."""

    hot: float  # temperature at the start, in the evaluator's unit
    cold: float  # temperature at the end, relative to that at the start
    chunk: int  # tasks times steps at one temperature: some milliseconds, as the clock is read after each chunk

    def run(
        self,
        evaluator: Evaluator,
        start: Start,
        best: Best,
        meter: Meter,
        part: tuple[float, float],
        enough: float = -math.inf,
    ) -> None:
        """Anneal a start over a part of the budget; end early when the best cost is low enough."""
        current = evaluator.load(*start)
        unit = evaluator.temperature_unit(current)
        chunk = max(1, self.chunk // max(1, len(best.order)))
        # Rounding may take the end of the last part beyond 1.
        while (spent := meter.spent()) < min(1.0, part[1]) and best.cost > enough:
            cooled = max(0.0, spent - part[0]) / (part[1] - part[0])
            steps = meter.left(chunk)
            current = evaluator.anneal(best, current, unit * self.hot * self.cold**cooled, steps)
            meter.count(steps)


def cool_repeatedly(
    evaluator: Evaluator,
    coolings: Sequence[Cooling],
    starts: Sequence[Start],
    best: Best,
    meter: Meter,
    part: tuple[float, float],
    enough: float = -math.inf,
) -> None:
    """Divide a part of the budget among coolings, from the best state and from each of the other starts in turn."""
    begin, length = part[0], part[1] - part[0]
    for number, cooling in enumerate(coolings):
        if best.cost <= enough:
            break
        start = starts[number % len(starts)] if number % 2 else (best.order, best.processor)
        ends = (begin + length * number / len(coolings), begin + length * (number + 1) / len(coolings))
        cooling.run(evaluator, start, best, meter, ends, enough)
