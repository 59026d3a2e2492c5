# SPDX-License-Identifier: Apache-2.0
"""Which tasks failed, and which must not run because of it: followed through values, not copies of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from syclsched.errors import ExecutionError, TaskFailedError
from syclsched.execution.failures import Failures, Reason, task_failed
from syclsched.execution.program import Buffer
from syclsched.model.plan import Instruction, PlannedTask

#: Where a value is that may be anywhere.
SOMEWHERE = ""
#: In the place of a code of the runtime's, for a task that is past its deadline.
_LATE = 0


class LiveFailures(Failures):
    """Failures of values: `SOMEWHERE` is the only space."""

    def is_lost(self, buffer: Buffer) -> bool:
        """Return whether a value is missing, wherever it is looked for."""
        return super().is_lost((buffer[0], SOMEWHERE))

    def forget(self) -> None:
        """Forget what is missing, and keep the errors."""
        self._bad.clear()
        self._dead.clear()


class Outcomes:
    """Outcomes by index of task."""

    def __init__(self, tasks: Mapping[str, PlannedTask], instruction: Callable[[int], Instruction]) -> None:
        self.failures = LiveFailures(tasks)
        self._instruction = instruction
        self._started: list[int] = []
        self._out: set[int] = set()
        #: Tasks that did nothing at all, and never will.
        self.never_begun: set[int] = set()
        self._codes: dict[int, int] = {}

    def cancels(self, task: int) -> bool:
        """Return whether a task must not run because of what failed before."""
        return not self.failures.none and self.failures.cancels(self._instruction(task))

    def has_failed(self, task: int) -> bool:
        """Return whether a task has failed or was left out."""
        return task in self._out

    def done(self, task: int) -> None:
        """Note that a task was submitted: what it writes is good, as far as is known."""
        self._started.append(task)
        if not self.failures.none:
            self.failures.done(self._instruction(task))

    def left_out(self, task: int) -> None:
        """Note that a task does not run: what it writes is missing."""
        self.never_begun.add(task)
        self._started.append(task)
        self._out.add(task)
        self.failures.lost(self._instruction(task))

    def failed(self, task: int, verb: str, cause: BaseException, reason: Reason) -> None:
        """Note what a task failed of; what it writes is missing."""
        instruction = self._instruction(task)
        self._out.add(task)
        self.failures.record(instruction, task_failed(instruction, cause, verb), reason)
        self.failures.lost(instruction)

    def late(self, task: int, error: TaskFailedError) -> dict[int, Literal["failed", "cancelled"]]:
        """Note that a task is past its deadline: what it writes, when it ends, counts as missing."""
        self.failures.record(self._instruction(task), error, "deadline")
        self._codes[task] = _LATE
        return self.spoilt()

    def note(self, task: int, error: TaskFailedError) -> None:
        """Keep the error that a task reports of itself; what it wrote is there."""
        self.failures.record(self._instruction(task), error, "status")

    def failed_on_device(self, task: int, code: int) -> dict[int, Literal["failed", "cancelled"]]:
        """Note that a task failed on its device after it had been submitted, with all that came after it."""
        cause = ExecutionError(f"the runtime gives it status {code}")
        instruction = self._instruction(task)
        self.failures.record(instruction, task_failed(instruction, cause, "failed on its device:"), "device")
        self._codes[task] = code
        return self.spoilt()

    def spoilt(self) -> dict[int, Literal["failed", "cancelled"]]:
        """Return what failed after it had been begun, and what was begun and depends on what failed."""
        found: dict[int, Literal["failed", "cancelled"]] = {}
        self.failures.forget()
        for each in self._started:
            instruction = self._instruction(each)
            if each in self._codes or each in self._out or self.failures.cancels(instruction):
                self.failures.lost(instruction)
                if each not in self._out:
                    found[each] = "failed" if each in self._codes else "cancelled"
            else:
                self.failures.done(instruction)
        return found
