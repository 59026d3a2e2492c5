# SPDX-License-Identifier: Apache-2.0
"""Timetable returned by a policy: processor, start and finish of every task, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from syclsched.scheduling.tables import Floats, Ints


class Copies(NamedTuple):
    """Copies on channels, where the problem has channels; arrays of one length.

    Parameters
    ----------
    item, source, destination : ndarray of int64
        The item that is copied, from which space, to which space.
    start_s, finish_s : ndarray of float64
        Seconds from the start of the run.
    """

    item: Ints
    source: Ints
    destination: Ints
    start_s: Floats
    finish_s: Floats


@dataclass(frozen=True, slots=True)
class Timetable:
    """Processor and times of each task, by the scheduler's model.

    Parameters
    ----------
    processor : ndarray of int64, shape (tasks,)
        Index into the problem's processors.
    start_s, finish_s : ndarray of float64, shape (tasks,)
        Seconds from the start of the run.
    copies : Copies or None
        None in the contention-free model, where every copy starts as soon as its item is made.
    """

    processor: Ints
    start_s: Floats
    finish_s: Floats
    copies: Copies | None = None

    @property
    def makespan_s(self) -> float:
        """Finish of the last task, without copies of wanted results (see `syclsched.scheduling.problem.makespan_s`)."""
        return float(self.finish_s.max(initial=0.0))
