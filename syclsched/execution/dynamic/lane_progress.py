# SPDX-License-Identifier: Apache-2.0
"""Lane progress of a dynamic run, for the watchdog and for messages; callable from any thread."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.data.submission_lookahead import InFlightQueue
from syclsched.execution.dynamic.submission.in_flight import InFlightTask


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
