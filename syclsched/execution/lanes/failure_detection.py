# SPDX-License-Identifier: Apache-2.0
"""Failure detection after all submissions have completed: device errors and tasks' status values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.execution_records import Outcome
from syclsched.execution.core.failures import Failures, propagate_device_failures
from syclsched.execution.core.program import Program
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.memory.buffers import BufferLookup
from syclsched.execution.memory.statuses import failed_status


def read_device_failures(
    events: SubmissionLoop | EventTable, program: Program, failures: Failures, *, walk: bool = False
) -> dict[int, Outcome]:
    """Record instructions that failed after submission, and their dependents; call it before events are released."""
    instructions = (instruction for _, instruction in program.plan.instructions())
    return {**propagate_device_failures(failures, instructions, events.failed(), walk=walk)}


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
            failures.spoilt.add(number)
            found[number] = "failed"
    return found
