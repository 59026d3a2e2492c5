# SPDX-License-Identifier: Apache-2.0
"""One generation of a stream: submitted in stages, and ended by whoever looks after the stream.

The thread that waits for the devices cannot say in time that a generation is through: on devices that compute on the
host's cores the runtime has it do whatever kernel comes next before it returns from its wait, and with several
generations on their way there is always a next one. So it only lends its core, and completion rings an `Alarm`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from syclsched.execution.replay import Replay
from syclsched.execution.stream_wake import Alarm
from syclsched.execution.stuck import Position
from syclsched.interrupts import interrupts_held

#: Later than anything.
_NOTHING = (1 << 62, "")


class StagedReplay(Replay):
    """A replay that is submitted by `submit_until`, stage after stage, and ended by `finish`."""

    #: Rings when it may have ended, if `rings`.
    alarm: Alarm | None = None
    rings = False
    _finishing = False
    _places: dict[int, int] | None = None

    #: Others that go to the same lanes.
    rivals: Callable[[], Iterable[StagedReplay]] = staticmethod(tuple)

    def positions(self) -> list[Position]:
        """Return what the lanes that are not done are at: what is behind another generation's work waits for it."""
        ahead: dict[str, tuple[int, str]] = {}
        for rival in self.rivals():
            if rival is not self and not rival.finished.is_set():
                for p in rival.own_positions():
                    if p.runs:
                        ahead[p.lane] = min(ahead.get(p.lane, _NOTHING), (rival.submitted_ns(p.number), p.name))
        return [
            replace(p, waits_for=f"{ahead[p.lane][1]} of another generation on {p.lane}")
            if p.runs and ahead.get(p.lane, _NOTHING)[0] < self.submitted_ns(p.number)
            else p
            for p in self.own_positions()
        ]

    def own_positions(self) -> list[Position]:
        """Return what the lanes are at as if there were no other generation."""
        return super().positions()

    def submitted_ns(self, number: int) -> int:
        """Return when an instruction was submitted, on the host's clock."""
        if self._places is None:
            self._places = {slot: place for place, slot in enumerate(self._commands.slots)}
        place = self._places.get(number)
        return 0 if place is None else int(self._commands.submit_ns()[place])

    def start(self) -> None:
        """Submit nothing yet."""
        self.begun = True
        self._commands.begin()
        self._submitted_all.set()  # by whoever asks for it, on his own thread: there is nobody else to wait for

    def lend(self) -> None:
        """Have the worker wait for what was submitted since; see `Replay`."""
        with self._lock:
            if not self._ended:
                self._lend()

    def cancel(self) -> None:
        """Submit nothing more; what was submitted ends. Returns at once."""
        super().cancel()
        with self._lock:
            if self._ended and not self._over:
                self._have_it_finished()

    def finish(self) -> bool:
        """End the run if all of it is submitted and has completed on its devices; return whether it has ended."""
        with self._lock:
            if self._finishing or not self._ended:
                return self.finished.is_set()
            if any(self._loop.is_pending(number) for number in self.program.last_of_lanes):
                return False
            self._finishing = True
        with interrupts_held():  # The caller's thread: what comes meanwhile is his, and no failure of this run.
            self._finish()
        return True

    # --- inside -----------------------------------------------------------------------------------

    def _await_end(self) -> None:
        if self.cancelled or self.error is not None:
            self._have_it_finished()
        else:
            self._lend()
            self.rings = self._set_alarm()

    def _set_alarm(self) -> bool:
        fd = None if self.alarm is None else self.alarm.fd
        last = [number for number in self.program.last_of_lanes if self._loop.has_event(number)]
        return fd is not None and all(self._loop.wake_at(number, fd) for number in last)

    def _have_it_finished(self) -> None:
        if not self._finishing:
            self._finishing = True
            self._worker.post(self._finish)
