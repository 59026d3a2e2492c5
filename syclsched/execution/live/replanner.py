# SPDX-License-Identifier: Apache-2.0
"""Has what is left of a run that follows a plan planned anew, in the background, once its tasks take other times."""

from __future__ import annotations

from typing import Final

from syclsched.execution.records import Counts
from syclsched.execution.worker import Worker
from syclsched.scheduling.dynamic.board import BOUND, DEVIATION, STARTED, Board
from syclsched.scheduling.dynamic.replanning import Frontier, follow, frontier_of, plan_frontier
from syclsched.scheduling.tables import Ints

#: Another plan is made when so much more of the tasks has been started, and no fewer than so many.
SHARE, FEWEST = 1 / 16, 4


class Replanner:
    """Plans on a thread of its own, which begins when it is first needed; the run goes on meanwhile.

    Parameters
    ----------
    board : Board
        The run; only the thread that calls `turn` touches it.
    counts : Counts
        The run's.
    """

    def __init__(self, board: Board, counts: Counts) -> None:
        self._board = board
        self._counts = counts
        self._worker = Worker("syclsched replanning")
        self._step: Final = max(FEWEST, int(SHARE * len(board.waiting)))
        self._next = 0
        self._planning = False
        self._made: tuple[Ints, Ints] | None = None

    def turn(self) -> bool:
        """Take over a plan that is ready; have one made if it is time to. Return whether another is followed."""
        board, made = self._board, self._made
        if self._planning and made is not None:
            self._made, self._planning = None, False
            follow(board, *made)
            self._counts.replanned += 1
            return True
        started = board.counters[STARTED]
        early = started < self._next or board.scalars[DEVIATION] <= board.scalars[BOUND]
        if not (self._planning or early or len(board.waiting) - started <= len(board.device_of)):
            self._next = int(started) + self._step
            self._planning = True
            frontier = frontier_of(board)
            self._worker.post(lambda: self._plan(frontier))
        return False

    def stop(self) -> None:
        """Let the thread end."""
        self._worker.stop()

    def _plan(self, frontier: Frontier) -> None:
        self._made = plan_frontier(frontier)
