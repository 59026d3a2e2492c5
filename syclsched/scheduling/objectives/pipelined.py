# SPDX-License-Identifier: Apache-2.0
"""A graph that is run again and again, as data: when each task starts in a run, and when the next run begins.

In the words of the literature this is a modulo schedule (Rau, "Iterative modulo scheduling", MICRO-27, 1994).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.tables import Floats, Ints
from syclsched.scheduling.timetable import Copies


@dataclass(frozen=True, slots=True)
class PipelinedSchedule:
    """Generation ``g`` starts each of its tasks and copies ``g * interval_s`` after those of generation 0.

    Every generation has arrays of its own, but for those that are there from the start and updated in place: these
    are handed on from one generation to the next. Other values that are there from the start are taken to be new in
    each generation.
    """

    processor: Ints  # where each task runs, in every generation
    start_s: Floats  # when it starts in generation 0
    seconds: Floats  # how long it takes there
    interval_s: float  # seconds between the starts of two generations
    copies: Copies | None  # on channels, in generation 0; None in the contention-free model
    #: No modulo schedule with these processors has a shorter interval: the most that a processor or channel has to do
    #: in a generation, and what updates in place hand on.
    bound_s: float

    @property
    def makespan_s(self) -> float:
        """How long one generation takes."""
        return float((self.start_s + self.seconds).max(initial=0.0))

    @property
    def stage(self) -> Ints:
        """In which interval after the start of its generation each task starts."""
        if self.interval_s <= 0.0:
            return np.zeros(len(self.start_s), np.int64)
        found: Ints = np.floor(self.start_s / self.interval_s * (1.0 + 1e-12)).astype(np.int64)
        return found

    @property
    def generations_in_flight(self) -> int:
        """How many generations are under way at once at most: each array is needed so many times."""
        if self.interval_s <= 0.0:
            return 1
        return max(1, math.ceil(self.makespan_s / self.interval_s * (1.0 - 1e-12)))

    @property
    def throughput_per_s(self) -> float:
        """Generations per second in steady state."""
        return 1.0 / self.interval_s if self.interval_s > 0.0 else math.inf
