# SPDX-License-Identifier: Apache-2.0
"""Lane progress of a dynamic run, for the watchdog and for messages; callable from any thread."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.data.submission_lookahead import InFlightQueue
from syclsched.execution.dynamic.submission.in_flight import InFlightTask


def progress_of(layout: IndexedGraph, in_flight: Sequence[InFlightQueue[InFlightTask]]) -> list[LaneProgress]:
    """Return the progress of unfinished lanes; tasks are numbered by index."""
    found = []
    for lane, given in zip(layout.lanes, in_flight, strict=False):
        first = next(iter(tuple(given.items)), None)
        if first is not None:
            task, entry = layout.tasks[first[0].task].name, first[0].entry
            copied = entry.kind == "copy"
            name = f"a copy for task {task!r}" if copied else f"task {task!r}"
            number = len(layout.tasks) + first[0].place if copied else first[0].task
            found.append(LaneProgress(lane.name, lane.device, number, name, task, 1, len(given), None, True, 0.0))
    return found
