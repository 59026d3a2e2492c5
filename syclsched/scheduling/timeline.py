# SPDX-License-Identifier: Apache-2.0
"""The time of one processor: what is taken, and where a task still fits in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import sub


class Timeline:
    """The busy time of one lane, kept as its idle gaps.

    A schedule has far fewer gaps than tasks, and only they matter to insertion. Intervals are half-open; a task of no
    duration may stand anywhere but inside another task.
    """

    __slots__ = ("_busy_ends", "_gap_ends", "_gap_starts", "_longest_gap", "tail")

    def __init__(self) -> None:
        #: End of the last task; nothing is taken after it.
        self.tail = 0.0
        self._gap_starts: list[float] = []
        self._gap_ends: list[float] = []
        self._longest_gap = 0.0
        self._busy_ends = [0.0]

    def earliest(self, ready_s: float, duration_s: float, bound_s: float = float("inf")) -> float:
        """Return the earliest start of a task, in a gap or after the last task.

        Parameters
        ----------
        ready_s : float
            Not before this time.
        duration_s : float
            How long the task takes.
        bound_s : float, optional
            A start that would let the task finish at this time or later is of no interest: any such may be returned.

        Returns
        -------
        float
            Seconds.
        """
        tail = self.tail
        if ready_s >= tail:
            return ready_s
        if duration_s == 0.0:
            return self._earliest_instant(ready_s)
        if duration_s > self._longest_gap:
            return tail
        starts, ends = self._gap_starts, self._gap_ends
        for i in range(bisect_left(ends, ready_s + duration_s), len(ends)):
            start = starts[i]
            if start < ready_s:
                start = ready_s
            finish = start + duration_s
            if finish <= ends[i] or finish >= bound_s:
                return start
        return tail

    def _earliest_instant(self, ready_s: float) -> float:
        gap = bisect_right(self._gap_starts, ready_s) - 1
        if gap >= 0 and ready_s <= self._gap_ends[gap]:
            return ready_s
        return self._busy_ends[bisect_left(self._busy_ends, ready_s)]

    def take(self, start_s: float, finish_s: float) -> None:
        """Take an interval that is free.

        Parameters
        ----------
        start_s, finish_s : float
            As `earliest` found it.
        """
        if start_s >= self.tail:
            if start_s > self.tail:
                self._gap_starts.append(self.tail)
                self._gap_ends.append(start_s)
                self._longest_gap = max(self._longest_gap, start_s - self.tail)
            self.tail = finish_s
            self._busy_ends.append(finish_s)
            return
        insort(self._busy_ends, finish_s)
        gap = bisect_right(self._gap_starts, start_s) - 1
        if gap < 0 or self._gap_ends[gap] < finish_s:
            return  # an instant between two tasks that touch
        left, right = self._gap_starts[gap], self._gap_ends[gap]
        rest = [(a, b) for a, b in ((left, start_s), (finish_s, right)) if b > a]
        self._gap_starts[gap : gap + 1] = [a for a, _ in rest]
        self._gap_ends[gap : gap + 1] = [b for _, b in rest]
        if right - left >= self._longest_gap:
            self._longest_gap = max(map(sub, self._gap_ends, self._gap_starts), default=0.0)
