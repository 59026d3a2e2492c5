# SPDX-License-Identifier: Apache-2.0
"""Status values that kernels write: a non-zero value marks the task as failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from syclsched.errors import TaskFailedError
from syclsched.execution.core.execution_records import Outcome
from syclsched.execution.core.failures import Failures
from syclsched.execution.core.program import Program
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.memory.buffers import BufferLookup
from syclsched.execution.memory.readback import read_numpy


def failed_status(work: InstructionWork, buffers: BufferLookup) -> TaskFailedError | None:
    """Return the error that a task's status value reports; None if there is none."""
    if work.status is None or work.status not in buffers:
        return None
    value = int(read_numpy(buffers[work.status]).reshape(-1)[0])
    if value == 0:
        return None
    explain = work.operation.explain_status
    what = f"ended with status {value}" if explain is None else explain(value)
    arrays = ", ".join(repr(array) for parameter, array in work.task.arguments.items())
    return TaskFailedError(what, task=work.task.name, where=f"task {work.task.name!r} (arrays {arrays})")


def statuses_behind(program: Program, work: Mapping[int, InstructionWork], array: str) -> list[InstructionWork]:
    """Return the tasks with a status value that an array's final value depends on, in the plan's order."""
    with_status = {piece.task.name: piece for _, piece in sorted(work.items()) if piece.status is not None}
    if not with_status:
        return []
    writer = program.final_writers.get(array)
    ancestors = frozenset[str]() if writer is None else program.ancestors(writer)
    return [piece for name, piece in with_status.items() if name in ancestors]


def read_statuses(
    program: Program,
    work: Mapping[int, InstructionWork],
    buffers: BufferLookup,
    failures: Failures,
    done: Callable[[int], bool],
) -> dict[int, Outcome]:
    """Record the tasks whose status value reports a failure."""
    found: dict[int, Outcome] = {}
    for number, piece in sorted(work.items()):
        if piece.status is None or not done(number) or failures.lost_task(piece.task.name):
            continue
        error = failed_status(piece, buffers)
        if error is not None:
            failures.record(program.nodes[number].instruction, error, "status")
            failures.invalid.add(number)
            found[number] = "failed"
    return found
