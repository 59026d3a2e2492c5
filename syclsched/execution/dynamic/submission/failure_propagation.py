# SPDX-License-Identifier: Apache-2.0
"""Propagation of submission and device failures to dependent tasks, recorded in the log."""

from __future__ import annotations

from syclsched.errors import ExecutionError
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.execution_records import Outcome, Record
from syclsched.execution.dynamic.data.coherence import CoherenceDirectory
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.submission.execution_log import ExecutionLog
from syclsched.execution.dynamic.submission.in_flight import InFlightTask
from syclsched.execution.dynamic.submission.task_outcomes import TaskOutcomes


class FailurePropagator:
    """Propagates failures of submitted work, and records them in the log."""

    def __init__(
        self, layout: IndexedGraph, log: ExecutionLog, directory: CoherenceDirectory, outcomes: TaskOutcomes
    ) -> None:
        self._layout, self._log, self._directory, self._outcomes = layout, log, directory, outcomes

    def failed_on_device(self, lost: InFlightTask, code: int) -> None:
        """Record a task or copy that failed on its device, with the runtime's code."""
        cause = ExecutionError(f"the runtime gives it status {code}")
        if lost.entry.kind == "copy":
            self.lose(lost, "failed on its device:", cause)
            return
        for task, outcome in self._outcomes.failed_on_device(lost.task, code).items():
            self.set_outcome(task, outcome)

    def lose(self, lost: InFlightTask, verb: str, cause: BaseException) -> None:
        """Record a task or copy that did not run; a lost copy fails its task and all readers of its data."""
        self._outcomes.failed(lost.task, verb, cause, "copy" if lost.entry.kind == "copy" else "submission")
        entry = lost.entry
        if entry.kind != "copy":
            return
        entry.record = entry.record or Record(now_ns())
        entry.record.outcome = "failed"
        destination = entry.spaces[1]
        for piece in entry.pieces:
            if destination in self._directory.valid[piece]:
                self._directory.valid[piece].remove(destination)
        later = self._log.entries[self._log.entries.index(entry) + 1 :]
        for other in later:
            if other.kind in ("launch", "host") and any(
                touch.reads and touch.piece in entry.pieces and space == destination
                for touch, space in zip(self._layout.touches[other.task], other.spaces, strict=False)
            ):
                self._outcomes.failed(other.task, verb, cause, "copy")
                self.set_outcome(other.task, "failed")
        if later:  # tasks that read their results may have been submitted, too
            for task, outcome in self._outcomes.spoilt().items():
                self.set_outcome(task, outcome)

    def set_outcome(self, task: int, outcome: Outcome) -> None:
        """Record the outcome of a task in the log."""
        for entry in self._log.entries:
            if entry.task == task and entry.kind in ("launch", "host", "barrier"):
                entry.record = entry.record or Record(now_ns())
                entry.record.outcome = outcome
