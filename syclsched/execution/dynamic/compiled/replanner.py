# SPDX-License-Identifier: Apache-2.0
"""Background replanning of the remaining tasks of a hybrid run whose durations deviate from its plan."""

from __future__ import annotations

from typing import Final

from syclsched.execution.core.execution_records import Counts
from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.dynamic.compiled.compiled_loop import NEVER
from syclsched.scheduling.dynamic.compiled.replanning import RunSnapshot, plan_snapshot, snapshot_of, switch_plan
from syclsched.scheduling.dynamic.compiled.run_state import BOUND, DEVIATION, STARTED, RunState, bytes_between
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Ints

#: Tasks to start between two replannings: a share of all tasks, and at least this number.
SHARE, FEWEST = 1 / 16, 4


class Replanner:
    """Replans on a background thread, started on first use, while the run continues."""

    def __init__(self, run_state: RunState, problem: Problem, counts: Counts) -> None:
        self._run_state = run_state
        self._succ_bytes = bytes_between(problem)
        self._counts = counts
        self._worker = WorkerThread("syclsched replanning")
        self._step: Final = max(FEWEST, int(SHARE * len(run_state.waiting)))
        self._next = 0
        self._planning = False
        self._made: tuple[Ints, Ints] | None = None

    def poll(self, asked: Ints) -> int:
        """Adopt a finished plan, or start replanning if due; return from how many started tasks to call again."""
        run_state, made = self._run_state, self._made
        if self._planning and made is not None:
            self._made, self._planning = None, False
            switch_plan(run_state, *made)
            self._counts.replanned += 1
        started = int(run_state.counters[STARTED])
        if self._planning or len(run_state.waiting) - started <= len(run_state.known.device_of):
            return NEVER
        if started < self._next or run_state.scalars[DEVIATION] <= run_state.scalars[BOUND]:
            return self._next
        self._next, self._planning = started + self._step, True
        frontier = snapshot_of(run_state, self._succ_bytes)
        self._worker.post(lambda: self._plan(frontier, asked))
        return NEVER

    def stop(self) -> None:
        """Stop the thread."""
        self._worker.stop()

    def _plan(self, frontier: RunSnapshot, asked: Ints) -> None:
        self._made = plan_snapshot(frontier)
        asked[0] = 1
