# SPDX-License-Identifier: Apache-2.0
"""What a policy returns: for every task a processor, a start and a finish, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from syclsched.scheduling.tables import Floats, Ints


class Copies(NamedTuple):
    """Copies on channels, where the problem has any; arrays of one length.

    Parameters
    ----------
    item, source, destination : ndarray of int64
        What is copied, from which space to which.
    start_s, finish_s : ndarray of float64
        When.
    """

    item: Ints
    source: Ints
    destination: Ints
    start_s: Floats
    finish_s: Floats


@dataclass(frozen=True, slots=True)
class Timetable:
    """Where and when each task runs, by the scheduler's model.

    Parameters
    ----------
    processor : ndarray of int64, shape (tasks,)
        Index into the problem's processors.
    start_s, finish_s : ndarray of float64, shape (tasks,)
        Seconds from the start of the run.
    copies : Copies or None
        None in the contention-free model, in which every copy starts as soon as its item is made.
    """

    processor: Ints
    start_s: Floats
    finish_s: Floats
    copies: Copies | None = None

    @property
    def makespan_s(self) -> float:
        """Finish of the last task; copies of wanted results come on top (`syclsched.scheduling.problem.makespan_s`)."""
        return float(self.finish_s.max(initial=0.0))
