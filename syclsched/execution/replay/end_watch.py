# SPDX-License-Identifier: Apache-2.0
"""End watches: the part of a replay that waits for the devices after the last submission, and ends the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.lanes.eventfd_wakeup import EventFd

if TYPE_CHECKING:
    from syclsched.execution.replay.replay import Replay

#: Sorts after every submission.
_NOTHING = (1 << 62, "")


class EndWatch:
    """The worker waits for the devices and ends the run, at once or when the host steps are done."""

    #: Whether other instances have work on the same lanes.
    shares_lanes = False
    #: Whether an eventfd will be signalled when the run may have ended.
    signals = False

    def submitted(self, run: Replay) -> None:
        """Wait for the end of a run: nothing more will be submitted. Called under the run's lock."""
        if run.steps is None and not run.ends_itself:  # the host thread ends a run with steps
            run.worker.post(run.end)

    def cancelled(self, run: Replay) -> None:
        """Note that a run was cancelled after its last submission."""

    def steps_done(self, run: Replay, *, on_worker: bool) -> None:
        """End a run whose host steps are done, on the worker if that submits; called on the host thread."""
        if on_worker:
            run.worker.post(run.end)
        else:
            run.end()

    def positions(self, run: Replay) -> list[LaneProgress]:
        """Return the progress of the run's unfinished lanes."""
        return run.own_positions()


#: The watch of all runs that are no instances of a stream.
WORKER_WATCH = EndWatch()


class PolledEndWatch(EndWatch):
    """Another thread polls for the end of the run, by `Replay.end_if_complete`: an instance of a stream.

    The worker that waits for the devices cannot report an instance's end in time: on CPU devices the runtime makes a
    waiting thread execute further kernels before its wait returns, and with several instances in flight there is always
    another kernel. So the worker only contributes its core; completion is signalled through an eventfd.
    """

    shares_lanes = True

    def __init__(self, eventfd: EventFd | None, lane_sharers: Callable[[], Iterable[Replay]]) -> None:
        self._eventfd = eventfd
        self._lane_sharers = lane_sharers

    def submitted(self, run: Replay) -> None:
        """Have the worker wait for the devices, and the eventfd signalled."""
        if run.cancelled or run.error is not None:
            run.post_end()
            return
        run.wait_on_worker()
        fd = None if self._eventfd is None else self._eventfd.fd
        last = [number for number in run.program.last_of_lanes if run.loop.has_event(number)]
        self.signals = fd is not None and all(run.loop.signal_eventfd(number, fd) for number in last)

    def cancelled(self, run: Replay) -> None:
        """Have the worker end the run: no caller may poll it any more."""
        run.post_end()

    def steps_done(self, run: Replay, *, on_worker: bool) -> None:
        """Do nothing: the polling thread ends the run."""

    def positions(self, run: Replay) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes; work queued after another instance's work waits for that."""
        ahead: dict[str, tuple[int, str]] = {}
        for rival in self._lane_sharers():
            if rival is not run and not rival.finished.is_set():
                for p in rival.own_positions():
                    if p.runs:
                        ahead[p.lane] = min(ahead.get(p.lane, _NOTHING), (_submitted_ns(rival, p.number), p.name))
        return [
            replace(p, waits_for=f"{ahead[p.lane][1]} of another generation on {p.lane}")
            if p.runs and ahead.get(p.lane, _NOTHING)[0] < _submitted_ns(run, p.number)
            else p
            for p in run.own_positions()
        ]


def _submitted_ns(run: Replay, number: int) -> int:
    """Return the host-clock time at which an instruction was submitted; 0 if it was not."""
    found = np.flatnonzero(run.commands.slot_numbers == number)
    return int(run.commands.submit_ns()[found[0]]) if len(found) else 0
