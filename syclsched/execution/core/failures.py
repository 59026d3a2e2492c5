# SPDX-License-Identifier: Apache-2.0
"""Failure propagation in a run: failed instructions and the dependents they cancel. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from syclsched.errors import ExecutionError, SyclschedError, TaskFailedError
from syclsched.execution.core.program import Buffer
from syclsched.model.access import merge_range_names
from syclsched.model.plan import Instruction, PlannedTask
from syclsched.model.text.units import listed

#: Arrays that an error lists.
_MOST_ARRAYS = 8

InvalidOutcome = Literal["failed", "cancelled"]

#: Why an instruction failed: the runtime refused the submission; a host copy failed; memory could not be allocated; its
#: device failed after submission; the task raised; its status value reports a failure; a check of its results failed;
#: it is past its deadline.
FailureReason = Literal["submission", "copy", "memory", "device", "raised", "status", "check", "deadline"]


class InstructionFailure(NamedTuple):
    """Failure of one instruction."""

    instruction: Instruction
    error: TaskFailedError  # raised to the caller
    reason: FailureReason


class Failures:
    """Propagates invalid values through buffers, and failed tasks through explicit edges.

    An instruction is cancelled if it would read a buffer whose value is missing because its writer failed or was
    cancelled, or if an explicit edge orders its task after such a task. A barrier only orders: it does not propagate
    failures. Nor does a write that does not need the old value.
    """

    def __init__(self, tasks: Mapping[str, PlannedTask]) -> None:
        self._tasks = tasks
        self._bad: set[Buffer] = set()
        self._dead: set[str] = set()
        self._failures: list[InstructionFailure] = []
        #: Instructions that were never started.
        self.not_started: set[int] = set()
        #: Instructions that were started but whose results are invalid.
        self.invalid: set[int] = set()
        #: Returns whether a failure will be recovered from; then no more instructions start.
        self.halts: Callable[[Instruction, FailureReason], bool] | None = None
        #: Whether a failure has stopped the run, so that no more instructions start.
        self.halted = False

    @property
    def none(self) -> bool:
        """Whether no failure or cancellation is in effect."""
        return not self._bad and not self._dead

    def cancels(self, instruction: Instruction) -> bool:
        """Return whether earlier failures cancel an instruction."""
        if self.none:
            return False
        if any(use.mode.reads and (use.array, use.space) in self._bad for use in instruction.uses):
            return True
        task = self._tasks.get(instruction.task or "")
        if task is None or instruction.kind not in ("launch", "host"):
            return False
        if instruction.again and task.name in self._dead:
            return True  # it would fail again
        return any(before in self._dead for before in task.after)

    def done(self, instruction: Instruction) -> None:
        """Note that an instruction was executed or submitted: the buffers it writes are valid."""
        if self._bad:
            self._bad.difference_update((use.array, use.space) for use in instruction.uses if use.mode.writes)

    def lost(self, instruction: Instruction, *, begun: bool = False) -> None:
        """Note that an instruction failed or was cancelled: the values it writes are missing."""
        (self.invalid if begun else self.not_started).add(instruction.id)
        self._bad.update((use.array, use.space) for use in instruction.uses if use.mode.writes)
        if instruction.kind in ("launch", "host") and instruction.task is not None:
            self._dead.add(instruction.task)

    def invalidate(self, buffers: Iterable[Buffer]) -> None:
        """Mark the values of some buffers as invalid."""
        self._bad.update(buffers)

    def record(self, instruction: Instruction, error: TaskFailedError, reason: FailureReason = "raised") -> None:
        """Record an instruction's error for the caller."""
        self._failures.append(InstructionFailure(instruction, error, reason))
        if self.halts is not None and self.halts(instruction, reason):
            self.halted = True

    @property
    def all(self) -> tuple[InstructionFailure, ...]:
        """All failures, in the plan's order."""
        return tuple(sorted(self._failures, key=lambda failed: failed.instruction.id))

    def clear_frames(self) -> None:
        """Clear the local variables of the functions that raised: their arrays are in memory that is freed now.

        Tools that show variables of a traceback, as pytest and error reporters do, would crash the process.
        """
        for failure in self._failures:
            waiting: list[BaseException | None] = [failure.error.__cause__]
            seen = set[int]()
            while waiting:
                error = waiting.pop()
                if error is not None and id(error) not in seen:
                    seen.add(id(error))
                    traceback.clear_frames(error.__traceback__)
                    waiting += (error.__cause__, error.__context__)

    def is_lost(self, buffer: Buffer) -> bool:
        """Return whether a buffer's value is missing."""
        return buffer in self._bad

    def lost_task(self, task: str) -> bool:
        """Return whether a task failed or was cancelled."""
        return task in self._dead

    @property
    def first(self) -> TaskFailedError | None:
        """Error of the first failed task in the plan's order, or None."""
        return min(self._failures, key=lambda failed: failed.instruction.id).error if self._failures else None

    def renew(self, walked: Failures) -> None:
        """Replace the invalid values by those of a walk over all instructions, and add its failures."""
        self._bad, self._dead = walked._bad, walked._dead
        self.invalid |= walked.invalid


def task_failed_error(instruction: Instruction, cause: BaseException, verb: str) -> TaskFailedError:
    """Return the error to raise for a task whose instruction failed."""
    task = instruction.task or instruction.kind
    names = dict.fromkeys(merge_range_names(use.array for use in instruction.uses))  # of a copy both ends have one
    arrays = listed([repr(name) for name in names], _MOST_ARRAYS)
    message = str(cause) if isinstance(cause, SyclschedError) else f"{type(cause).__name__}: {cause}"
    place = f"task {task!r}" + (f" (arrays {arrays})" if arrays else "")
    error = TaskFailedError(f"{verb} {message}".rstrip(": "), task=task, where=place)
    error.__cause__ = cause
    return error


def propagate_device_failures(
    failures: Failures, instructions: Iterable[Instruction], codes: Mapping[int, int], *, walk: bool = False
) -> dict[int, Literal["failed", "cancelled"]]:
    """Propagate device failures after submission; return the outcomes of instructions found failed or dependent.

    The instructions come in the order in which the values of each buffer replace each other.
    """
    found: dict[int, InvalidOutcome] = {}
    if not codes and not walk:
        return found
    # Walk from the beginning: a value that is missing at the end may have been valid when it was read.
    walked = Failures(failures._tasks)
    for instruction in instructions:
        number = instruction.id
        if number in failures.not_started or number in failures.invalid:
            walked.lost(instruction, begun=number in failures.invalid)
        elif walked.cancels(instruction):
            found[number] = "cancelled"
            walked.lost(instruction, begun=True)
        elif number in codes:
            found[number] = "failed"
            cause = ExecutionError(f"the runtime gives it status {codes[number]}")
            failures.record(instruction, task_failed_error(instruction, cause, "failed on its device:"), "device")
            walked.lost(instruction, begun=True)
        else:
            walked.done(instruction)
    failures.renew(walked)
    return found
