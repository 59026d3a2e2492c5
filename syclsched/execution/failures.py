# SPDX-License-Identifier: Apache-2.0
"""What failed in a run, and what must not run because of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from syclsched.errors import ExecutionError, SyclschedError, TaskFailedError
from syclsched.execution.program import Buffer
from syclsched.model.plan import Instruction, Plan, PlannedTask

Bad = Literal["failed", "cancelled"]

#: Why an instruction failed: the runtime refused it; a copy by the host failed; there was no memory; its device failed
#: after it had been submitted; the task itself raised; the task reports by its status that it failed; what it
#: wrote is not as it should be; it is past its deadline.
Reason = Literal["submission", "copy", "memory", "device", "raised", "status", "check", "deadline"]


class Failed(NamedTuple):
    """One failure."""

    instruction: Instruction  # what failed
    error: TaskFailedError  # as the caller gets it
    reason: Reason  # see `Reason`


class Failures:
    """Follows bad values through buffers, and failed tasks through explicit edges.

    An instruction is cancelled if it would read a buffer whose value is missing because its writer failed or was
    cancelled, or if its task comes explicitly after such a task. A barrier is only an order and lets others go on; so
    does a write that needs no old value.
    """

    def __init__(self, tasks: Mapping[str, PlannedTask]) -> None:
        self._tasks = tasks
        self._bad: set[Buffer] = set()
        self._dead: set[str] = set()
        self._errors: list[Failed] = []
        #: Instructions that were never begun, and those that were, but whose results are no good.
        self.left_out: set[int] = set()
        self.spoilt: set[int] = set()
        #: Says of what fails whether it will be recovered from; then nothing more is to be begun.
        self.halts: Callable[[Instruction, Reason], bool] | None = None
        #: Whether nothing more is to be begun.
        self.halted = False

    @property
    def none(self) -> bool:
        """Whether nothing has failed or been cancelled so far."""
        return not self._bad and not self._dead

    def cancels(self, instruction: Instruction) -> bool:
        """Return whether an instruction must not run because of what failed before."""
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
        """Note that an instruction ran, or was submitted: what it writes is good."""
        if self._bad:
            self._bad.difference_update((use.array, use.space) for use in instruction.uses if use.mode.writes)

    def lost(self, instruction: Instruction, *, begun: bool = False) -> None:
        """Note that an instruction failed or was cancelled: what it writes is missing."""
        (self.spoilt if begun else self.left_out).add(instruction.id)
        self._bad.update((use.array, use.space) for use in instruction.uses if use.mode.writes)
        if instruction.kind in ("launch", "host") and instruction.task is not None:
            self._dead.add(instruction.task)

    def spoil(self, buffers: Iterable[Buffer]) -> None:
        """Note that the values of some buffers are not what they should be."""
        self._bad.update(buffers)

    def record(self, instruction: Instruction, error: TaskFailedError, reason: Reason = "raised") -> None:
        """Keep an error for the caller."""
        self._errors.append(Failed(instruction, error, reason))
        if self.halts is not None and self.halts(instruction, reason):
            self.halted = True

    @property
    def all(self) -> tuple[Failed, ...]:
        """What failed, in the plan's order."""
        return tuple(sorted(self._errors, key=lambda failed: failed.instruction.id))

    def is_lost(self, buffer: Buffer) -> bool:
        """Return whether a buffer's value is missing."""
        return buffer in self._bad

    def lost_task(self, task: str) -> bool:
        """Return whether a task failed or was cancelled."""
        return task in self._dead

    @property
    def first(self) -> TaskFailedError | None:
        """The error of the first task in the plan's order, or None."""
        return min(self._errors, key=lambda failed: failed.instruction.id).error if self._errors else None

    def renew(self, walked: Failures) -> None:
        """Take over which values are missing, and what failed on its device, from a walk over all instructions."""
        self._bad, self._dead = walked._bad, walked._dead
        self.spoilt |= walked.spoilt


def task_failed(instruction: Instruction, cause: BaseException, verb: str) -> TaskFailedError:
    """Return the error of a task whose instruction raised."""
    task = instruction.task or instruction.kind
    arrays = ", ".join(repr(use.array) for use in instruction.uses)
    said = str(cause) if isinstance(cause, SyclschedError) else f"{type(cause).__name__}: {cause}"
    place = f"task {task!r}" + (f" (arrays {arrays})" if arrays else "")
    error = TaskFailedError(f"{verb} {said}".rstrip(": "), task=task, where=place)
    error.__cause__ = cause
    return error


def note_device_failures(
    failures: Failures, plan: Plan, codes: Mapping[int, int], *, walk: bool = False
) -> dict[int, Literal["failed", "cancelled"]]:
    """Note what failed on its device after it had been submitted, and what depends on it: its values are no good."""
    found: dict[int, Bad] = {}
    if not codes and not walk:
        return found
    # From the beginning: a value that is missing at the end may have been there when it was read.
    walked = Failures(failures._tasks)
    for _, instruction in plan.instructions():
        number = instruction.id
        if number in failures.left_out or number in failures.spoilt:
            walked.lost(instruction, begun=number in failures.spoilt)
        elif walked.cancels(instruction):
            found[number] = "cancelled"
            walked.lost(instruction, begun=True)
        elif number in codes:
            found[number] = "failed"
            cause = ExecutionError(f"the runtime gives it status {codes[number]}")
            failures.record(instruction, task_failed(instruction, cause, "failed on its device:"), "device")
            walked.lost(instruction, begun=True)
        else:
            walked.done(instruction)
    failures.renew(walked)
    return found
