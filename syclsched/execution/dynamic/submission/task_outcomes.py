# SPDX-License-Identifier: Apache-2.0
"""Failed tasks of a dynamic run and their cancelled descendants, tracked by value rather than by copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from syclsched.errors import ExecutionError, TaskFailedError
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.execution_records import Outcome, Record
from syclsched.execution.core.failures import (
    FailureReason,
    Failures,
    InvalidOutcome,
    propagate_device_failures,
    task_failed_error,
)
from syclsched.execution.core.program import Buffer
from syclsched.execution.dynamic.data.coherence import CoherenceDirectory
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.submission.execution_log import ExecutionLog
from syclsched.execution.dynamic.submission.in_flight import InFlightTask
from syclsched.model.plan import Instruction, PlannedTask

#: Space of a value whose location does not matter.
ANY_SPACE = ""


class _ValueFailures(Failures):
    """Failures tracked by value: `ANY_SPACE` is the only space."""

    def is_lost(self, buffer: Buffer) -> bool:
        """Return whether a value is missing, in any space."""
        return super().is_lost((buffer[0], ANY_SPACE))


class TaskOutcomes:
    """Failures and cancellations of one run, by task index."""

    def __init__(self, tasks: Mapping[str, PlannedTask], instruction: Callable[[int], Instruction]) -> None:
        self.failures = _ValueFailures(tasks)
        self._instruction = instruction
        self._started: list[int] = []
        self._out: set[int] = set()
        #: Tasks that did not start, and never will.
        self.never_begun: set[int] = set()

    def cancels(self, task: int) -> bool:
        """Return whether a task must not run because a predecessor failed."""
        return not self.failures.none and self.failures.cancels(self._instruction(task))

    def has_failed(self, task: int) -> bool:
        """Return whether a task failed or was skipped."""
        return task in self._out

    def done(self, task: int) -> None:
        """Record a submitted task; its results count as valid until it fails."""
        self._started.append(task)
        if not self.failures.none:
            self.failures.done(self._instruction(task))

    def left_out(self, task: int) -> None:
        """Record a skipped task; its results are missing."""
        self.never_begun.add(task)
        self._started.append(task)
        self._out.add(task)
        self.failures.lost(self._instruction(task))

    def broken_off(self, task: int) -> None:
        """Record a task whose submission was broken off: it may have begun, and its results are missing."""
        self._out.add(task)
        self.failures.lost(self._instruction(task), begun=True)

    def failed(self, task: int, verb: str, cause: BaseException, reason: FailureReason) -> None:
        """Record the failure of a task; its results are missing."""
        instruction = self._instruction(task)
        self._out.add(task)
        self.failures.record(instruction, task_failed_error(instruction, cause, verb), reason)
        self.failures.lost(instruction)

    def past_deadline(self, task: int, error: TaskFailedError) -> dict[int, InvalidOutcome]:
        """Record a task past its deadline; its results count as missing even when it ends."""
        instruction = self._instruction(task)
        self.failures.record(instruction, error, "deadline")
        self.failures.lost(instruction, begun=True)
        return {task: "failed", **self.newly_invalid()}

    def note(self, task: int, error: TaskFailedError) -> None:
        """Record an error that a task reports in its status; its results are valid."""
        self.failures.record(self._instruction(task), error, "status")

    def failed_on_device(self, task: int, code: int) -> dict[int, InvalidOutcome]:
        """Record a device failure of a submitted task; return the outcomes of affected tasks."""
        return self.newly_invalid({self._instruction(task).id: code})

    def newly_invalid(self, codes: Mapping[int, int] = MappingProxyType({})) -> dict[int, InvalidOutcome]:
        """Return the started tasks newly found failed, by the runtime's codes, or dependent on failed ones."""
        instructions = [self._instruction(task) for task in self._started]
        found = propagate_device_failures(self.failures, instructions, codes, walk=True)
        numbers = [instruction.id for instruction in instructions]
        return {task: found[number] for task, number in zip(self._started, numbers, strict=True) if number in found}


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
            for task, outcome in self._outcomes.newly_invalid().items():
                self.set_outcome(task, outcome)

    def set_outcome(self, task: int, outcome: Outcome) -> None:
        """Record the outcome of a task in the log."""
        for entry in self._log.entries:
            if entry.task == task and entry.kind in ("launch", "host", "barrier"):
                entry.record = entry.record or Record(now_ns())
                entry.record.outcome = outcome
