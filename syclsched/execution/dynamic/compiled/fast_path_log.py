# SPDX-License-Identifier: Apache-2.0
"""Log entries and progress of the compiled fast path, read from its run state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.dynamic.compiled.compiled_loop import PROCESSED, SUBMITTED, EventLoop
from syclsched.execution.dynamic.data.coherence import Stamp
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.submission.execution_log import LogEntry
from syclsched.execution.dynamic.submission.in_flight import progress_at
from syclsched.execution.lanes.lanes import Completion
from syclsched.scheduling.dynamic.compiled.data_directory import (
    COPY_FOR,
    COPY_FROM,
    COPY_PIECE,
    COPY_TO,
    FIRST_COPY,
    READERS,
    SPACE,
)
from syclsched.scheduling.dynamic.compiled.run_state import RunState


class FastPathLog:
    """Progress and log of a fast-path run."""

    def __init__(self, layout: IndexedGraph, run_state: RunState, only: int | None) -> None:
        self._layout, self._run_state, self._only = layout, run_state, only
        self._tasks = len(layout.tasks)

    def is_submitted(self, task: int) -> bool:
        """Return whether a task was submitted."""
        return bool(self._run_state.place[task] >= 0)

    def is_done(self, thing: int) -> bool:
        """Return whether a task or a copy has completed."""
        run_state = self._run_state
        return bool(run_state.place[thing] >= 0 and run_state.place[thing] < run_state.done[run_state.lane[thing]])

    def spaces(self, task: int) -> tuple[int, ...]:
        """Return the space of each access of a submitted task."""
        places = self._run_state.places
        if self._only is not None:
            return (self._only,) * len(self._layout.touches[task])
        return tuple(places.touches[places.touch_start[task] : places.touch_start[task + 1], SPACE].tolist())

    def where(self, piece: int) -> int | None:
        """Return a space in which the current value of a piece can be read now, host memory if possible."""
        run_state, places, layout = self._run_state, self._run_state.places, self._layout
        if self._only is not None:
            given = layout.given_in[piece] if layout.pieces[piece].is_input else None
            return self._only if layout.last_writer[piece] >= 0 else given
        found = None
        for space in range(len(places.links)):
            valid, lane, place = places.directory[piece, space, :READERS].tolist()
            if valid and (lane < 0 or place < run_state.done[lane]):
                found = space if found is None or space == layout.host_space else found
        return found

    def positions(self) -> list[LaneProgress]:
        """Return the progress of unfinished lanes; for any thread."""
        run_state, layout, found = self._run_state, self._layout, []
        for lane in range(len(layout.lanes)):
            done, given = int(run_state.done[lane]), int(run_state.submitted[lane])
            thing = int(run_state.flight[lane, done]) if given > done else self._tasks
            if thing < self._tasks:
                found.append(progress_at(layout, lane, thing, given - done))
        return found

    def tasks_done(self) -> dict[int, int]:
        """Return the number of completed tasks of each lane; for any thread."""
        run_state = self._run_state
        lane, place = run_state.lane[: self._tasks], run_state.place[: self._tasks]
        is_done = (place >= 0) & (place < run_state.done[lane])
        return dict(enumerate(np.bincount(lane[is_done], minlength=len(run_state.done)).tolist()))

    def entries(self, driver: EventLoop, reports: Mapping[int, Completion], on_host: Collection[int]) -> list[LogEntry]:
        """Return the log entries after the input copies, in order of submission."""
        run_state = self._run_state
        machine = driver.machine
        handed = run_state.started[: machine.state[PROCESSED]]
        submitted = handed[~run_state.is_host[run_state.lane[handed]]][: machine.state[SUBMITTED]]
        submit_ns = dict(zip(submitted.tolist(), driver.submit_ns.tolist(), strict=False))
        ordered = [[0] * len(self._layout.lanes) for _ in self._layout.lanes]
        found = []
        for thing in handed.tolist():
            if thing not in submit_ns and thing not in on_host:
                continue
            lane = int(run_state.lane[thing])
            waits = []
            for other, place in enumerate(run_state.waits[thing, len(ordered) :].tolist()):
                if other != lane and place >= ordered[lane][other]:
                    ordered[lane][other] = place + 1
                    waits.append((other, place))
            record = self._record(thing, machine, reports.get(thing), submit_ns)
            entry = self._entry if thing < self._tasks else self._copy
            found.append(entry(thing, lane, tuple(waits), record))
        return found

    def _record(self, thing: int, machine: Any, report: Completion | None, submit_ns: Mapping[int, int]) -> Record:
        if report is not None:
            return Record(report.start_ns or 0, start_ns=report.start_ns or 0, finish_ns=report.finish_ns)
        times = (int(machine.start_ns[thing]), int(machine.end_ns[thing]))
        return Record(submit_ns.get(thing, 0), device_ns=times if self.is_done(thing) else None)

    def _entry(self, task: int, lane: int, waits: tuple[Stamp, ...], record: Record) -> LogEntry:
        run_state, layout = self._run_state, self._layout
        barrier, start_s = layout.tasks[task].kind == "barrier", float(run_state.start_s[task])
        return LogEntry(
            "barrier" if barrier else "host" if run_state.is_host[lane] else "launch",
            lane,
            task,
            tuple([touch.piece for touch in layout.touches[task]]),
            self.spaces(task),
            (lane, int(run_state.place[task])),
            waits,
            start_s,
            start_s + float(run_state.estimate_s[task]),
            record,
            layout.lanes[lane].number,
        )

    def _copy(self, thing: int, lane: int, waits: tuple[Stamp, ...], record: Record) -> LogEntry:
        places = self._run_state.places
        number = thing - int(places.counters[FIRST_COPY])
        return LogEntry(
            "copy",
            lane,
            int(places.copies[number, COPY_FOR]),
            (int(places.copies[number, COPY_PIECE]),),
            (int(places.copies[number, COPY_FROM]), int(places.copies[number, COPY_TO])),
            (lane, int(self._run_state.place[thing])),
            waits,
            float(places.copy_s[number, 0]),
            float(places.copy_s[number, 1]),
            record,
        )
