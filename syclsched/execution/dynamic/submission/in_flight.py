# SPDX-License-Identifier: Apache-2.0
"""In-flight tasks and copies of a dynamic run, completed tasks, and the progress of lanes.

Progress is read by the watchdog and for messages, from any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.dynamic.data.coherence import Stamp
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.data.submission_lookahead import InFlightQueue
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


def progress_at(layout: IndexedGraph, lane: int, task: int, given: int, copy_place: int | None = None) -> LaneProgress:
    """Return the progress of a lane that is at a task, or at a copy for it; the task is the first of ``given``."""
    on, name = layout.lanes[lane], layout.tasks[task].name
    number, label = task, f"task {name!r}"
    if copy_place is not None:
        number, label = len(layout.tasks) + copy_place, f"a copy for task {name!r}"
    return LaneProgress(on.name, on.device, number, label, name, 1, given, None, True, 0.0)


def progress_of(layout: IndexedGraph, in_flight: Sequence[InFlightQueue[InFlightTask]]) -> list[LaneProgress]:
    """Return the progress of unfinished lanes; tasks are numbered by index."""
    found = []
    for lane, given in enumerate(in_flight):
        first = next(iter(tuple(given.items)), None)
        if first is not None:
            place = first[0].place if first[0].entry.kind == "copy" else None
            found.append(progress_at(layout, lane, first[0].task, len(given), place))
    return found
