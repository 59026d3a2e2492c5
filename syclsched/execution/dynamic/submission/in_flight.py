# SPDX-License-Identifier: Apache-2.0
"""In-flight tasks and copies of a dynamic run, and completed tasks."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.execution.core.execution_records import Record
from syclsched.execution.dynamic.data.coherence import Stamp
from syclsched.execution.dynamic.submission.execution_log import LogEntry
from syclsched.execution.lanes.instruction_submitter import SubmissionRequest


@dataclass(slots=True)
class InFlightTask:
    """A task or copy in flight on a lane."""

    task: int  # the task, or for a copy the task that needs it
    place: int  # sequence number in the lane
    entry: LogEntry  # log entry
    request: SubmissionRequest | None = None  # the submission; None on host lanes
    ended: bool = False  # whether a host task has ended
    #: Of a task skipped on a host lane: the stamps that must complete before it counts as complete.
    behind: tuple[Stamp, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletedTask:
    """A task that has completed."""

    task: int
    processor: int
    seconds: float | None  # its duration; None if it failed or was skipped


def measured_s(record: Record | None) -> float | None:
    """Return the duration of an executed instruction; None if it is not known."""
    if record is None or record.outcome != "done" or record.start_ns is None or record.finish_ns is None:
        return None
    return (record.finish_ns - record.start_ns) * 1e-9
