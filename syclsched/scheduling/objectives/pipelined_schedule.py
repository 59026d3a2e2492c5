# SPDX-License-Identifier: Apache-2.0
"""Modulo schedule of a graph that is run repeatedly: starts within one iteration, and the initiation interval.

Reference: B. R. Rau, "Iterative modulo scheduling", MICRO-27, 1994. An iteration is called a generation here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.scheduling.tables import Floats, Ints
from syclsched.scheduling.timetable import Copies


@dataclass(frozen=True, slots=True)
class PipelinedSchedule:
    """Modulo schedule: generation ``g`` starts each task and copy ``g * interval_s`` after generation 0 does.

    Every generation has its own arrays, except inputs that are updated in place: these are carried from one generation
    to the next. Other inputs are taken to be new in each generation.
    """

    processor: Ints  # processor of each task, in every generation
    start_s: Floats  # start of each task in generation 0
    seconds: Floats  # duration of each task
    interval_s: float  # seconds between the starts of two generations
    copies: Copies | None  # on channels, in generation 0; None in the contention-free model
    #: Lower bound on the interval with these processors: the largest load of a processor or channel in a generation,
    #: and the circuits of items carried by in-place updates.
    bound_s: float

    @property
    def makespan_s(self) -> float:
        """Duration of one generation."""
        return float((self.start_s + self.seconds).max(initial=0.0))

    @property
    def stage(self) -> Ints:
        """The interval, counted from the start of its generation, in which each task starts."""
        if self.interval_s <= 0.0:
            return np.zeros(len(self.start_s), np.int64)
        found: Ints = np.floor(self.start_s / self.interval_s * (1.0 + 1e-12)).astype(np.int64)
        return found
