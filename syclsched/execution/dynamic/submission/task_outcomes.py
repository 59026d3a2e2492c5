# SPDX-License-Identifier: Apache-2.0
"""Failed tasks and their cancelled descendants, tracked by value rather than by copy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from syclsched.errors import TaskFailedError
from syclsched.execution.core.failures import (
    FailureReason,
    Failures,
    InvalidOutcome,
    propagate_device_failures,
    task_failed_error,
)
from syclsched.execution.core.program import Buffer
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
        return {task: "failed", **self.spoilt()}

    def note(self, task: int, error: TaskFailedError) -> None:
        """Record an error that a task reports in its status; its results are valid."""
        self.failures.record(self._instruction(task), error, "status")

    def failed_on_device(self, task: int, code: int) -> dict[int, InvalidOutcome]:
        """Record a device failure of a submitted task; return the outcomes of affected tasks."""
        return self.spoilt({self._instruction(task).id: code})

    def spoilt(self, codes: Mapping[int, int] = MappingProxyType({})) -> dict[int, InvalidOutcome]:
        """Return the started tasks newly found failed, by the runtime's codes, or dependent on failed ones."""
        instructions = [self._instruction(task) for task in self._started]
        found = propagate_device_failures(self.failures, instructions, codes, walk=True)
        numbers = [instruction.id for instruction in instructions]
        return {task: found[number] for task, number in zip(self._started, numbers, strict=True) if number in found}
