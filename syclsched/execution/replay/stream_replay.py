# SPDX-License-Identifier: Apache-2.0
"""Replay of one plan instance of a stream: submitted in stages, finished by the thread that polls the stream.

The worker that waits for the devices cannot report an instance's end in time: on CPU devices the runtime makes a
waiting thread execute further kernels before its wait returns, and with several instances in flight there is always
another kernel. So the worker only contributes its core; completion is signalled through an eventfd (`EventFd`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.lanes.eventfd_wakeup import EventFd
from syclsched.execution.replay.replay import Replay
from syclsched.interrupts import interrupts_deferred

#: Sorts after every submission.
_NOTHING = (1 << 62, "")


class StagedReplay(Replay):
    """A replay submitted stage by stage with `submit_until`, and ended with `finish`."""

    #: Signalled when the instance may have ended, if `rings`.
    eventfd: EventFd | None = None
    signals_eventfd = False
    _finishing = False
    _places: dict[int, int] | None = None

    #: Returns the instances that share the lanes.
    lane_sharers: Callable[[], Iterable[StagedReplay]] = staticmethod(tuple)

    def positions(self) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes; work queued after another instance's work waits for that."""
        ahead: dict[str, tuple[int, str]] = {}
        for rival in self.lane_sharers():
            if rival is not self and not rival.finished.is_set():
                for p in rival.isolated_positions():
                    if p.runs:
                        ahead[p.lane] = min(ahead.get(p.lane, _NOTHING), (rival.submitted_ns(p.number), p.name))
        return [
            replace(p, waits_for=f"{ahead[p.lane][1]} of another generation on {p.lane}")
            if p.runs and ahead.get(p.lane, _NOTHING)[0] < self.submitted_ns(p.number)
            else p
            for p in self.isolated_positions()
        ]

    def isolated_positions(self) -> list[LaneProgress]:
        """Return the progress of the unfinished lanes, ignoring other instances."""
        return super().positions()

    def submitted_ns(self, number: int) -> int:
        """Return the host-clock time at which an instruction was submitted; 0 if it was not."""
        if self._places is None:
            self._places = {slot: place for place, slot in enumerate(self._commands.slots)}
        place = self._places.get(number)
        return 0 if place is None else int(self._commands.submit_ns()[place])

    def start(self) -> None:
        """Mark the run as begun; `submit_until` submits."""
        self.begun = True
        self._commands.begin()
        self._submitted_all.set()  # the thread that needs a result submits the rest itself

    def lend(self) -> None:
        """Have the worker wait for the latest submissions; see `Replay`."""
        with self._lock:
            if not self._ended:
                self._lend()

    def cancel(self) -> None:
        """Stop submitting; submitted commands still complete. Returns at once."""
        super().cancel()
        with self._lock:
            if self._ended and not self._over:
                self._post_finish()

    def finish(self) -> bool:
        """End the run if it is completely submitted and has completed on its devices; return whether it has ended."""
        with self._lock:
            if self._finishing or not self._ended:
                return self.finished.is_set()
            if any(self._loop.is_pending(number) for number in self.program.last_of_lanes):
                return False
            self._finishing = True
        with interrupts_deferred():  # on the caller's thread: an interrupt is the caller's, not a failure of this run
            self._finish()
        return True

    # --- inside -----------------------------------------------------------------------------------

    def _await_end(self) -> None:
        if self.cancelled or self.error is not None:
            self._post_finish()
        else:
            self._lend()
            self.signals_eventfd = self._set_alarm()

    def _set_alarm(self) -> bool:
        fd = None if self.eventfd is None else self.eventfd.fd
        last = [number for number in self.program.last_of_lanes if self._loop.has_event(number)]
        return fd is not None and all(self._loop.signal_eventfd(number, fd) for number in last)

    def _post_finish(self) -> None:
        if not self._finishing:
            self._finishing = True
            self._worker.post(self._finish)
