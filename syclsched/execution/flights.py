# SPDX-License-Identifier: Apache-2.0
"""Runs of a bound plan in one call of C, for each choice of results that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.devices.command_list import CommandList
from syclsched.devices.flight import WELL, Flight, flight_of
from syclsched.devices.submission_loop import SubmissionLoop
from syclsched.execution.buffers import BufferTable, LiveBuffer, NumpyArray
from syclsched.execution.program import Program
from syclsched.execution.waiting import SLICE_S

#: Choices of results, each with a thread of its own; if there are more, all begin anew.
MOST = 8


class Flights:
    """Those of one generation."""

    def __init__(self, library: Any, loop: SubmissionLoop, program: Program, buffers: BufferTable) -> None:
        self._library = library
        self._loop = loop
        self._program = program
        self._buffers = buffers
        self._made: dict[tuple[str, ...], tuple[Flight | None, Sequence[LiveBuffer]]] = {}
        self._last: Flight | None = None
        #: Where it may write, from the moment it begins until it is known to have ended.
        self._written: dict[str, NumpyArray] | None = None

    def fly(self, commands: CommandList, names: tuple[str, ...]) -> dict[str, NumpyArray] | None:
        """Do all commands, and return copies of results; None if that cannot be, or `followed` has it now."""
        found = self._made.get(names)
        if found is None:
            if len(self._made) == MOST:
                self.close()
            found = self._made[names] = self._make(commands, names)
        self._last, buffers = found
        if self._last is None:
            return None
        self._written = {}
        self._last.begin()
        return self._end(self._last, names, buffers)

    def ready(self, names: tuple[str, ...]) -> Flight | None:
        """Return what `fly` took last for these results, if there was a way."""
        return self._made.get(names, (None,))[0]

    def fly_with(self, flight: Flight, given: tuple[Any, ...], names: tuple[str, ...]) -> dict[str, NumpyArray] | None:
        """As `fly`, with the commands of a flight's own, if it was the last one, and arrays as these want them."""
        if flight is not self._last or self.is_under_way:
            return None
        self._written = {}
        if not flight.begin_with(given):
            self._written = None
            return None
        return self._end(flight, names, self._made[names][1])

    def _end(
        self, flight: Flight, names: tuple[str, ...], buffers: Sequence[LiveBuffer]
    ) -> dict[str, NumpyArray] | None:
        """Fly what has begun."""
        assert self._written is not None
        results = self._written
        # While the devices are at it: each of these takes microseconds, with nothing of Python in the caches.
        for name, b in zip(names, buffers, strict=True):
            results[name] = np.empty(b.array.shape, b.array.dtype)
        targets = [each.__array_interface__["data"][0] for each in results.values()]
        if flight.fly(targets, SLICE_S) != WELL and self.followed() is not None:
            return None
        self._written = None
        return results

    @property
    def handed_ns(self) -> int | None:
        """See `syclsched.execution.bound.Runner.handed_over_ns`; None if there was none."""
        return None if self._last is None else self._last.handed_ns

    @property
    def is_under_way(self) -> bool:
        """Whether something was begun that is not known to have ended."""
        return self._written is not None

    def followed(self) -> Flight | None:
        """Return what goes on, or has ended otherwise than well; it must be landed."""
        if self._last is None or self._written is None:
            return None
        if self._last.follow():
            self._written = {}
            return self._last
        self._written = None
        return None

    def settle(self) -> None:
        """Wait until nothing is under way that nobody follows."""
        if self._last is not None:
            self._last.settle()

    def close(self) -> None:
        """End their threads; nothing must be under way."""
        for flight, _ in self._made.values():
            if flight is not None:
                flight.close()
        self._made.clear()
        self._last = self._written = None

    def _make(self, commands: CommandList, names: tuple[str, ...]) -> tuple[Flight | None, Sequence[LiveBuffer]]:
        finals, segments = self._program.final_buffers, self._program.segments
        # What nobody writes is the caller's own, and lies elsewhere the next time.
        if len(set(names)) < len(names) or any(
            name in segments or name not in finals or finals[name][1] is None for name in names
        ):
            return None, ()
        buffers = [self._buffers[finals[name][0]] for name in names]
        results = [(buffer.address, buffer.array.nbytes) for buffer in buffers]
        return flight_of(self._library, self._loop, commands, results), buffers
